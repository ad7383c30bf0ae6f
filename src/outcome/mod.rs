//! What a caller gets: always a value, never a hang.

mod earlier;
mod failure;
#[cfg(feature = "json")]
mod json;
mod wording;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use earlier::EarlierAttempt;
pub use failure::{Evidence, Failure, FailureReason};
pub(crate) use wording::ENOUGH_ATTEMPTS;

/// The end of one call: its result, and where and how long it took.
///
/// Everything a harness needs to go on is in it: whether anything was [executed](Executed), and
/// when to come back, if at all.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// How the call ended.
    pub result: Result<T, CallError>,
    /// The partition it was offered to; empty if there is no such partition.
    pub partition: Arc<str>,
    /// The tool it named, if it named one.
    pub tool: Option<Arc<str>>,
    /// Which attempt at the same logical call it was, from 1: the caller's count, and one more for
    /// each time that the runtime has attempted it again, or was about to when it was cancelled.
    pub attempt: u32,
    /// How long each phase took, of the last attempt.
    pub timing: Timing,
    /// What the runtime attempted before, oldest first; empty if nothing was retried.
    pub earlier: Vec<EarlierAttempt>,
}

/// How long the phases of a call took, on the runtime's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// From the offer to the start, or to the end of a call that never started.
    pub waited: Duration,
    /// From the start to the answer; zero if it never started.
    pub ran: Duration,
}

/// Why a call did not end well.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The body or the backend said no, or the call could not be made.
    Failed(Failure),
    /// The body panicked.
    Panicked {
        /// The panic's message; empty if it had none.
        message: String,
    },
    /// No slot came free in time, or there was no room to wait. Nothing was executed.
    Busy {
        /// What was full.
        reason: BusyReason,
        /// When a slot is likely free; none for a call that must not come back by itself.
        retry_after: Option<Duration>,
    },
    /// The breaker is open. Nothing was executed.
    CircuitOpen {
        /// The time to the next probe.
        retry_after: Duration,
    },
    /// The backend, or the partition's own rate, asks for a pause.
    Throttled {
        /// Who asks.
        by: ThrottledBy,
        /// Whether the call was executed all the same.
        executed: Executed,
        /// When the pause ends.
        retry_after: Duration,
    },
    /// A limit ran out.
    Timeout {
        /// Which one.
        clock: TimeoutClock,
        /// `No` if the call never started.
        executed: Executed,
        /// What the driver can show of the work it ended.
        evidence: Evidence,
    },
    /// It was called off.
    Cancelled {
        /// By whom.
        by: CancelledBy,
        /// `No` if the call never started.
        executed: Executed,
        /// What the driver can show of the work it ended.
        evidence: Evidence,
    },
}

/// How a call ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is explained at `CallError`")]
pub enum Status {
    Ok,
    Failed,
    Panicked,
    Busy,
    CircuitOpen,
    Throttled,
    Timeout,
    Cancelled,
}

/// Whether the backend did the work. Only `No` invites a plain retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Executed {
    /// It did.
    Yes,
    /// It did not begin.
    No,
    /// It may have.
    Unknown,
}

/// What was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BusyReason {
    /// No slot came free within the wait.
    SlotsFull,
    /// The same, and every slot is held by an overdue call.
    SlotsStuck,
    /// Nobody else may wait.
    QueueFull,
    /// Nobody else of this tenant may wait.
    TenantQueueFull,
    /// The place in the queue went to a tenant with fewer waiters.
    Displaced,
    /// The call was made from inside this partition, which is full: waiting could deadlock.
    Reentrant,
}

/// Who asks for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThrottledBy {
    /// The backend (429, or 503 with Retry-After).
    Backend,
    /// The partition's own rate limit.
    Rate,
}

/// The limit that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutClock {
    /// The partition's `run_limit`.
    Run,
    /// The caller's own deadline.
    Deadline,
}

/// Who called it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelledBy {
    /// The caller: by `cancel`, or by dropping the ticket.
    Caller,
    /// The runtime is shutting down.
    Shutdown,
}

impl<T> Outcome<T> {
    /// How the call ended, in one word.
    pub fn status(&self) -> Status {
        self.result.as_ref().err().map_or(Status::Ok, CallError::status)
    }

    /// Whether it finished well.
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// The result, if it finished well.
    pub fn ok(self) -> Option<T> {
        self.result.ok()
    }

    /// Whether the backend did the work, in this attempt or an earlier one.
    pub fn executed(&self) -> Executed {
        let last = self.result.as_ref().err().map_or(Executed::Yes, CallError::executed);
        self.earlier.iter().fold(last, |executed, earlier| executed.or(earlier.executed))
    }

    /// When to come back; `None`: do not, at least not by itself.
    pub fn retry_after(&self) -> Option<Duration> {
        self.result.as_ref().err().and_then(CallError::retry_after)
    }

    /// The end in `error` of a call that the runtime has attempted once at most.
    pub(crate) fn of_error(
        error: CallError,
        (partition, tool): (Arc<str>, Option<Arc<str>>),
        attempt: u32,
        timing: Timing,
    ) -> Outcome<T> {
        Outcome { result: Err(error), partition, tool, attempt, timing, earlier: Vec::new() }
    }

