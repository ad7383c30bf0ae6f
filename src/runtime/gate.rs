//! The gate: one lock around one partition's scheduler. Every grant, expiry, cancel, end and close
//! is decided under it, so that no race between them exists. `README.md` beside this file is the
//! protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::actions::{Actions, Job};
use super::cell::{Call, Ended, Said};
use super::door;
use super::lender::Membership;
use super::state::{Begun, State, Waiting, Who, cancelled};
use super::sync::{Condvar, Mutex, MutexGuard};
use crate::admission::{Decision, Offer, Policy, PolicyError, SlotId, WaiterId};
use crate::call::Tenant;
use crate::outcome::CancelledBy;
use crate::resilience::throttle;
use crate::telemetry::Counts;
use crate::time::{Clock, Time};

/// How long the timekeeper stays parked *with* a target when nothing is due, so that the next
/// start of a hot loop need not wake it.
const LINGER: Duration = Duration::from_secs(1);

/// What becomes of an offer, once the gate is left.
pub(crate) enum Offered {
    Started(SlotId),
    Waiting(WaiterId),
    /// Turned away; the answer is among the actions.
    Rejected,
}

/// One partition's gate.
pub(crate) struct Gate {
    clock: Clock,
    run_limit: Duration,
    cancel_grace: Duration,
    pauses: throttle::Policy,
    member: Option<Membership>,
    state: Mutex<State>,
    /// The timekeeper parks here.
    tick: Condvar,
    /// Those who wait for the timekeeper to be done, or for the partition to be idle.
    watched: Condvar,
}

