//! A no, and what there is to show for it.

use std::time::Duration;

use super::Executed;

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
    /// Whether it is a refusal, if that was said; else it follows from the reason.
    pub(crate) refusal: Option<bool>,
}

/// The kinds of no. A driver's `Limit`, `Cancelled` and `Throttled` become a
/// [`CallError`](super::CallError) of their own.
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
        Evidence { shown: Some(Box::new(value)) }
    }

    /// What there is to show.
    #[cfg(feature = "json")]
    pub fn value(&self) -> Option<&serde_json::Value> {
        self.shown.as_deref()
    }
}

impl Failure {
    /// A failure of a call that was executed; or was not, if the reason says that it never came to it:
    /// `InvalidCall`, `UnknownTool`, `UnknownPartition`, `Closed`, `Connect`, `PoolExhausted`, `Spawn`.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Failure {
        Failure {
            refusal: None,
            reason,
            message: message.into(),
            executed: if reason.is_before_the_work() { Executed::No } else { Executed::Yes },
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

    /// Says whether the backend works and said no to this very call, which is nothing that a breaker
    /// would open for. Without a word it follows from the reason: `query_failed`, `exit_code`,
    /// `redirect`, `too_large` and `decode` are such a no.
    #[must_use]
    pub fn refusal(mut self, refusal: bool) -> Failure {
        self.refusal = Some(refusal);
        self
    }

    /// Whether the backend works and said no to this very call.
    pub fn is_refusal(&self) -> bool {
        let by_reason = matches!(
            self.reason,
            FailureReason::QueryFailed
                | FailureReason::ExitCode
                | FailureReason::Redirect
                | FailureReason::TooLarge
                | FailureReason::Decode
        );
        self.refusal.unwrap_or(by_reason)
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

impl FailureReason {
    /// Whether a call that fails so has not reached its backend.
    const fn is_before_the_work(self) -> bool {
        matches!(
            self,
            FailureReason::InvalidCall
                | FailureReason::UnknownTool
                | FailureReason::UnknownPartition
                | FailureReason::Closed
                | FailureReason::Connect
                | FailureReason::PoolExhausted
                | FailureReason::Spawn
        )
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_follows_the_reason_unless_it_was_said() {
        let mut failure = Failure::new(FailureReason::ExitCode, "code 1");
        assert!(failure.is_refusal());
        failure.reason = FailureReason::Signal;
        assert!(!failure.is_refusal(), "the reason has changed");
        let mut failure = failure.refusal(true);
        failure.reason = FailureReason::Error;
        assert!(failure.is_refusal(), "it was said");
    }
}