    /// The same outcome with its result made into another.
    pub(crate) fn with<U>(
        self,
        f: impl FnOnce(Result<T, CallError>) -> Result<U, CallError>,
    ) -> Outcome<U> {
        Outcome {
            result: f(self.result),
            partition: self.partition,
            tool: self.tool,
            attempt: self.attempt,
            timing: self.timing,
            earlier: self.earlier,
        }
    }
}

impl CallError {
    /// How the call ended, in one word.
    pub fn status(&self) -> Status {
        match self {
            CallError::Failed(_) => Status::Failed,
            CallError::Panicked { .. } => Status::Panicked,
            CallError::Busy { .. } => Status::Busy,
            CallError::CircuitOpen { .. } => Status::CircuitOpen,
            CallError::Throttled { .. } => Status::Throttled,
            CallError::Timeout { .. } => Status::Timeout,
            CallError::Cancelled { .. } => Status::Cancelled,
        }
    }

    /// Whether the backend did the work.
    pub fn executed(&self) -> Executed {
        match self {
            CallError::Failed(failure) => failure.executed,
            CallError::Panicked { .. } => Executed::Yes,
            CallError::Busy { .. } | CallError::CircuitOpen { .. } => Executed::No,
            CallError::Throttled { executed, .. }
            | CallError::Timeout { executed, .. }
            | CallError::Cancelled { executed, .. } => *executed,
        }
    }

    /// When to come back; `None`: do not, at least not by itself.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Failed(failure) => failure.retry_after,
            CallError::Busy { retry_after, .. } => *retry_after,
            CallError::CircuitOpen { retry_after } | CallError::Throttled { retry_after, .. } => {
                Some(*retry_after)
            }
            CallError::Panicked { .. }
            | CallError::Timeout { .. }
            | CallError::Cancelled { .. } => None,
        }
    }

    /// What the driver can show of the call.
    pub fn evidence(&self) -> Option<&Evidence> {
        match self {
            CallError::Failed(failure) => Some(&failure.evidence),
            CallError::Timeout { evidence, .. } | CallError::Cancelled { evidence, .. } => {
                Some(evidence)
            }
            CallError::Panicked { .. }
            | CallError::Busy { .. }
            | CallError::CircuitOpen { .. }
            | CallError::Throttled { .. } => None,
        }
    }

    /// The reason or the clock, in one word; empty where the status says it all.
    pub fn reason(&self) -> &'static str {
        match self {
            CallError::Failed(failure) => failure.reason.as_str(),
            CallError::Busy { reason, .. } => reason.as_str(),
            CallError::Throttled { by: ThrottledBy::Backend, .. } => "backend",
            CallError::Throttled { by: ThrottledBy::Rate, .. } => "rate",
            CallError::Timeout { clock: TimeoutClock::Run, .. } => "run",
            CallError::Timeout { clock: TimeoutClock::Deadline, .. } => "deadline",
            CallError::Cancelled { by: CancelledBy::Caller, .. } => "caller",
            CallError::Cancelled { by: CancelledBy::Shutdown, .. } => "shutdown",
            CallError::Panicked { .. } | CallError::CircuitOpen { .. } => "",
        }
    }
}

/// For people; [`Outcome::detail`] has the words for models.
impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status().as_str())?;
        match self.reason() {
            "" => {}
            reason => write!(f, " ({reason})")?,
        }
        match self {
            CallError::Failed(Failure { message, .. }) | CallError::Panicked { message } => {
                write!(f, ": {message}")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for CallError {}

impl Status {
    /// As in JSON: `ok`, `failed`, `panicked`, `busy`, `circuit_open`, `throttled`, `timeout`,
    /// `cancelled`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Failed => "failed",
            Status::Panicked => "panicked",
            Status::Busy => "busy",
            Status::CircuitOpen => "circuit_open",
            Status::Throttled => "throttled",
            Status::Timeout => "timeout",
            Status::Cancelled => "cancelled",
        }
    }
}

impl Executed {
    /// Whether it was done once or the other time.
    pub(crate) fn or(self, other: Executed) -> Executed {
        match (self, other) {
            (Executed::Yes, _) | (_, Executed::Yes) => Executed::Yes,
            (Executed::Unknown, _) | (_, Executed::Unknown) => Executed::Unknown,
            (Executed::No, Executed::No) => Executed::No,
        }
    }

    /// As in JSON: `yes`, `no`, `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Executed::Yes => "yes",
            Executed::No => "no",
            Executed::Unknown => "unknown",
        }
    }
}

impl BusyReason {
    /// As in JSON, such as `slots_full`.
    pub const fn as_str(self) -> &'static str {
        match self {
            BusyReason::SlotsFull => "slots_full",
            BusyReason::SlotsStuck => "slots_stuck",
            BusyReason::QueueFull => "queue_full",
            BusyReason::TenantQueueFull => "tenant_queue_full",
            BusyReason::Displaced => "displaced",
            BusyReason::Reentrant => "reentrant",
        }
    }
}
