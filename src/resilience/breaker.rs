//! A circuit breaker: a backend that keeps failing is left alone, but for one probe now and then.
//!
//! [`admit`](Breaker::admit) is asked before a call contests a slot. Every call it lets pass ends
//! in exactly one [`record`](Breaker::record), or in one [`give_back`](Breaker::give_back) if its
//! end says nothing about the backend ([`Ended::of`] tells which). Both take the [`Epoch`] the call
//! was let in with, and count in that epoch only: a late answer to a call from before the opening
//! is not the probe's answer, and a new window knows nothing of the old one.
//!
//! | state | what happens | next state | answer |
//! | --- | --- | --- | --- |
//! | closed | a call comes | closed | [`Pass`](Admit::Pass) |
//! | closed | a call ends; the window has too few calls, or no rate is reached | closed | |
//! | closed | a call ends; the window has `minimum_calls`, and a rate is reached | open | [`Opened`](Change::Opened) |
//! | open | a call comes, cool-down not over | open | [`Open`](Admit::Open): what is left of it |
//! | open | a call comes, cool-down over | half-open | [`Probe`](Admit::Probe) |
//! | half-open | a call comes, fewer than `probes` are out or have ended | half-open | [`Probe`](Admit::Probe) |
//! | half-open | a call comes otherwise | half-open | [`Open`](Admit::Open): what is left of the probes' limit |
//! | half-open | a probe is given back | half-open | the next call is a probe |
//! | half-open | a probe ends; a rate of all `probes` is reached | open, for longer | [`Opened`](Change::Opened) |
//! | half-open | the last probe ends otherwise | closed, window and cool-down afresh | [`Closed`](Change::Closed) |
//! | any | a call of another epoch ends or is given back | the same | |
//! | any | [`open`](Breaker::open) by hand | held open | |
//! | held open | a call comes | held open | [`Open`](Admit::Open): `cool_down_max` |
//! | any | [`close`](Breaker::close) by hand | closed, window and cool-down afresh | |
//!
//! When it opens, whoever waits in the queue is to be answered as well: they were let in by an
//! epoch that is over.
//!
//! ```
//! use std::time::Duration;
//! use watertight::resilience::breaker::{Admit, Breaker, Change, Ended, Policy, Window};
//! use watertight::time::Time;
//!
//! let policy = Policy { window: Window::Count(4), minimum_calls: 2, ..Policy::default() };
//! let mut breaker = Breaker::new(policy)?;
//! let (limit, ran, random) = (Duration::from_secs(30), Duration::from_millis(40), 0);
//!
//! let mut now = Time::ZERO;
//! let Admit::Pass(one) = breaker.admit(now, limit) else { unreachable!() };
//! let Admit::Pass(two) = breaker.admit(now, limit) else { unreachable!() };
//! assert_eq!(breaker.record(now, one, Ended::Failed, ran, random), None);
//! let opened = breaker.record(now, two, Ended::Failed, ran, random);
//! assert!(matches!(opened, Some(Change::Opened { .. })));
//!
//! assert!(matches!(breaker.admit(now, limit), Admit::Open(after) if after.get() == policy.cool_down));
//! now = now + policy.cool_down;
//! let Admit::Probe(probe) = breaker.admit(now, limit) else { unreachable!() };
//! assert!(matches!(breaker.admit(now, limit), Admit::Open(after) if after.get() == limit));
//! assert_eq!(breaker.record(now, probe, Ended::Ok, ran, random), Some(Change::Closed));
//! # Ok::<(), watertight::resilience::PolicyError>(())
//! ```

mod ended;
mod outcomes;
mod policy;
mod snapshot;

use std::time::Duration;

use super::{PolicyError, RetryAfter, share};
use crate::time::Time;

use outcomes::{Outcomes, Tally};
use policy::Rates;

pub use ended::Ended;
pub use policy::{Policy, Window};
pub use snapshot::{Snapshot, State};

/// A circuit breaker. See the [module](self) for its states.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: Policy,
    rates: Rates,
    phase: Phase,
    epoch: Epoch,
    recent: Outcomes,
    /// How long the next opening lasts, before jitter.
    cool_down: Duration,
    openings: u64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { until: Time },
    HalfOpen(Round),
    HeldOpen,
}

/// One round of probes.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Probes that are out.
    running: u32,
    /// Those that have ended.
    ended: Tally,
    /// When all that are out have reached their limit.
    due: Time,
}

/// Which window or round of probes a call belongs to. It ends with every change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(u64);

/// What the breaker says of an offered call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Closed: go on.
    Pass(Epoch),
    /// Half-open: go on, the answer decides for everybody.
    Probe(Epoch),
    /// Open: refuse, with the time to the next probe.
    Open(RetryAfter),
}

/// A change of state that a call's end has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has opened: answer everybody who waits.
    Opened {
        /// How long until a probe is let through.
        cool_down: Duration,
    },
    /// The probes went well.
    Closed,
}