impl Gate {
    pub(super) fn new(
        policy: Policy,
        door: &door::Policy,
        clock: Clock,
        member: Option<Membership>,
    ) -> Result<Gate, PolicyError> {
        let (run_limit, cancel_grace) = (policy.run_limit, policy.cancel_grace);
        let policy = Policy { jitter_seed: door::random().next(), ..policy };
        let state = State::new(policy, door, member.clone())?;
        Ok(Gate {
            clock,
            run_limit,
            cancel_grace,
            pauses: door.throttle,
            member,
            state: Mutex::new(state),
            tick: Condvar::default(),
            watched: Condvar::default(),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long a backend may have itself left alone.
    pub(crate) fn pauses(&self) -> &throttle::Policy {
        &self.pauses
    }

    pub(crate) fn run_limit(&self) -> Duration {
        self.run_limit
    }

    /// Makes an offer. What follows from it is left in `actions`, a call's start included.
    pub(crate) fn offer(
        &self,
        now: Time,
        mut offer: Offer<Waiting>,
        actions: &mut Actions,
    ) -> Offered {
        self.section(now, actions, |state, now, actions| {
            if let Err(error) = state.pass_door(now, &mut offer) {
                state.turn_away(offer.payload.who, error, Duration::ZERO, actions);
                return Offered::Rejected;
            }
            match state.offer(now, offer) {
                Decision::Start(started) => {
                    let slot = started.slot;
                    if let Begun::Call(job) = state.started(now, started) {
                        actions.start(job);
                    }
                    Offered::Started(slot)
                }
                Decision::Wait(id) => Offered::Waiting(id),
                Decision::Reject(rejected) => {
                    state.rejected(rejected, actions);
                    Offered::Rejected
                }
            }
        })
    }

    /// Gives a slot to a permit that need not wait; `None`: it has not been offered yet.
    pub(crate) fn start_permit(
        &self,
        now: Time,
        tenant: Option<&Tenant>,
        deadline: Time,
    ) -> Option<SlotId> {
        let mut state = self.state.lock();
        if state.door.is_some() {
            return None;
        }
        let now = state.tick(now);
        let slot = state.scheduler.start_now(now, tenant, deadline, Time::MAX)?;
        state.note_start();
        self.leave(state);
        Some(slot)
    }

    /// Starts a call that need not wait; `None`: it has not been offered yet.
    pub(crate) fn start_call(
        &self,
        now: Time,
        call: &Arc<dyn Call>,
        tenant: Option<&Tenant>,
        run_for: Duration,
    ) -> Option<Job> {
        let deadline = call.about().deadline;
        let mut state = self.state.lock();
        if state.door.is_some() {
            return None;
        }
        let now = state.tick(now);
        let slot = state.scheduler.start_now(now, tenant, deadline, now + run_for)?;
        state.note_start();
        let job = state.run(now, Arc::clone(call), slot, Duration::ZERO);
        self.leave(state);
        Some(job)
    }

    /// The call in `slot` has ended, as `ended` says, and somebody waits for it: its slot is free.
    /// `false`: it has been answered for, and keeps its slot until [`Gate::finish_overdue`].
    pub(crate) fn finish(&self, slot: SlotId, ended: &Ended, actions: &mut Actions) -> bool {
        let count = |counts: &mut Counts| counts.add_ended(ended.status, ended.clock);
        self.end_run(slot, ended.at, ended.said, actions, count)
    }

    #[inline]
    fn end_run(
        &self,
        slot: SlotId,
        at: Time,
        said: Said,
        actions: &mut Actions,
        count: impl FnOnce(&mut Counts),
    ) -> bool {
        let mut state = self.state.lock();
        let now = state.tick(at);
        let runs = state.scheduler.is_running(slot);
        let Some(finished) = runs.then(|| state.scheduler.finish(now, slot)).flatten() else {
            return false;
        };
        state.run.record_ns(finished.ran_ns);
        count(&mut state.counts);
        let _held = state.running[slot.0 as usize].take();
        let shut = state.learn(now, slot, said, Duration::from_nanos(finished.ran_ns));
        if shut || state.scheduler.needs_dispatch(now) {
            state.dispatch(now, actions);
        }
        self.leave(state);
        true
    }

    /// The overdue call in `slot` has ended, and what nobody wants of it has been dropped.
    pub(crate) fn finish_overdue(&self, slot: SlotId, actions: &mut Actions) {
        let _held = self.section(self.clock.now(), actions, |state, now, _| {
            state.scheduler.finish(now, slot);
            state.running[slot.0 as usize].take()
        });
    }

    /// No worker was there for a call that was started.
    pub(crate) fn unsent(&self, job: &Job, actions: &mut Actions) {
        let _held = self.section(self.clock.now(), actions, |state, now, actions| {
            if state.scheduler.answer(now, job.slot) {
                let error = |executed| cancelled(CancelledBy::Shutdown, executed);
                state.call_off(job.slot, error, actions);
            }
            state.scheduler.finish(now, job.slot);
            state.running[job.slot.0 as usize].take()
        });
    }

    /// Takes a call back: out of the queue, or out of its slot, which stays occupied until the body
    /// returns. Nothing happens if it has been answered.
    pub(crate) fn cancel(&self, call: &dyn Call, waiter: Option<WaiterId>, actions: &mut Actions) {
        self.section(self.clock.now(), actions, |state, now, actions| {
            let withdrawn = waiter.and_then(|id| state.scheduler.withdraw(now, id));
            if let Some((Waiting { who: Who::Call(call), pass }, waited)) = withdrawn {
                state.give_back(pass);
                state.withdrawn(call, waited, actions);
                return;
            }
            let slot = SlotId(call.about().slot.load(Ordering::Relaxed));
            if state.holds(slot, call) && state.scheduler.answer(now, slot) {
                state.call_off(slot, |executed| cancelled(CancelledBy::Caller, executed), actions);
            }
        });
    }

    /// The permit in `slot` is given back; past its deadline it has been counted already.
    pub(crate) fn finish_permit(&self, slot: SlotId, said: Said, actions: &mut Actions) {
        if !self.end_run(slot, self.clock.now(), said, actions, |counts| counts.ok += 1) {
            self.finish_overdue(slot, actions);
        }
    }

    /// Brings a slot of the reserve that this partition was in line for.
    pub(super) fn grant_reserve(&self, actions: &mut Actions) {
        self.section(self.clock.now(), actions, |state, now, _| {
            state.scheduler.grant_reserve(now, &mut state.effects);
        });
    }

    pub(super) fn member(&self) -> Option<&Membership> {
        self.member.as_ref()
    }

    /// Does what is due, so that nobody depends on the timekeeper alone.
    pub(crate) fn poke(&self, actions: &mut Actions) {
        self.section(self.clock.now(), actions, |_, _, _| ());
    }

    /// Takes no calls from now on; those that wait are cancelled.
    pub(crate) fn close(&self, actions: &mut Actions) {
        self.section(self.clock.now(), actions, |state, now, _| {
            state.scheduler.close(now, &mut state.effects);
        });
    }

    /// Answers every running call with `cancelled`, and calls its work off.
    pub(crate) fn cancel_all(&self, actions: &mut Actions) {
        self.section(self.clock.now(), actions, |state, now, actions| {
            for slot in 0..state.running.len() as u32 {
                let slot = SlotId(slot);
                if state.running[slot.0 as usize].is_some() && state.scheduler.answer(now, slot) {
                    state.call_off(
                        slot,
                        |executed| cancelled(CancelledBy::Shutdown, executed),
                        actions,
                    );
                }
            }
        });
    }

    /// Ends by force the work of every overdue call.
    pub(crate) fn abort_all(&self, actions: &mut Actions) {
        let state = self.state.lock();
        for running in state.running.iter().flatten() {
            actions.abort(Arc::clone(&running.call));
        }
    }

    /// One critical section: `f`, then dispatch, then the timekeeper's next target.
    #[inline]
    pub(super) fn section<R>(
        &self,
        now: Time,
        actions: &mut Actions,
        f: impl FnOnce(&mut State, Time, &mut Actions) -> R,
    ) -> R {
        let mut state = self.state.lock();
        let now = state.tick(now);
        let answer = f(&mut state, now, actions);
        state.dispatch(now, actions);
        self.leave(state);
        answer
    }

    /// Ends a critical section: sets the timekeeper's next target.
    #[inline]
    fn leave(&self, mut state: MutexGuard<'_, State>) {
        let due = state.scheduler.next_due();
        let wake = due < state.target;
        if wake {
            state.target = due;
        }
        if state.watchers > 0 {
            self.watched.notify_all();
        }
        drop(state);
        if wake {
            self.tick.notify_all();
        }
    }

    /// The timekeeper's turn: does what is due, and parks until something is. Returns when there
    /// is something to act on, with `false` when the partition ends.
    pub(crate) fn keep_time(&self, actions: &mut Actions) -> bool {
        let mut state = self.state.lock();
        loop {
            state.target = Time::ZERO;
            let now = state.tick(self.clock.now());
            state.dispatch(now, actions);
            if !actions.is_empty() || state.ending {
                return !state.ending;
            }
            let due = state.scheduler.next_due();
            state.target = if due < Time::MAX {
                state.lingered = false;
                due
            } else if state.lingered {
                Time::MAX
            } else {
                state.lingered = true;
                now + LINGER
            };
            if state.target > now {
                state.parked_until = state.target;
                self.watched.notify_all();
                let until = self.clock.instant(state.target);
                state = self.tick.wait(state, until);
                state.parked_until = Time::ZERO;
            }
        }
    }

    /// Blocks until the timekeeper has done what is due by the clock's time, or has ended.
    pub(super) fn settle(&self) {
        let mut state = self.state.lock();
        state.watchers += 1;
        while state.target <= self.clock.now() && !state.ending {
            state = self.watched.wait(state, None);
        }
        state.watchers -= 1;
    }

    /// Wakes the timekeeper if it is parked until a time that has come: what the system does on
    /// its own clock, and no more, so that a test on a manual clock shows that it was armed.
    pub(super) fn ring(&self) {
        if self.state.lock().parked_until <= self.clock.now() {
            self.tick.notify_all();
        }
    }

    /// Blocks until no call holds a slot, or until `until`; whether none does.
    pub(crate) fn wait_idle(&self, until: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        state.watchers += 1;
        while !state.is_idle() && !until.is_some_and(crate::time::is_past) {
            state = self.watched.wait(state, until);
        }
        state.watchers -= 1;
        state.is_idle()
    }

    /// How many slots are held.
    pub(crate) fn occupied(&self) -> u32 {
        self.state.lock().occupied()
    }

    /// Ends the timekeeper.
    pub(crate) fn end(&self) {
        self.state.lock().ending = true;
        self.tick.notify_all();
        self.watched.notify_all();
    }

    /// Looks at the state; `f` is ours and short.
    pub(super) fn look<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        state.tick(self.clock.now());
        f(&mut state)
    }

    #[cfg(test)]
    pub(super) fn with_state(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.state.lock());
    }

    pub(crate) fn cancel_grace(&self) -> Duration {
        self.cancel_grace
    }
}
