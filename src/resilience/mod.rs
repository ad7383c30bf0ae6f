//! What stands at a partition's door besides its slots: deadline, rate, throttling, breaker, and
//! what decides whether a call that failed is offered again.
//!
//! Each machine here is pure. It reads no clock, takes no lock, blocks never and allocates nothing:
//! [`now`](crate::time::Time) and random bits are arguments, all memory is inline, and a step costs
//! some nanoseconds. So a partition keeps its machines under its one lock, a simulator drives the
//! same ones in virtual time, and a test replays any history exactly. A `now` that is a little
//! older than the one before (two threads read the clock, then took the lock in the other order) is
//! harmless everywhere.
//!
//! | at the door, in this order | machine | refusal | to undo, if the call then finds no slot |
//! | --- | --- | --- | --- |
//! | does the time left cover a useful run? | [`Deadline`](deadline::Deadline) | `timeout`, clock `deadline` | [`give_back`](deadline::Deadline::give_back), of the exception |
//! | has the backend asked for a pause? | [`Throttle`](throttle::Throttle) | `throttled`, `backend` | nothing |
//! | is it within the stated rate? | [`RateLimit`](rate::RateLimit) | `throttled`, `rate` | [`give_back`](rate::RateLimit::give_back) |
//! | does the backend work at all? | [`Breaker`](breaker::Breaker) | `circuit_open` | [`give_back`](breaker::Breaker::give_back) |
//!
//! When an attempt has ended badly, [`retry::Policy::decide`] says whether and when it is offered
//! again, within the partition's [`Budget`](budget::Budget) of retries.
//!
//! Knobs are plain data, a module's `Policy`. Whoever makes a machine has them checked; a
//! [`PolicyError`] tells which one is out of range, what is allowed, and what to write instead.

pub mod breaker;
pub mod budget;
mod check;
pub mod deadline;
mod random;
pub mod rate;
pub mod retry;
pub mod throttle;
mod window;

use std::time::Duration;

pub use crate::error::PolicyError;
pub(crate) use random::Random;

/// No hint is shorter: a millisecond is what callers are told in.
pub const RETRY_AFTER_MIN: Duration = Duration::from_millis(1);

/// When to come back, from now; at least [`RETRY_AFTER_MIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryAfter(Duration);

impl RetryAfter {
    fn new(left: Duration) -> RetryAfter {
        RetryAfter(left.max(RETRY_AFTER_MIN))
    }

    /// The time until then.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// A uniform share of `span`, from zero up to but not including `span`.
pub(crate) fn share(span: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(((u128::from(nanos) * u128::from(random)) >> 64) as u64)
}