impl Breaker {
    /// A closed breaker.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn new(policy: Policy) -> Result<Breaker, PolicyError> {
        Ok(Breaker {
            rates: policy.rates()?,
            phase: Phase::Closed,
            epoch: Epoch(0),
            recent: Outcomes::new(policy.window),
            cool_down: policy.cool_down,
            openings: 0,
            policy,
        })
    }

    /// Asks for a call that will have ended in `limit` from now, waiting included. The limit is for
    /// the hint: if this call becomes the probe, the others are told to come back when it is over.
    pub fn admit(&mut self, now: Time, limit: Duration) -> Admit {
        if let Phase::Closed = self.phase {
            return Admit::Pass(self.epoch);
        }
        if let Some(after) = self.refusal(now) {
            return Admit::Open(after);
        }
        if let Phase::Open { .. } = self.phase {
            self.enter(Phase::HalfOpen(Round::default()));
        }
        if let Phase::HalfOpen(round) = &mut self.phase {
            round.running += 1;
            round.due = round.due.max(now + limit);
        }
        Admit::Probe(self.epoch)
    }

    /// Counts how a call ended that was let in with `epoch` and ran for `ran`; nothing, if that
    /// epoch is over. `random` are uniform random bits, for the jitter of a cool-down.
    pub fn record(
        &mut self,
        now: Time,
        epoch: Epoch,
        ended: Ended,
        ran: Duration,
        random: u64,
    ) -> Option<Change> {
        let Some(call) = self.policy.judge(ended, ran) else {
            self.give_back(epoch);
            return None;
        };
        if epoch != self.epoch {
            return None;
        }
        match &mut self.phase {
            Phase::Closed => {
                let tally = self.recent.add(now, call);
                let trips = tally.calls >= u64::from(self.policy.minimum_calls)
                    && self.rates.reached(tally, tally.calls);
                trips.then(|| self.trip(now, random))
            }
            Phase::HalfOpen(round) => {
                round.running = round.running.saturating_sub(1);
                round.ended += call;
                let (tally, probes) = (round.ended, u64::from(self.policy.probes));
                if self.rates.reached(tally, probes) {
                    return Some(self.trip(now, random));
                }
                (tally.calls >= probes).then(|| {
                    self.close();
                    Change::Closed
                })
            }
            Phase::Open { .. } | Phase::HeldOpen => None,
        }
    }

    /// Takes back a call whose end says nothing about the backend: it was refused later, withdrawn,
    /// cancelled or throttled. If it was a probe, the next call becomes one.
    pub fn give_back(&mut self, epoch: Epoch) {
        if let Phase::HalfOpen(round) = &mut self.phase
            && epoch == self.epoch
        {
            round.running = round.running.saturating_sub(1);
        }
    }

    /// Holds it open until [`close`](Breaker::close). Answer everybody who waits.
    pub fn open(&mut self) {
        self.enter(Phase::HeldOpen);
    }

    /// Closes it, whatever its state, with an empty window and the first cool-down.
    pub fn close(&mut self) {
        self.enter(Phase::Closed);
        self.recent = Outcomes::new(self.policy.window);
        self.cool_down = self.policy.cool_down;
    }

    /// What it looks like at `now`.
    pub fn snapshot(&mut self, now: Time) -> Snapshot {
        let (state, tally) = match self.phase {
            Phase::Closed => (State::Closed, self.recent.tally(now)),
            Phase::Open { .. } => (State::Open, Tally::default()),
            Phase::HalfOpen(round) => (State::HalfOpen, round.ended),
            Phase::HeldOpen => (State::HeldOpen, Tally::default()),
        };
        let Tally { calls, failed, slow } = tally;
        let (retry_after, openings) = (self.refusal(now), self.openings);
        Snapshot { state, retry_after, calls, failed, slow, openings }
    }

    /// When to come back, if a call that came at `now` would be refused.
    fn refusal(&self, now: Time) -> Option<RetryAfter> {
        match self.phase {
            Phase::Closed => None,
            Phase::Open { until } => (now < until).then(|| RetryAfter::new(until - now)),
            Phase::HalfOpen(round) => {
                let taken = u64::from(round.running) + round.ended.calls;
                (taken >= u64::from(self.policy.probes)).then(|| RetryAfter::new(round.due - now))
            }
            Phase::HeldOpen => Some(RetryAfter::new(self.policy.cool_down_max)),
        }
    }

    /// Opens for one cool-down, and makes the next one longer.
    fn trip(&mut self, now: Time, random: u64) -> Change {
        let policy = &self.policy;
        let spread = self.cool_down.mul_f64(policy.cool_down_jitter);
        let cool_down = self.cool_down - share(spread, random);
        self.cool_down = self.cool_down.mul_f64(policy.cool_down_growth).min(policy.cool_down_max);
        self.openings += 1;
        self.enter(Phase::Open { until: now + cool_down });
        Change::Opened { cool_down }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch.0 += 1;
    }
}
