//! What the gate's lock guards: the scheduler, who runs in which slot, and what has been counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::actions::{Actions, Answer, Job};
use super::cell::{Call, Said};
use super::door::{Door, Pass};
use super::lender::Membership;
use super::permit::Waiter;
use super::random::random;
use super::retry::Retries;
use super::spec::PartitionSpec;
use crate::admission::{
    Decision, Effects, Offer, Policy, PolicyError, Rejected, Rejection, Scheduler, SlotId, Started,
};
use crate::outcome::{
    CallError, CancelledBy, Evidence, Executed, Failure, FailureReason, TimeoutClock, Timing,
};
use crate::telemetry::{Counts, Latency};
use crate::time::Time;

/// A call or permit that waits for a slot, and what it was let in with.
pub(crate) struct Waiting {
    pub(crate) who: Who,
    pub(super) pass: Pass,
}

/// Who waits for a slot.
pub(crate) enum Who {
    Call(Arc<dyn Call>),
    Permit(Arc<Waiter>),
}

/// What becomes of an offer.
pub(super) enum Offered {
    /// It has this slot, without a wait; nothing else has been done for it.
    AtOnce(SlotId),
    /// It has this slot, or waits, or has been turned away: what follows is among the actions, once
    /// the section has dispatched.
    Contested(Option<SlotId>),
}

/// Who has a slot now.
pub(super) enum Begun {
    Call(Job),
    Permit(Arc<Waiter>, SlotId, Duration),
}

pub(super) struct State {
    pub(super) spec: PartitionSpec,
    /// The way to the reserve, if it may use it.
    member: Option<Membership>,
    pub(super) scheduler: Scheduler<Waiting>,
    /// What the scheduler's steps brought about; empty between sections.
    pub(super) effects: Effects<Waiting>,
    /// What calls pass before they contest a slot, once there is anything to pass.
    pub(super) door: Option<Box<Door>>,
    /// Calls that got no further than the door.
    pub(super) refused: u64,
    /// The calls that are attempted again, once there are any.
    pub(super) retries: Option<Box<Retries>>,
    /// By slot; a permit leaves its place empty.
    pub(super) running: Vec<Option<Running>>,
    pub(super) counts: Counts,
    pub(super) max_in_flight: u32,
    pub(super) wait: Latency,
    /// Starts without a wait; they are added to `wait` when somebody looks.
    pub(super) unwaited: u64,
    pub(super) run: Latency,
    /// The latest time any section saw: in here it never runs backwards.
    pub(super) now: Time,
    /// When the timekeeper looks again; zero while it is awake.
    pub(super) target: Time,
    /// What it is parked with, which is later than its target while it is being woken.
    pub(super) parked_until: Time,
    /// Whether the timekeeper has stayed a while since something was last due.
    pub(super) lingered: bool,
    pub(super) ending: bool,
    pub(super) watchers: u32,
}

/// A call that holds a slot.
pub(super) struct Running {
    pub(super) call: Arc<dyn Call>,
    waited: Duration,
    pub(super) started: Time,
}

impl State {
    pub(super) fn new(
        spec: &PartitionSpec,
        member: Option<Membership>,
    ) -> Result<State, PolicyError> {
        let spec = spec.clone();
        let slots = spec.capacity();
        let policy = Policy { jitter_seed: random().next(), ..spec.policy.clone() };
        Ok(State {
            member,
            scheduler: Scheduler::new(policy)?,
            effects: Effects::default(),
            door: Door::new(&spec, slots as usize)?,
            spec,
            refused: 0,
            retries: None,
            running: (0..slots).map(|_| None).collect(),
            counts: Counts::default(),
            max_in_flight: 0,
            wait: Latency::new(),
            unwaited: 0,
            run: Latency::new(),
            now: Time::ZERO,
            target: Time::ZERO,
            parked_until: Time::ZERO,
            lingered: false,
            ending: false,
            watchers: 0,
        })
    }

    /// Makes an offer; `who` is asked for if it does not start at once. What follows from it is left
    /// in `actions`.
    #[inline]
    pub(super) fn offer(
        &mut self,
        now: Time,
        mut terms: Offer<()>,
        who: impl FnOnce() -> Who,
        actions: &mut Actions,
    ) -> Offered {
        let pass = match self.pass_door(now, &mut terms) {
            Ok(pass) => pass,
            Err(error) => {
                self.turn_away(who(), error, Duration::ZERO, actions);
                return Offered::Contested(None);
            }
        };
        let (tenant, run_until) = (terms.tenant.as_ref(), now + terms.run_for);
        if let Some(slot) = self.scheduler.start_now(now, tenant, terms.deadline, run_until) {
            self.keep(slot, pass);
            self.note_start();
            return Offered::AtOnce(slot);
        }
        Offered::Contested(self.contest(now, terms.with(Waiting { who: who(), pass }), actions))
    }

    /// What a call was let in with is its slot's from now on.
    #[inline]
    fn keep(&mut self, slot: SlotId, pass: Pass) {
        if let Some(door) = &mut self.door {
            door.keep(slot, pass);
        }
    }

