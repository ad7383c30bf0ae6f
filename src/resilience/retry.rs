//! Retries: whether an attempt that ended badly is followed by another, and when.
//!
//! Full-jitter back-off: before the *n*-th retry the wait is drawn uniformly from zero up to
//! `min(backoff_max, backoff × 2ⁿ⁻¹)`. The formula is "Full Jitter" of *Exponential Backoff And
//! Jitter* (AWS Architecture Blog, 2015), which needs the least work of those compared there. Where
//! the backend or the door has said when to come back, the draw is added to that, so that nobody
//! comes before it and not all come on it.
//!
//! [`decide`](Policy::decide) asks in this order; the first no counts:
//!
//! | question | no |
//! | --- | --- |
//! | is this how it must have ended to be retried ([`Kinds`])? | [`NotChosen`](Why::NotChosen) |
//! | was nothing executed, or does repeating it do no harm? | [`MayHaveRun`](Why::MayHaveRun) |
//! | is an attempt left? | [`Attempts`](Why::Attempts) |
//! | has nobody asked for a pause of more than an hour? | [`TooLong`](Why::TooLong) |
//! | do the wait and a useful run fit into what is left of the deadline? | [`Deadline`](Why::Deadline) |
//! | has the partition's [budget](super::budget) room? | [`Budget`](Why::Budget) |
//!
//! ```
//! use std::time::Duration;
//! use watertight::outcome::{CallError, Evidence, Executed, TimeoutClock};
//! use watertight::resilience::budget::{self, Budget};
//! use watertight::resilience::retry::{Attempt, Policy, Retry, Why};
//! use watertight::time::Time;
//!
//! let policy = Policy::default();
//! let mut budget = Budget::new(budget::Policy::default())?;
//! let timeout = CallError::Timeout {
//!     clock: TimeoutClock::Run,
//!     executed: Executed::Unknown,
//!     evidence: Evidence::default(),
//! };
//!
//! let random = u64::MAX / 2;
//! let attempt = Attempt::new(1, &timeout);
//! assert_eq!(policy.decide(Time::ZERO, attempt, &mut budget, random), Retry::No(Why::MayHaveRun));
//!
//! let attempt = Attempt { repeatable: true, ..attempt };
//! let Retry::After(wait) = policy.decide(Time::ZERO, attempt, &mut budget, random) else { unreachable!() };
//! assert_eq!(wait.as_millis(), 49, "half of 100 ms, just about");
//! budget.start(Time::ZERO + wait);
//! # Ok::<(), watertight::resilience::PolicyError>(())
//! ```

mod kinds;

use std::time::Duration;

use super::budget::Budget;
use super::check::{self, HOUR};
use super::{PolicyError, share};
use crate::outcome::{CallError, Executed};
use crate::time::Time;

pub use kinds::Kinds;

/// The knobs of a tool's retries. [`Policy::check`] says what is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// How often a call is attempted at most, the first time included. Defaults to 3; 1: never
    /// again; 0 is refused; at most 100.
    pub attempts: u32,
    /// The longest wait before the first retry; it doubles with each. Defaults to 100 ms; 0: no
    /// wait but what the backend or the door asks for. At most `backoff_max`.
    pub backoff: Duration,
    /// The longest wait before any retry, again not counting what is asked for. Defaults to 10 s;
    /// at most an hour.
    pub backoff_max: Duration,
    /// How an attempt must have ended to be retried. Defaults to [`Kinds::default`].
    pub on: Kinds,
    /// Whether doing the call twice is as good as once, so that one that may have been executed is
    /// attempted again. Defaults to false.
    pub idempotent: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            attempts: 3,
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            on: Kinds::default(),
            idempotent: false,
        }
    }
}

