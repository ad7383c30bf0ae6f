//! What a caller gets: always a value, never a hang.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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
    /// How long each phase took.
    pub timing: Timing,
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

/// A no from a body, a backend or the door, with its reason.
///
/// Any error turns into one with `?`, as in `std::fs::read(path)?`: reason
/// [`Error`](FailureReason::Error), executed yes, the error's own text. Say more with
/// [`Failure::new`] where it is known:
///
/// ```
/// use watertight::outcome::{Executed, Failure, FailureReason};
///
/// let refused = Failure::new(FailureReason::Connect, "connection refused").executed(Executed::No);
/// assert_eq!(refused.reason.as_str(), "connect");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What kind of no.
    pub reason: FailureReason,
    /// In words a model may read: no stack trace, no credential.
    pub message: String,
    /// Whether the backend did the work.
    pub executed: Executed,
    /// When the backend asks to be called again.
    pub retry_after: Option<Duration>,
    /// What the driver can show.
    pub evidence: Evidence,
}

/// The kinds of no. A driver's `Limit`, `Cancelled` and `Throttled` become a [`CallError`] of their
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureReason {
    /// An error of the body, not told apart further.
    Error,
    /// An argument is missing, unknown or of the wrong type.
    InvalidCall,
    /// No such tool.
    UnknownTool,
    /// No such partition.
    UnknownPartition,
    /// The partition or the runtime takes no calls any more.
    Closed,
    /// The connection could not be made: refused, no such host, no TLS.
    Connect,
    /// The backend's connections are all in use by others.
    PoolExhausted,
    /// The backend went away.
    ServerDown,
    /// The backend refused the query.
    QueryFailed,
    /// Someone else cancelled the query.
    QueryCancelled,
    /// An HTTP status that is no success.
    HttpStatus,
    /// Not HTTP, or not complete.
    HttpProtocol,
    /// Too many redirects, or one that is not allowed.
    Redirect,
    /// More than may be kept.
    TooLarge,
    /// The program, its directory or its permission is missing.
    Spawn,
    /// The program ended with a code that is no success.
    ExitCode,
    /// The program was ended by a signal.
    Signal,
    /// The result could not be decoded.
    Decode,
    /// For drivers: the work was ended at its run limit.
    Limit,
    /// For drivers: the work was ended by a cancel.
    Cancelled,
    /// For drivers: the backend asks for a pause of `retry_after`.
    Throttled,
}

/// What a driver can show of a call that did not end well: an exit code, a status, the tail of what
/// a process wrote. Never a header's value or a credential. Empty without the feature `json`.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    #[cfg(feature = "json")]
    shown: Option<Box<serde_json::Value>>,
}

impl Evidence {
    /// Evidence that shows `value`.
    #[cfg(feature = "json")]
    pub fn new(value: serde_json::Value) -> Evidence {
        Evidence {
            shown: Some(Box::new(value)),
        }
    }

    /// What there is to show.
    #[cfg(feature = "json")]
    pub fn value(&self) -> Option<&serde_json::Value> {
        self.shown.as_deref()
    }
}

impl<T> Outcome<T> {
    /// How the call ended, in one word.
    pub fn status(&self) -> Status {
        self.result
            .as_ref()
            .err()
            .map_or(Status::Ok, CallError::status)
    }

    /// Whether it finished well.
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// The result, if it finished well.
    pub fn ok(self) -> Option<T> {
        self.result.ok()
    }

    /// Whether the backend did the work.
    pub fn executed(&self) -> Executed {
        self.result
            .as_ref()
            .err()
            .map_or(Executed::Yes, CallError::executed)
    }

    /// When to come back; `None`: do not, at least not by itself.
    pub fn retry_after(&self) -> Option<Duration> {
        self.result.as_ref().err().and_then(CallError::retry_after)
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
            timing: self.timing,
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

    /// The reason or the clock, in one word; empty where the status says it all.
    pub fn reason(&self) -> &'static str {
        match self {
            CallError::Failed(failure) => failure.reason.as_str(),
            CallError::Busy { reason, .. } => reason.as_str(),
            CallError::Throttled {
                by: ThrottledBy::Backend,
                ..
            } => "backend",
            CallError::Throttled {
                by: ThrottledBy::Rate,
                ..
            } => "rate",
            CallError::Timeout {
                clock: TimeoutClock::Run,
                ..
            } => "run",
            CallError::Timeout {
                clock: TimeoutClock::Deadline,
                ..
            } => "deadline",
            CallError::Cancelled {
                by: CancelledBy::Caller,
                ..
            } => "caller",
            CallError::Cancelled {
                by: CancelledBy::Shutdown,
                ..
            } => "shutdown",
            CallError::Panicked { .. } | CallError::CircuitOpen { .. } => "",
        }
    }
}

/// For people; `Outcome::to_json` has the words for models.
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

impl Failure {
    /// A failure of a call that was executed.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Failure {
        Failure {
            reason,
            message: message.into(),
            executed: Executed::Yes,
            retry_after: None,
            evidence: Evidence::default(),
        }
    }

    /// Says whether the backend did the work.
    #[must_use]
    pub fn executed(mut self, executed: Executed) -> Failure {
        self.executed = executed;
        self
    }

    /// Says when the backend asks to be called again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Failure {
        self.retry_after = Some(after);
        self
    }

    /// Shows what there is to show.
    #[cfg(feature = "json")]
    #[must_use]
    pub fn evidence(mut self, value: serde_json::Value) -> Failure {
        self.evidence = Evidence::new(value);
        self
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(FailureReason::Error, error.to_string())
    }
}

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

impl FailureReason {
    /// As in JSON, such as `invalid_call`.
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureReason::Error => "error",
            FailureReason::InvalidCall => "invalid_call",
            FailureReason::UnknownTool => "unknown_tool",
            FailureReason::UnknownPartition => "unknown_partition",
            FailureReason::Closed => "closed",
            FailureReason::Connect => "connect",
            FailureReason::PoolExhausted => "pool_exhausted",
            FailureReason::ServerDown => "server_down",
            FailureReason::QueryFailed => "query_failed",
            FailureReason::QueryCancelled => "query_cancelled",
            FailureReason::HttpStatus => "http_status",
            FailureReason::HttpProtocol => "http_protocol",
            FailureReason::Redirect => "redirect",
            FailureReason::TooLarge => "too_large",
            FailureReason::Spawn => "spawn",
            FailureReason::ExitCode => "exit_code",
            FailureReason::Signal => "signal",
            FailureReason::Decode => "decode",
            FailureReason::Limit => "limit",
            FailureReason::Cancelled => "cancelled",
            FailureReason::Throttled => "throttled",
        }
    }
}
