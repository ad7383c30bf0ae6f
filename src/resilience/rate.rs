//! A partition's own rate limit: no backend sees more calls than it is said to take.
//!
//! The generic cell rate algorithm (GCRA) of ATM traffic control, in one number: the theoretical
//! arrival time of the next cell. Over any span `s` it lets through at most `burst + rate × s`.
//!
//! | a call comes | answer | the next cell is due |
//! | --- | --- | --- |
//! | not before the due time, less `burst − 1` intervals | [`Cell`] | one interval later than it was, or than now |
//! | before that | [`RetryAfter`]: the time until then | as before |
//! | it is given back | | up to one interval earlier, but never so that the rate is exceeded |
//!
//! ```
//! use std::time::Duration;
//! use watertight::resilience::rate::RateLimit;
//! use watertight::time::Time;
//!
//! let mut limit = RateLimit::new("20/s".parse()?, 2)?;
//! let now = Time::ZERO;
//! let first = limit.admit(now).unwrap();
//! assert!(limit.admit(now).is_ok());
//! assert_eq!(limit.admit(now).unwrap_err().get(), Duration::from_millis(50));
//!
//! limit.give_back(first);
//! assert!(limit.admit(now).is_ok());
//! # Ok::<(), watertight::resilience::PolicyError>(())
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::check::refusal;
use super::{PolicyError, RetryAfter};
use crate::time::Time;

const PER_SECOND_MAX: u64 = 1_000_000;
const FORM: &str = "must be a whole number of calls per s, min, h or d, such as 20/s";

/// So many calls in a second, minute, hour or day; at most a million a second. In text it is
/// `20/s`, `100/min`, `5/h` or `9/d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    calls: u32,
    per: Per,
}

/// The unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "units say it all")]
pub enum Per {
    Second,
    Minute,
    Hour,
    Day,
}

impl Rate {
    /// `calls` in each `per`.
    ///
    /// # Errors
    ///
    /// No calls, or more than a million a second.
    pub fn new(calls: u32, per: Per) -> Result<Rate, PolicyError> {
        let rate = Rate { calls, per };
        let rule = match calls {
            0 => "must be at least one call",
            _ if u64::from(calls) > PER_SECOND_MAX * per.span().as_secs() => {
                "must be at most 1000000/s"
            }
            _ => return Ok(rate),
        };
        Err(refusal("rate", rate, (rule, "for no limit leave it out")))
    }

    /// The time from one call to the next, rounded up.
    pub fn interval(self) -> Duration {
        let nanos = self.per.span().as_nanos().div_ceil(u128::from(self.calls));
        Duration::from_nanos(nanos as u64)
    }
}

impl FromStr for Rate {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Rate, PolicyError> {
        let refuse = |fix| refusal("rate", text, (FORM, fix));
        let (calls, unit) = text.split_once('/').ok_or_else(|| refuse("say per what"))?;
        let (calls, unit) = (calls.trim(), unit.trim());
        let per = [Per::Second, Per::Minute, Per::Hour, Per::Day];
        let per = per.into_iter().find(|per| per.as_str() == unit);
        let per = per.ok_or_else(|| refuse("after the slash write s, min, h or d"))?;
        let calls = calls.parse();
        let fix = "for less than one a second use a longer unit, such as 30/min";
        Rate::new(calls.map_err(|_| refuse(fix))?, per)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.calls, self.per.as_str())
    }
}

impl Per {
    /// As in text: `s`, `min`, `h`, `d`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Per::Second => "s",
            Per::Minute => "min",
            Per::Hour => "h",
            Per::Day => "d",
        }
    }

    const fn span(self) -> Duration {
        Duration::from_secs(match self {
            Per::Second => 1,
            Per::Minute => 60,
            Per::Hour => 60 * 60,
            Per::Day => 24 * 60 * 60,
        })
    }
}

/// A rate limit. See the [module](self).
#[derive(Clone, Debug)]
pub struct RateLimit {
    interval: Duration,
    /// How much earlier than due a call may come.
    tolerance: Duration,
    /// When the next cell is due in theory.
    due: Time,
    /// When the newest cell came, and its number.
    newest: (Time, u32),
}

/// A call that was let through, so that it can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(u32);

impl RateLimit {
    /// One with the whole burst before it: how many calls may come at once after a pause. With a
    /// burst of 1, even neighbours are an interval apart; there is no largest one.
    ///
    /// # Errors
    ///
    /// A burst of 0, which would let nothing through.
    pub fn new(rate: Rate, burst: u32) -> Result<RateLimit, PolicyError> {
        let advice = ("must be at least 1", "for calls one by one write 1");
        let more = burst.checked_sub(1).ok_or_else(|| refusal("burst", burst, advice))?;
        let interval = rate.interval();
        let tolerance = interval.saturating_mul(more);
        Ok(RateLimit { interval, tolerance, due: Time::ZERO, newest: (Time::ZERO, 0) })
    }

    /// Lets a call through now.
    ///
    /// # Errors
    ///
    /// The time after which one will be.
    pub fn admit(&mut self, now: Time) -> Result<Cell, RetryAfter> {
        let (before, number) = self.newest;
        let now = now.max(before);
        let early = self.due - now;
        if early > self.tolerance {
            return Err(RetryAfter::new(early - self.tolerance));
        }
        self.due = self.due.max(now) + self.interval;
        self.newest = (now, number.wrapping_add(1));
        Ok(Cell(self.newest.1))
    }

    /// Takes back a call that never reached the backend. The next ones are due an interval earlier,
    /// but not earlier than the calls after it allow, even if they all came as late as the newest.
    pub fn give_back(&mut self, cell: Cell) {
        let (came, number) = self.newest;
        let after = number.wrapping_sub(cell.0);
        let allowed = came + self.interval.saturating_mul(after);
        let earlier = Time::ZERO + (self.due - Time::ZERO).saturating_sub(self.interval);
        self.due = self.due.min(earlier.max(allowed));
        if after == 0 {
            self.newest.1 = number.wrapping_sub(1);
        }
    }
}