    /// Offers what has passed the door to the scheduler.
    fn contest(
        &mut self,
        now: Time,
        offer: Offer<Waiting>,
        actions: &mut Actions,
    ) -> Option<SlotId> {
        let State { scheduler, effects, member, .. } = self;
        let may_borrow = || member.as_ref().is_some_and(Membership::take);
        match scheduler.offer_or_borrow(now, offer, effects, may_borrow) {
            Decision::Start(started) => {
                let slot = started.slot;
                if let Begun::Call(job) = self.started(now, started) {
                    actions.start(job);
                }
                Some(slot)
            }
            Decision::Wait(id) => {
                if let Some(Who::Call(call)) = self.scheduler.payload(id).map(|waits| &waits.who) {
                    *call.about().waiter.lock() = Some(id);
                }
                None
            }
            Decision::Reject(rejected) => {
                self.rejected(rejected, actions);
                None
            }
        }
    }

    /// Lets an offer through the door, if there is one.
    #[inline]
    fn pass_door(&mut self, now: Time, terms: &mut Offer<()>) -> Result<Pass, CallError> {
        let Some(door) = self.door.as_mut().filter(|_| !self.scheduler.is_closed()) else {
            return Ok(Pass::default());
        };
        let admitted = door.admit(now, terms.deadline, terms.wait_until);
        let (pass, wait_until) = admitted.inspect_err(|_| self.refused += 1)?;
        terms.wait_until = wait_until;
        Ok(pass)
    }

    /// Takes back what a call was let in with that found no slot.
    pub(super) fn give_back(&mut self, pass: Pass) {
        if let Some(door) = &mut self.door {
            door.give_back(pass);
        }
    }

    /// The door, which is made when it is first needed.
    pub(super) fn door(&mut self) -> &mut Door {
        let State { door, spec, running, .. } = self;
        door.get_or_insert_with(|| Door::open(spec, running.len()))
    }

    /// Tells the door how the call in `slot` ended, or was answered. Whether those that wait were
    /// turned away for it.
    #[inline]
    pub(super) fn learn(&mut self, now: Time, slot: SlotId, said: Said, ran: Duration) -> bool {
        (self.door.is_some() || said.pause.is_some()) && self.tell_door(now, slot, said, ran)
    }

    #[inline(never)]
    fn tell_door(&mut self, now: Time, slot: SlotId, said: Said, ran: Duration) -> bool {
        let shuts = self.door().ended(now, slot, said, ran);
        if shuts {
            self.scheduler.drain(now, &mut self.effects);
        }
        shuts
    }

    /// The present time of a section whose thread read the clock at `now`.
    #[inline]
    pub(super) fn tick(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// A call or a permit has its slot.
    pub(super) fn started(&mut self, now: Time, started: Started<Waiting>) -> Begun {
        let Started { slot, payload, waited, .. } = started;
        if waited.is_zero() {
            self.note_start();
        } else {
            self.wait.record(waited);
            self.max_in_flight = self.max_in_flight.max(self.occupied());
        }
        self.keep(slot, payload.pass);
        match payload.who {
            Who::Call(call) => Begun::Call(self.run(now, call, slot, waited)),
            Who::Permit(waiter) => Begun::Permit(waiter, slot, waited),
        }
    }

    /// Puts a call into its slot.
    #[inline]
    pub(super) fn run(
        &mut self,
        now: Time,
        call: Arc<dyn Call>,
        slot: SlotId,
        waited: Duration,
    ) -> Job {
        call.about().slot.store(slot.0, Ordering::Relaxed);
        let running = Running { call: Arc::clone(&call), waited, started: now };
        self.running[slot.0 as usize] = Some(running);
        Job { call, slot, waited, started: now, limit_at: now + self.spec.policy.run_limit }
    }

    /// A call has started without a wait.
    #[inline]
    pub(super) fn note_start(&mut self) {
        self.unwaited += 1;
        self.max_in_flight = self.max_in_flight.max(self.occupied());
    }

    /// A call gets no slot.
    pub(super) fn rejected(&mut self, rejected: Rejected<Waiting>, actions: &mut Actions) {
        let Rejected { rejection, payload, waited, retry_after } = rejected;
        let error = match rejection {
            Rejection::Busy(reason) => CallError::Busy { reason, retry_after },
            Rejection::Deadline => timeout(TimeoutClock::Deadline, Executed::No),
            Rejection::Drained => self.why_drained(),
            Rejection::Closed => {
                let message = "this partition is closed and takes no calls any more";
                let failure = Failure::new(FailureReason::Closed, message);
                CallError::Failed(failure.executed(Executed::No))
            }
        };
        self.give_back(payload.pass);
        self.turn_away(payload.who, error, waited, actions);
    }

    /// Answers a call that gets no slot.
    pub(super) fn turn_away(
        &mut self,
        who: Who,
        error: CallError,
        waited: Duration,
        actions: &mut Actions,
    ) {
        self.wait.record(waited);
        self.counts.add(&error);
        let timing = Timing { waited, ..Timing::default() };
        match who {
            Who::Call(call) => self.answer_or_retry(self.now, call, error, timing, actions),
            Who::Permit(waiter) => actions.grant(waiter, Err((error, timing))),
        }
    }

    /// The queue was drained because the door is shut, or because the partition ends.
    fn why_drained(&mut self) -> CallError {
        let door = self.door.as_mut().filter(|_| !self.scheduler.is_closed());
        let shut = door.and_then(|door| door.shut(self.now));
        shut.unwrap_or_else(|| cancelled(CancelledBy::Shutdown, Executed::No))
    }

    /// A waiting call was taken back.
    pub(super) fn withdrawn(
        &mut self,
        call: Arc<dyn Call>,
        waited: Duration,
        actions: &mut Actions,
    ) {
        let error = cancelled(CancelledBy::Caller, Executed::No);
        self.counts.add(&error);
        let timing = Timing { waited, ..Timing::default() };
        actions.answer(Answer { call, error, timing });
    }

    /// Whether `slot` is held by this very call.
    pub(super) fn holds(&self, slot: SlotId, call: &dyn Call) -> bool {
        let held = self.running.get(slot.0 as usize).and_then(Option::as_ref);
        held.is_some_and(|held| std::ptr::addr_eq(Arc::as_ptr(&held.call), call))
    }

    /// Does what is due and starts who may start.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Time, actions: &mut Actions) {
        self.wake(now, actions);
        if self.scheduler.needs_dispatch(now) {
            self.scheduler.dispatch(now, &mut self.effects);
            self.lend(now, actions);
        }
        if !self.effects.is_empty() {
            self.follow(now, actions);
        }
    }

