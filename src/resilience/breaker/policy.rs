//! The knobs of a breaker.

use std::time::Duration;

use super::Ended;
use super::outcomes::Tally;
use crate::resilience::PolicyError;
use crate::resilience::check::{self, DAY, millionths};

/// The longest window that is counted in calls.
pub(super) const WINDOW_CALLS_MAX: u32 = 1024;

/// The knobs of a breaker. [`Breaker::new`](super::Breaker::new) checks them.
///
/// With `failure_rate` and `slow_call` both zero it never opens by itself, only by hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Which calls are judged. Defaults to the last 50.
    pub window: Window,
    /// A window with fewer calls than this is not judged. Defaults to 10; 0 and 1 mean that the
    /// first call is judged already. At most the window, if that is counted in calls.
    pub minimum_calls: u32,
    /// The share of failed calls at which it opens. Defaults to 0.5; 0: failures do not matter; at
    /// most 1: every call failed.
    pub failure_rate: f64,
    /// How long a call runs that counts as slow, whether it failed or not. Defaults to 0: no call
    /// is slow. At most a day.
    pub slow_call: Duration,
    /// The share of slow calls at which it opens. Defaults to 1: every call was slow; 0: slow calls
    /// do not matter.
    pub slow_call_rate: f64,
    /// How long it stays open before a probe is let through. Defaults to 5 s; 0: the next call is a
    /// probe already. At most `cool_down_max`.
    pub cool_down: Duration,
    /// By what a cool-down is longer than the one before it, if no good probe came between. Defaults
    /// to 2; 1: they are all the same; at most 10.
    pub cool_down_growth: f64,
    /// The longest cool-down. Defaults to 60 s; at most a day.
    pub cool_down_max: Duration,
    /// The share by which a cool-down may be shorter at random, so that many breakers of one
    /// backend do not probe at once. Defaults to 0.1; 0: none; at most 1.
    pub cool_down_jitter: f64,
    /// How many probes decide, judged together by the two rates. Defaults to 1; 0 is refused; at
    /// most 1000.
    pub probes: u32,
    /// Whether a call that a limit ended while it ran is a failure, or is not counted at all.
    /// Defaults to `true`. If `false`, a probe that times out is followed by the next at once.
    pub count_timeouts: bool,
    /// Whether a no of a backend that works is a failure: a status below 500, a query's own fault,
    /// an exit code. Defaults to `false`: it is a success.
    pub count_refusals: bool,
}

/// Which calls a breaker judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last so many; from 1 to 1024.
    Count(u32),
    /// Those that ended within this span, forgotten a tenth of it at a time; from 10 ms to a day.
    Time(Duration),
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            window: Window::Count(50),
            minimum_calls: 10,
            failure_rate: 0.5,
            slow_call: Duration::ZERO,
            slow_call_rate: 1.0,
            cool_down: Duration::from_secs(5),
            cool_down_growth: 2.0,
            cool_down_max: Duration::from_secs(60),
            cool_down_jitter: 0.1,
            probes: 1,
            count_timeouts: true,
            count_refusals: false,
        }
    }
}

/// The two rates in millionths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    failure: u64,
    slow_call: u64,
}

impl Rates {
    /// Whether `tally` reaches one of them, counted on `calls`.
    pub(super) fn reached(self, tally: Tally, calls: u64) -> bool {
        let reached = |count: u64, rate: u64| rate > 0 && count * 1_000_000 >= rate * calls;
        reached(tally.failed, self.failure) || reached(tally.slow, self.slow_call)
    }
}

impl Policy {
    /// Checks every knob.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.rates().map(drop)
    }

    /// Checks every knob; the rates as they are compared.
    pub(super) fn rates(&self) -> Result<Rates, PolicyError> {
        self.check_window()?;
        self.check_cool_down()?;
        let advice = ("must be 0s to 24h", "for no call to be slow write 0");
        check::span("slow_call", self.slow_call, Duration::ZERO..=DAY, advice)?;
        let advice = ("must be 1 to 1000", "one is enough for most backends");
        check::count("probes", self.probes, 1..=1000, advice)?;
        let half = ("must be a share from 0 to 1", "for half of the calls write 0.5");
        Ok(Rates {
            failure: millionths("failure_rate", self.failure_rate, 1.0, half)?,
            slow_call: millionths("slow_call_rate", self.slow_call_rate, 1.0, half)?,
        })
    }

    fn check_window(&self) -> Result<(), PolicyError> {
        match self.window {
            Window::Time(span) => {
                let advice = ("must be 10ms to 24h", "half a minute suits most backends");
                check::span("window", span, Duration::from_millis(10)..=DAY, advice)
            }
            Window::Count(calls) => {
                let advice = ("must be 1 to 1024 calls", "for more calls use a span of time");
                check::count("window", calls, 1..=WINDOW_CALLS_MAX, advice)?;
                let rule = "must be at most the calls of the window";
                let advice = (rule, "lower it or widen the window; it would never open");
                check::count("minimum_calls", self.minimum_calls, 0..=calls, advice)
            }
        }
    }

    fn check_cool_down(&self) -> Result<(), PolicyError> {
        let longest = self.cool_down_max;
        let advice = ("must be 0s to 24h", "a minute suits most backends");
        check::span("cool_down_max", longest, Duration::ZERO..=DAY, advice)?;
        let advice = ("must be at most cool_down_max", "lower it or raise cool_down_max");
        check::span("cool_down", self.cool_down, Duration::ZERO..=longest, advice)?;
        if !(1.0..=10.0).contains(&self.cool_down_growth) {
            let advice = ("must be a factor from 1 to 10", "for equal cool-downs write 1");
            return Err(check::refusal("cool_down_growth", self.cool_down_growth, advice));
        }
        let advice = ("must be a share from 0 to 1", "for no jitter write 0");
        millionths("cool_down_jitter", self.cool_down_jitter, 1.0, advice).map(drop)
    }

    /// What a call counts as; `None`: it does not count.
    pub(super) fn judge(&self, ended: Ended, ran: Duration) -> Option<Tally> {
        if ended == Ended::TimedOut && !self.count_timeouts {
            return None;
        }
        let slow = !self.slow_call.is_zero() && ran >= self.slow_call;
        let failed = match ended {
            Ended::Ok => false,
            Ended::Refused => self.count_refusals,
            Ended::Failed | Ended::TimedOut => true,
        };
        Some(Tally::call(failed, slow))
    }
}
