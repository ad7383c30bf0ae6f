//! A breaker as it is seen from outside.

use crate::resilience::RetryAfter;

/// What a breaker looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its state.
    pub state: State,
    /// When to come back, if a call would be refused now.
    pub retry_after: Option<RetryAfter>,
    /// Calls in the window, or probes of this round that have ended.
    pub calls: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those of them that were slow, failed or not.
    pub slow: u64,
    /// How often it has opened by itself.
    pub openings: u64,
}

/// The states of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Calls pass.
    Closed,
    /// Calls are refused until the cool-down is over.
    Open,
    /// Probes decide; all other calls are refused.
    HalfOpen,
    /// Calls are refused until somebody closes it.
    HeldOpen,
}

impl State {
    /// As in snapshots: `closed`, `open`, `half_open`, `held_open`.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::Open => "open",
            State::HalfOpen => "half_open",
            State::HeldOpen => "held_open",
        }
    }
}
