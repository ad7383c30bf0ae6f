//! Throttling by the backend: when it asks for a pause, the door is shut until that is over.
//!
//! | what happens | the door |
//! | --- | --- |
//! | an answer 429, or 503 with `Retry-After`: [`shut`](Throttle::shut) | shut for as long as asked for, at most `throttle_max`; if it does not say, for `throttle_default` |
//! | an answer says that no calls remain until a reset: [`quota`](Throttle::quota) | shut until then, at most `throttle_max` |
//! | several of these | shut until the latest |
//! | a call comes before that: [`admit`](Throttle::admit) | refused, with what is left |
//! | by hand: [`open`](Throttle::open) | open |
//!
//! It says nothing about whether the backend works: a throttled call is given back to the
//! [breaker](super::breaker).
//!
//! ```
//! use std::time::Duration;
//! use watertight::resilience::throttle::{Policy, Throttle};
//! use watertight::time::Time;
//!
//! let mut throttle = Throttle::new(Policy::default());
//! let (now, second) = (Time::ZERO, Duration::from_secs(1));
//! throttle.shut(now, Some(4 * second));
//! assert_eq!(throttle.admit(now + second).unwrap_err().get(), 3 * second);
//! assert!(throttle.admit(now + 4 * second).is_ok());
//!
//! let a_day = Duration::from_secs(86_400);
//! assert_eq!(throttle.shut(now, Some(a_day)).get(), 60 * second, "capped");
//! ```

use std::time::Duration;

use super::RetryAfter;
use crate::time::Time;

/// The knobs of throttling. Every value makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The longest pause that a backend can have. Defaults to 60 s; 0: the door is never shut;
    /// `Duration::MAX`: as long as it asks for.
    pub throttle_max: Duration,
    /// The pause if the backend does not say how long. Defaults to 1 s; 0: none. Capped by
    /// `throttle_max` as well.
    pub throttle_default: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { throttle_max: Duration::from_secs(60), throttle_default: Duration::from_secs(1) }
    }
}

impl Policy {
    /// How long the door is shut for a backend that asked for `asked`, if it said so.
    pub fn pause(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(self.throttle_default).min(self.throttle_max)
    }

    /// How long the door is shut for a backend that takes `remaining` more calls until `reset` from
    /// now; `None`: not for that.
    pub fn quota(&self, remaining: u64, reset: Duration) -> Option<Duration> {
        (remaining == 0 && !reset.is_zero()).then(|| self.pause(Some(reset)))
    }
}

/// A door that the backend can shut. See the [module](self).
#[derive(Clone, Debug)]
pub struct Throttle {
    policy: Policy,
    shut_until: Time,
}

impl Throttle {
    /// An open door.
    pub fn new(policy: Policy) -> Throttle {
        Throttle { policy, shut_until: Time::ZERO }
    }

    /// Lets a call through, if the door is open.
    ///
    /// # Errors
    ///
    /// The time until it opens.
    pub fn admit(&self, now: Time) -> Result<(), RetryAfter> {
        if now < self.shut_until {
            return Err(RetryAfter::new(self.shut_until - now));
        }
        Ok(())
    }

    /// The backend asked for a pause, of `asked` if it said so. Returns when the door opens: the
    /// hint for the call that was refused so.
    pub fn shut(&mut self, now: Time, asked: Option<Duration>) -> RetryAfter {
        self.shut_until = self.shut_until.max(now + self.policy.pause(asked));
        RetryAfter::new(self.shut_until - now)
    }

    /// An answer said that `remaining` more calls are allowed until `reset` from now. Returns when
    /// the door opens, if that shuts it.
    pub fn quota(&mut self, now: Time, remaining: u64, reset: Duration) -> Option<RetryAfter> {
        self.policy.quota(remaining, reset).map(|pause| self.shut(now, Some(pause)))
    }

    /// Opens the door, whatever the backend said.
    pub fn open(&mut self) {
        self.shut_until = Time::ZERO;
    }
}
