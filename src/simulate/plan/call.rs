//! One call on its way, and what a fault makes of it.

use std::time::Duration;

use super::chance::{Chance, Sampler};
use super::input::{Fault, LONGEST, duration};
use super::report::Known;
use crate::outcome::{
    BusyReason, CallError, Evidence, Executed, Failure, FailureReason, TimeoutClock,
};
use crate::resilience::RETRY_AFTER_MIN;
use crate::resilience::breaker::Epoch;
use crate::time::Time;

/// A call that was offered and has not ended.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) load: u32,
    pub(super) tool: u32,
    pub(super) tenant: Option<Known>,
    pub(super) offered: Time,
    pub(super) deadline: Time,
    pub(super) service: Duration,
    /// Chance of its own, so that what a fault does to it depends on nobody else.
    pub(super) seed: u64,
    /// Which attempt it is at, from 1.
    pub(super) attempt: u32,
    /// What the breaker let it in with.
    pub(super) epoch: Option<Epoch>,
}

/// What chance decides about an attempt, each independently.
#[derive(Clone, Copy)]
pub(super) enum Throw {
    /// What a fault does to it.
    Fault,
    /// How long the breaker that it opens stays open.
    CoolDown,
    /// When it is followed by another.
    Backoff,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It finished well.
    Ok,
    /// The backend said no.
    Failed,
    /// A limit ran out.
    Timeout(TimeoutClock),
    /// It got no slot.
    Busy(BusyReason),
    /// The breaker was open, or opened while it waited.
    CircuitOpen,
}

/// The answer to an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) end: End,
    pub(super) ran: Option<Duration>,
    pub(super) retry_after: Option<Duration>,
}

impl Answer {
    pub(super) fn of_run(end: End, ran: Duration) -> Answer {
        Answer { end, ran: Some(ran), retry_after: None }
    }

    pub(super) fn of_wait(end: End, retry_after: Option<Duration>) -> Answer {
        Answer { end, ran: None, retry_after }
    }

    /// As the outcome of a live call would have it.
    pub(super) fn result(self) -> Result<(), CallError> {
        Err(match self.end {
            End::Ok => return Ok(()),
            End::Failed => CallError::Failed(Failure::new(FailureReason::ServerDown, "")),
            End::Timeout(clock) => CallError::Timeout {
                clock,
                executed: self.ran.map_or(Executed::No, |_| Executed::Unknown),
                evidence: Evidence::default(),
            },
            End::Busy(reason) => CallError::Busy { reason, retry_after: self.retry_after },
            End::CircuitOpen => {
                CallError::CircuitOpen { retry_after: self.retry_after.unwrap_or(RETRY_AFTER_MIN) }
            }
        })
    }
}

/// A fault made ready.
#[derive(Debug)]
pub(super) struct Trouble {
    from: Time,
    until: Time,
    service: Option<Sampler>,
    slower: f64,
    hang: bool,
    resist: bool,
    fail: f64,
}

impl From<&Fault> for Trouble {
    fn from(fault: &Fault) -> Trouble {
        let at = |ms| Time::ZERO + duration(ms).unwrap_or(LONGEST);
        Trouble {
            from: at(fault.from_ms),
            until: at(fault.until_ms),
            service: fault.service.as_ref().map(Sampler::from),
            slower: fault.slower,
            hang: fault.hang,
            resist: fault.resist,
            fail: fault.fail,
        }
    }
}

impl Call {
    /// Chance of this attempt, the same whatever else happens.
    pub(super) fn chance(&self, what: Throw) -> Chance {
        Chance::branch(self.seed, 3 * self.attempt as usize + what as usize)
    }

    /// When its work ends if it starts now, and how, if nobody answers for it before.
    pub(super) fn end(&self, now: Time, run_limit: Duration, troubles: &[Trouble]) -> (Time, End) {
        let mut service = self.service;
        let (mut resist, mut fail) = (false, false);
        if !troubles.is_empty() {
            let mut chance = self.chance(Throw::Fault);
            for trouble in troubles {
                if now < trouble.from || now >= trouble.until {
                    continue;
                }
                if let Some(sampler) = &trouble.service {
                    service = sampler.draw(&mut chance);
                }
                service = service.mul_f64(trouble.slower).min(LONGEST);
                if trouble.hang {
                    service = service.max(trouble.until - now);
                }
                resist |= trouble.resist;
                fail |= trouble.fail > 0.0 && chance.share() < trouble.fail;
            }
        }
        let (done, limit) = (now + service, now + run_limit);
        let (limit, clock) = if self.deadline <= limit {
            (self.deadline, TimeoutClock::Deadline)
        } else {
            (limit, TimeoutClock::Run)
        };
        if done <= limit {
            (done, if fail { End::Failed } else { End::Ok })
        } else if resist {
            (done, End::Timeout(clock))
        } else {
            (limit, End::Timeout(clock))
        }
    }
}