/// An attempt that ended badly.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Which attempt at the call it was, from 1.
    pub number: u32,
    /// How it ended.
    pub error: &'a CallError,
    /// Whether doing this call twice is as good as once although its kind is not idempotent: it has
    /// an idempotency key that the backend honours.
    pub repeatable: bool,
    /// What is left of the caller's deadline; `None`: there is none.
    pub left: Option<Duration>,
    /// What the next attempt needs of it to be of use.
    pub min_run: Duration,
}

impl<'a> Attempt<'a> {
    /// Attempt `number` ended in `error`: of a call that must not be repeated and has no deadline.
    pub fn new(number: u32, error: &'a CallError) -> Attempt<'a> {
        Attempt { number, error, repeatable: false, left: None, min_run: Duration::ZERO }
    }
}

/// Whether the call is attempted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Yes, when this has passed. It has been counted in the budget as scheduled.
    After(Duration),
    /// No.
    No(Why),
}

/// Why a call is not attempted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Ends of this kind are not retried.
    NotChosen,
    /// It may have been executed, and must not be twice.
    MayHaveRun,
    /// It was the last attempt.
    Attempts,
    /// The backend or the door asks for a pause of more than an hour, which nobody sits out.
    TooLong,
    /// The deadline would pass first.
    Deadline,
    /// The partition's retry budget is spent.
    Budget,
}

impl Policy {
    /// Checks every knob.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn check(&self) -> Result<(), PolicyError> {
        let advice = ("must be 1 to 100, the first included", "for no retry write 1");
        check::count("attempts", self.attempts, 1..=100, advice)?;
        let advice = ("must be 0s to 1h", "ten seconds suit most backends");
        check::span("backoff_max", self.backoff_max, Duration::ZERO..=HOUR, advice)?;
        let advice = ("must be at most backoff_max", "lower it or raise backoff_max");
        check::span("backoff", self.backoff, Duration::ZERO..=self.backoff_max, advice)
    }

    /// Whether `attempt` is followed by another, and when. A yes is counted in `budget`, and ends
    /// in [`Budget::start`] or [`Budget::cancel`]. `random` are uniform random bits.
    pub fn decide(
        &self,
        now: Time,
        attempt: Attempt<'_>,
        budget: &mut Budget,
        random: u64,
    ) -> Retry {
        if let Some(why) = self.rules_out(&attempt) {
            return Retry::No(why);
        }
        let asked = attempt.error.retry_after().unwrap_or_default();
        if asked > HOUR {
            return Retry::No(Why::TooLong);
        }
        let wait = asked.saturating_add(share(self.backoff(attempt.number), random));
        if attempt.left.is_some_and(|left| wait.saturating_add(attempt.min_run) >= left) {
            return Retry::No(Why::Deadline);
        }
        if budget.schedule(now) { Retry::After(wait) } else { Retry::No(Why::Budget) }
    }

    /// Why `attempt` is not followed by another, whatever time and budget are left, if so.
    pub fn rules_out(&self, attempt: &Attempt<'_>) -> Option<Why> {
        let harmless = self.idempotent || attempt.repeatable;
        if !self.on.contains(attempt.error) {
            Some(Why::NotChosen)
        } else if attempt.error.executed() != Executed::No && !harmless {
            Some(Why::MayHaveRun)
        } else {
            (attempt.number >= self.attempts).then_some(Why::Attempts)
        }
    }

    /// The longest wait after attempt `number`, not counting what is asked for.
    fn backoff(&self, number: u32) -> Duration {
        let doubled = 2_u32.checked_pow(number.saturating_sub(1)).unwrap_or(u32::MAX);
        self.backoff.saturating_mul(doubled).min(self.backoff_max)
    }
}

impl Why {
    /// In one word: `not_chosen`, `may_have_run`, `attempts`, `too_long`, `deadline`,
    /// `budget`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Why::NotChosen => "not_chosen",
            Why::MayHaveRun => "may_have_run",
            Why::Attempts => "attempts",
            Why::TooLong => "too_long",
            Why::Deadline => "deadline",
            Why::Budget => "budget",
        }
    }
}
