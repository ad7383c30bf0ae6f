//! What stands at a partition's door before its slots: deadline, throttling, rate, breaker, in this
//! order. The machines are pure (`resilience`); this is where they meet, under the gate.
//!
//! A partition that asks for none of them has no door, and pays nothing for it.

use std::time::Duration;

use super::actions::Actions;
use super::cell::Said;
use super::gate::Gate;
use super::partition::Partition;
use super::random::random;
use super::spec::PartitionSpec;
use super::state::timeout;
use crate::admission::{PolicyError, SlotId};
use crate::outcome::{CallError, Executed, ThrottledBy, TimeoutClock};
use crate::resilience::breaker::{self, Admit, Breaker, Change, Ended, Epoch};
use crate::resilience::budget;
use crate::resilience::deadline::{Deadline, MinRun};
use crate::resilience::rate::{Cell, Rate, RateLimit};
use crate::resilience::throttle::{self, Throttle};
use crate::resilience::{RETRY_AFTER_MIN, Random, RetryAfter};
use crate::time::Time;

/// The knobs of a door; the default asks for nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    pub(super) min_run: MinRun,
    pub(super) rate: Option<Rate>,
    pub(super) burst: Option<u32>,
    pub(super) breaker: Option<breaker::Policy>,
    pub(super) throttle: throttle::Policy,
    pub(super) retry_budget: budget::Policy,
}

impl Policy {
    /// Checks every knob but those of the breaker, which have a table of their own.
    pub(super) fn check(&self, run_limit: Duration) -> Result<(), PolicyError> {
        Deadline::new(self.min_run, run_limit)?;
        self.rate_limit().map(drop)
    }

    fn rate_limit(&self) -> Result<Option<RateLimit>, PolicyError> {
        match (self.rate, self.burst) {
            (Some(rate), burst) => RateLimit::new(rate, burst.unwrap_or(1)).map(Some),
            (None, None) => Ok(None),
            (None, Some(burst)) => Err(PolicyError {
                key: "burst",
                value: burst.to_string(),
                rule: "means nothing without a rate",
                fix: "add `rate`, or leave burst out",
            }),
        }
    }

    fn asks_for_nothing(&self) -> bool {
        self.min_run == MinRun::default() && self.rate.is_none() && self.breaker.is_none()
    }
}

/// A breaker that opens by hand only, for a partition that has no other.
fn by_hand() -> Option<Breaker> {
    let never =
        breaker::Policy { failure_rate: 0.0, slow_call: Duration::ZERO, ..Default::default() };
    Breaker::new(never).ok()
}

/// The machines of one door, and what those have to give back that were let in.
pub(super) struct Door {
    deadline: Deadline,
    throttle: Throttle,
    rate: Option<RateLimit>,
    breaker: Option<Breaker>,
    /// The longest a run keeps its caller: the run limit and the grace.
    run_for: Duration,
    random: Random,
    /// By slot: of the call or permit that holds it, until the breaker has been told of its end.
    passes: Vec<Pass>,
}

/// What a call was let in with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pass {
    /// Whether its deadline is too short and it goes on as the exception.
    excepted: bool,
    cell: Option<Cell>,
    epoch: Option<Epoch>,
}

impl Door {
    /// The door that `spec` asks for, of `slots` slots.
    pub(super) fn new(
        spec: &PartitionSpec,
        slots: usize,
    ) -> Result<Option<Box<Door>>, PolicyError> {
        let policy = &spec.door;
        if policy.asks_for_nothing() {
            return Ok(None);
        }
        let mut door = Door::open(spec, slots);
        door.deadline = Deadline::new(policy.min_run, spec.policy.run_limit)?;
        door.rate = policy.rate_limit()?;
        door.breaker = policy.breaker.map(Breaker::new).transpose()?;
        Ok(Some(door))
    }

    /// A door that refuses nobody until a backend asks for a pause or somebody opens its breaker.
    pub(super) fn open(spec: &PartitionSpec, slots: usize) -> Box<Door> {
        Box::new(Door {
            deadline: Deadline::default(),
            throttle: Throttle::new(spec.door.throttle),
            rate: None,
            breaker: None,
            run_for: spec.run_for(),
            random: random(),
            passes: vec![Pass::default(); slots],
        })
    }

    /// Lets a call in that would wait until `wait_until`, and says until when it may.
    ///
    /// # Errors
    ///
    /// Why not; nothing is taken then.
    pub(super) fn admit(
        &mut self,
        now: Time,
        deadline: Time,
        wait_until: Time,
    ) -> Result<(Pass, Time), CallError> {
        let limited = (deadline < Time::MAX).then_some(deadline);
        let wait = self.deadline.admit(now, limited, wait_until - now);
        let wait = wait.map_err(|_| timeout(TimeoutClock::Deadline, Executed::No))?;
        let ends_in = wait.saturating_add(self.run_for).min(deadline - now);
        let mut pass = Pass { excepted: self.deadline.excepted(), ..Pass::default() };
        match self.admit_backend(now, ends_in, &mut pass) {
            Ok(()) => Ok((pass, now + wait)),
            Err(refused) => {
                self.give_back(pass);
                Err(refused)
            }
        }
    }