    /// Gives back to the reserve what came back, and borrows for those that wait.
    fn lend(&mut self, now: Time, actions: &mut Actions) {
        let Some(member) = &self.member else {
            return;
        };
        loop {
            let returned = std::mem::take(&mut self.effects.returned);
            let wants = self.scheduler.wants_reserve();
            if !member.settle(returned, wants, |next| actions.lend(next)) {
                break;
            }
            self.scheduler.grant_reserve(now, &mut self.effects);
        }
    }

    fn follow(&mut self, now: Time, actions: &mut Actions) {
        for overdue in std::mem::take(&mut self.effects.overdue) {
            let clock = overdue.clock;
            self.call_off(overdue.slot, |executed| timeout(clock, executed), actions);
        }
        // What was called off may have made room by a spare slot.
        self.scheduler.dispatch(now, &mut self.effects);
        self.lend(now, actions);
        let mut effects = std::mem::take(&mut self.effects);
        for slot in effects.abort.drain(..) {
            if let Some(running) = &self.running[slot.0 as usize] {
                actions.abort(Arc::clone(&running.call));
            }
        }
        for rejected in effects.rejected.drain(..) {
            self.rejected(rejected, actions);
        }
        for started in effects.started.drain(..) {
            match self.started(now, started) {
                Begun::Call(job) => actions.start(job),
                Begun::Permit(waiter, slot, waited) => actions.grant(waiter, Ok((slot, waited))),
            }
        }
        self.effects = effects;
    }

    /// Answers for a call that has just become overdue, and calls its work off. A call that a
    /// worker really has is made up for by a spare slot, if there is one; a permit, which nobody
    /// waits for, is counted and no more.
    pub(super) fn call_off(
        &mut self,
        slot: SlotId,
        error: impl FnOnce(Executed) -> CallError,
        actions: &mut Actions,
    ) {
        let Some(running) = &self.running[slot.0 as usize] else {
            let error = error(Executed::Unknown);
            self.counts.add(&error);
            let ran = self.scheduler.occupant(slot, self.now).unwrap_or_default().0;
            self.learn(self.now, slot, Said::of(Some(&error)), ran);
            return;
        };
        let call = Arc::clone(&running.call);
        let timing = Timing { waited: running.waited, ran: self.now - running.started };
        let executed = if call.about().revoke() { Executed::No } else { Executed::Unknown };
        let error = error(executed);
        self.counts.add(&error);
        if executed == Executed::Unknown {
            self.learn(self.now, slot, Said::of(Some(&error)), timing.ran);
            self.scheduler.replace(slot);
            actions.cancel(Arc::clone(&call));
        } else if let Some(door) = &mut self.door {
            door.never_ran(slot);
        }
        actions.answer(Answer { call, error, timing });
    }

    /// How many slots are held, by whomever.
    pub(super) fn occupied(&self) -> u32 {
        self.scheduler.occupied()
    }

    /// Whether nobody holds a slot.
    pub(super) fn is_idle(&self) -> bool {
        self.occupied() == 0
    }
}

pub(super) fn timeout(clock: TimeoutClock, executed: Executed) -> CallError {
    CallError::Timeout { clock, executed, evidence: Evidence::default() }
}

pub(super) fn cancelled(by: CancelledBy, executed: Executed) -> CallError {
    CallError::Cancelled { by, executed, evidence: Evidence::default() }
}
