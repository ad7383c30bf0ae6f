//! What the end of a call says about its backend.

use crate::outcome::{CallError, Executed, FailureReason};

/// How a call ended that says something about its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It finished.
    Ok,
    /// It failed or panicked.
    Failed,
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
    /// | `failed`, because the call itself was wrong or the door shut (`invalid_call`, `unknown_tool`, `unknown_partition`, `closed`) | nothing |
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
        let Err(error) = result else {
            return Some(Ended::Ok);
        };
        match error {
            CallError::Failed(failure) => match failure.reason {
                FailureReason::InvalidCall
                | FailureReason::UnknownTool
                | FailureReason::UnknownPartition
                | FailureReason::Closed
                | FailureReason::Cancelled
                | FailureReason::Throttled => None,
                FailureReason::Limit => Some(Ended::TimedOut),
                _ => Some(Ended::Failed),
            },
            CallError::Panicked { .. } => Some(Ended::Failed),
            CallError::Timeout { executed: Executed::No, .. } => None,
            CallError::Timeout { .. } => Some(Ended::TimedOut),
            CallError::Busy { .. }
            | CallError::CircuitOpen { .. }
            | CallError::Throttled { .. }
            | CallError::Cancelled { .. } => None,
        }
    }
}