    /// What the backend has to say to a call that ends in `ends_in` at the latest; `pass` is what it
    /// was let in with so far.
    fn admit_backend(
        &mut self,
        now: Time,
        ends_in: Duration,
        pass: &mut Pass,
    ) -> Result<(), CallError> {
        self.throttle.admit(now).map_err(|after| throttled(ThrottledBy::Backend, after.get()))?;
        let cell = self.rate.as_mut().map(|rate| rate.admit(now)).transpose();
        pass.cell = cell.map_err(|after| throttled(ThrottledBy::Rate, after.get()))?;
        match self.breaker.as_mut().map(|breaker| breaker.admit(now, ends_in)) {
            None => {}
            Some(Admit::Pass(epoch) | Admit::Probe(epoch)) => pass.epoch = Some(epoch),
            Some(Admit::Open(after)) => {
                return Err(CallError::CircuitOpen { retry_after: after.get() });
            }
        }
        Ok(())
    }

    /// What a call must have left of its deadline to be of use.
    pub(super) fn min_run(&mut self, now: Time) -> Duration {
        self.deadline.min_run(now)
    }

    /// Takes back what a call was let in with that found no slot.
    pub(super) fn give_back(&mut self, pass: Pass) {
        if pass.excepted {
            self.deadline.give_back();
        }
        if let (Some(rate), Some(cell)) = (&mut self.rate, pass.cell) {
            rate.give_back(cell);
        }
        self.forget(pass);
    }

    /// The call in `slot` was called off before its body began: nothing was sent.
    pub(super) fn never_ran(&mut self, slot: SlotId) {
        let pass = std::mem::take(&mut self.passes[slot.0 as usize]);
        self.give_back(pass);
    }

    /// A call has its slot: it counts for the rate, and its end for the breaker.
    pub(super) fn keep(&mut self, slot: SlotId, pass: Pass) {
        self.passes[slot.0 as usize] = pass;
    }

    /// Why whoever waits must be turned away, if so.
    pub(super) fn shut(&mut self, now: Time) -> Option<CallError> {
        if let Err(after) = self.throttle.admit(now) {
            return Some(throttled(ThrottledBy::Backend, after.get()));
        }
        // A cool-down of zero is over as soon as it begins; who waited is turned away all the same.
        let open = self.breaker.as_mut()?.snapshot(now).retry_after;
        let retry_after = open.map_or(RETRY_AFTER_MIN, RetryAfter::get);
        Some(CallError::CircuitOpen { retry_after })
    }

    /// The call in `slot` was answered after it had run for `ran`; whether that shuts the door for
    /// those that wait.
    pub(super) fn ended(&mut self, now: Time, slot: SlotId, said: Said, ran: Duration) -> bool {
        let pass = std::mem::take(&mut self.passes[slot.0 as usize]);
        if said.backend == Some(Ended::Ok) {
            self.deadline.record(now, ran);
        }
        let shut = said.pause.is_some_and(|pause| {
            self.throttle.shut(now, Some(pause));
            self.throttle.admit(now).is_err()
        });
        let (Some(breaker), Some(epoch)) = (&mut self.breaker, pass.epoch) else {
            return shut;
        };
        let Some(ended) = said.backend else {
            self.forget(pass);
            return shut;
        };
        let change = breaker.record(now, epoch, ended, ran, self.random.next());
        shut || matches!(change, Some(Change::Opened { .. }))
    }

    /// Holds the breaker open.
    pub(super) fn hold_open(&mut self) {
        self.breaker = self.breaker.take().or_else(by_hand);
        if let Some(breaker) = &mut self.breaker {
            breaker.open();
        }
    }

    /// Closes the breaker and opens the door that the backend has shut.
    pub(super) fn close_breaker(&mut self) {
        self.throttle.open();
        if let Some(breaker) = &mut self.breaker {
            breaker.close();
        }
    }

    /// What the breaker looks like, if there is one.
    pub(super) fn breaker(&mut self, now: Time) -> Option<breaker::Snapshot> {
        self.breaker.as_mut().map(|breaker| breaker.snapshot(now))
    }

    fn forget(&mut self, pass: Pass) {
        if let (Some(breaker), Some(epoch)) = (&mut self.breaker, pass.epoch) {
            breaker.give_back(epoch);
        }
    }
}

fn throttled(by: ThrottledBy, retry_after: Duration) -> CallError {
    CallError::Throttled { by, executed: Executed::No, retry_after }
}

impl Gate {
    /// Holds the breaker open, and turns away who waits.
    fn open_breaker(&self, actions: &mut Actions) {
        self.section(self.clock().now(), actions, |state, now, _| {
            state.door().hold_open();
            state.scheduler.drain(now, &mut state.effects);
        });
    }

    /// Lets calls in again.
    fn close_breaker(&self, actions: &mut Actions) {
        self.section(self.clock().now(), actions, |state, _, _| {
            if let Some(door) = &mut state.door {
                door.close_breaker();
            }
        });
    }
}

impl Partition {
    /// Holds the breaker open until [`Partition::close_breaker`]: every call is refused with
    /// `circuit_open`, those that wait at once. What runs may go on. A partition without a breaker
    /// gets one that knows nothing else. Never blocks.
    pub fn open_breaker(&self) {
        self.shared.step(Gate::open_breaker);
    }

    /// Closes the breaker, with an empty window and the first cool-down, and ends a pause that the
    /// backend has asked for. Never blocks.
    pub fn close_breaker(&self) {
        self.shared.step(Gate::close_breaker);
    }
}
