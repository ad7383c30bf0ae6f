//! Deadlines at the door: a call whose remaining time cannot cover a useful run is refused at once,
//! and no wait eats what the run needs.
//!
//! | time left | answer |
//! | --- | --- |
//! | no deadline | wait up to `max_wait` |
//! | none | [`TooShort`] |
//! | less than a useful run | [`TooShort`]; with [`MinRun::Auto`] one in twenty of these goes on, without waiting |
//! | at least that | wait up to `max_wait`, or what the run leaves if that is less |
//!
//! [`MinRun::Auto`] learns what a useful run is: the median of the last 63 runs that went well, none
//! of them older than five minutes; nothing as long as there are fewer than eight. The exception of
//! one in twenty keeps a slow spell from locking the door for ever: it brings in fresh runs.
//!
//! ```
//! use std::time::Duration;
//! use watertight::resilience::deadline::{Deadline, MinRun, TooShort};
//! use watertight::time::Time;
//!
//! let (second, max_wait) = (Duration::from_secs(1), Duration::from_secs(5));
//! let mut door = Deadline::new(MinRun::Fixed(second), Duration::from_secs(30))?;
//!
//! let now = Time::ZERO;
//! assert_eq!(door.admit(now, None, max_wait), Ok(max_wait));
//! assert_eq!(door.admit(now, Some(now + 3 * second), max_wait), Ok(2 * second));
//! assert_eq!(door.admit(now, Some(now + second / 2), max_wait), Err(TooShort));
//! # Ok::<(), watertight::resilience::PolicyError>(())
//! ```

mod sample;

use std::time::Duration;

use super::{PolicyError, check};
use crate::time::Time;

use sample::Sample;

/// Of the calls that seem too short, one in so many goes on all the same.
const EXCEPTION: u32 = 20;

/// What a useful run needs at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinRun {
    /// This much; zero, the default: whatever time is left is enough. At most the run limit.
    Fixed(Duration),
    /// What half of the recent successful runs needed.
    Auto,
}

impl Default for MinRun {
    fn default() -> MinRun {
        MinRun::Fixed(Duration::ZERO)
    }
}

/// The call's remaining time does not cover a useful run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TooShort;

/// Judges deadlines at the door. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    min_run: MinRun,
    sample: Sample,
    /// Calls that seemed too short since the last exception.
    too_short: u32,
    /// Whether the last call that was let through was an exception.
    excepted: bool,
}

impl Deadline {
    /// One that has seen no run yet, of calls that may run for `run_limit`.
    ///
    /// # Errors
    ///
    /// A fixed `min_run` above `run_limit`: no run could ever have it.
    pub fn new(min_run: MinRun, run_limit: Duration) -> Result<Deadline, PolicyError> {
        if let MinRun::Fixed(span) = min_run {
            let advice = ("must be at most run_limit", "lower it or raise run_limit");
            check::span("min_run", span, Duration::ZERO..=run_limit, advice)?;
        }
        Ok(Deadline { min_run, ..Deadline::default() })
    }

    /// How long a call with this `deadline` may wait for a slot, at most `max_wait`; zero: only a
    /// slot that is free now will do.
    ///
    /// # Errors
    ///
    /// [`TooShort`] if there is no use in starting it.
    pub fn admit(
        &mut self,
        now: Time,
        deadline: Option<Time>,
        max_wait: Duration,
    ) -> Result<Duration, TooShort> {
        self.excepted = false;
        let Some(deadline) = deadline else {
            return Ok(max_wait);
        };
        let left = deadline - now;
        if left.is_zero() {
            return Err(TooShort);
        }
        match left.checked_sub(self.min_run(now)) {
            Some(spare) => Ok(spare.min(max_wait)),
            None if self.is_exception() => Ok(Duration::ZERO),
            None => Err(TooShort),
        }
    }

    /// Whether the call that was let through last is the exception: one in twenty.
    pub fn excepted(&self) -> bool {
        self.excepted
    }

    /// Takes back an exception that came to no run: the next call that seems too short is one.
    pub fn give_back(&mut self) {
        self.too_short = EXCEPTION - 1;
    }

    /// Learns from a run that went well and took `ran`. Nothing, unless `min_run` is
    /// [`MinRun::Auto`].
    pub fn record(&mut self, now: Time, ran: Duration) {
        if self.min_run == MinRun::Auto {
            self.sample.add(now, ran);
        }
    }

    /// What a useful run needs at `now`.
    pub fn min_run(&mut self, now: Time) -> Duration {
        match self.min_run {
            MinRun::Fixed(span) => span,
            MinRun::Auto => self.sample.median(now).unwrap_or_default(),
        }
    }

    fn is_exception(&mut self) -> bool {
        if self.min_run != MinRun::Auto {
            return false;
        }
        self.too_short += 1;
        self.excepted = self.too_short == EXCEPTION;
        if self.excepted {
            self.too_short = 0;
        }
        self.excepted
    }
}
