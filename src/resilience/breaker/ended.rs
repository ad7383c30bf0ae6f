//! What the end of a call says about its backend.

use crate::outcome::{CallError, Executed, Failure, FailureReason};

/// How a call ended that says something about its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It finished.
    Ok,
    /// It failed or panicked.
    Failed,
    /// The backend worked, and said no to this very call: not found, a wrong query, a linter's
    /// exit code. Counted as a success or as a failure, as
    /// [`Policy::count_refusals`](super::Policy::count_refusals) says.
    Refused,
    /// It was ended by a limit while it ran. Counted as a failure or not at all, as
    /// [`Policy::count_timeouts`](super::Policy::count_timeouts) says.
    TimedOut,
}

impl Ended {
    /// What `result` says about the backend; `None`: nothing, give the call back.
    ///
    /// | result | |
    /// | --- | --- |
    /// | `ok` | `Ok` |
    /// | `failed`, `panicked` | `Failed` |
    /// | `failed`, although the backend works (`query_failed`, `exit_code`, `redirect`, `too_large`, `decode`, an `http_status` below 500: [`Failure::is_refusal`]) | `Refused` |
    /// | `failed`, because the call itself was wrong or the door shut (`invalid_call`, `unknown_tool`, `unknown_partition`, `closed`), or somebody else ended it (`query_cancelled`) | nothing |
    /// | `timeout` while it ran, on either clock | `TimedOut` |
    /// | `timeout` before it ran | nothing |
    /// | `busy`, `circuit_open`, `throttled`, `cancelled` | nothing |
    ///
    /// ```
    /// use watertight::outcome::{CallError, Failure, FailureReason};
    /// use watertight::resilience::breaker::Ended;
    ///
    /// let refused = Failure::new(FailureReason::Connect, "connection refused");
    /// assert_eq!(Ended::of(&Err::<(), _>(CallError::Failed(refused))), Some(Ended::Failed));
    /// let typo = Failure::new(FailureReason::InvalidCall, "missing argument `q`");
    /// assert_eq!(Ended::of(&Err::<(), _>(CallError::Failed(typo))), None);
    /// ```
    pub fn of<T>(result: &Result<T, CallError>) -> Option<Ended> {
        match result {
            Ok(_) => Some(Ended::Ok),
            Err(error) => Ended::of_error(error),
        }
    }

    /// The same for a call that did not end well.
    pub fn of_error(error: &CallError) -> Option<Ended> {
        match error {
            CallError::Failed(failure) => Ended::of_failure(failure),
            CallError::Panicked { .. } => Some(Ended::Failed),
            CallError::Timeout { executed: Executed::No, .. } => None,
            CallError::Timeout { .. } => Some(Ended::TimedOut),
            CallError::Busy { .. }
            | CallError::CircuitOpen { .. }
            | CallError::Throttled { .. }
            | CallError::Cancelled { .. } => None,
        }
    }

    fn of_failure(failure: &Failure) -> Option<Ended> {
        match failure.reason {
            FailureReason::InvalidCall
            | FailureReason::UnknownTool
            | FailureReason::UnknownPartition
            | FailureReason::Closed
            | FailureReason::Cancelled
            | FailureReason::QueryCancelled
            | FailureReason::Throttled => None,
            FailureReason::Limit => Some(Ended::TimedOut),
            _ if failure.is_refusal() => Some(Ended::Refused),
            _ => Some(Ended::Failed),
        }
    }
}
