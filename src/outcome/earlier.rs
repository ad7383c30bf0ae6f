//! Attempts that were followed by another.

use std::time::Duration;

use super::{CallError, Executed, Status, Timing};

/// An attempt at a call that did not go well, after which the runtime attempted it again.
///
/// ```
/// use watertight::call::Terms;
/// use watertight::outcome::{Failure, FailureReason, Status};
/// use watertight::resilience::retry::Policy;
/// use watertight::{PartitionSpec, Runtime};
///
/// let runtime = Runtime::builder().partition(PartitionSpec::new("search").slots(1)).build()?;
/// let search = runtime.partition("search").expect("it was just built");
/// let policy = Policy { idempotent: true, ..Policy::default() };
/// let outcome = search.call_with_retry(Terms::new(), policy, |run| match run.attempt() {
///     1 => Err(Failure::new(FailureReason::Connect, "not there yet")),
///     attempt => Ok(attempt),
/// });
/// assert_eq!(outcome.earlier.len(), 1);
/// assert_eq!(outcome.earlier[0].reason, "connect");
/// assert_eq!(outcome.ok(), Some(2));
/// # Ok::<(), watertight::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierAttempt {
    /// How it ended.
    pub status: Status,
    /// The reason or the clock, in one word; empty where the status says it all.
    pub reason: &'static str,
    /// Whether the backend did the work.
    pub executed: Executed,
    /// How long its phases took.
    pub timing: Timing,
    /// How long the call then slept, holding nothing.
    pub backoff: Duration,
}

impl EarlierAttempt {
    pub(crate) fn new(error: &CallError, timing: Timing, backoff: Duration) -> EarlierAttempt {
        let (status, reason, executed) = (error.status(), error.reason(), error.executed());
        EarlierAttempt { status, reason, executed, timing, backoff }
    }
}
