//! The gate: one lock around one partition's scheduler. Every grant, expiry, cancel, end and close
//! is decided under it, so that no race between them exists. `README.md` beside this file is the
//! protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::actions::{Actions, Job};
use super::cell::{Call, Ended, Said};
use super::lender::Membership;
use super::permit::Waiter;
use super::spec::PartitionSpec;
use super::state::{Offered, State, Waiting, Who, cancelled};
use super::sync::{Condvar, Mutex, MutexGuard};
use crate::admission::{Offer, PolicyError, SlotId};
use crate::outcome::CancelledBy;
use crate::time::{Clock, Time};

/// How long the timekeeper stays parked *with* a target when nothing is due, so that the next
/// start of a hot loop need not wake it.
const LINGER: Duration = Duration::from_secs(1);

/// What a worker has left to do when a run has ended.
pub(crate) enum End {
    /// Make the result visible.
    Publish,
    /// Nothing: the error is among the actions, or the call will be attempted again.
    Answered,
    /// Drop what nobody wants: the call had been answered for, and keeps its slot until
    /// [`Gate::finish_overdue`].
    Overdue,
}

/// One partition's gate.
pub(crate) struct Gate {
    clock: Clock,
    member: Option<Membership>,
    state: Mutex<State>,
    /// The timekeeper parks here.
    tick: Condvar,
    /// Those who wait for the timekeeper to be done, or for the partition to be idle.
    watched: Condvar,
}

impl Gate {
    pub(super) fn new(
        spec: &PartitionSpec,
        clock: Clock,
        member: Option<Membership>,
    ) -> Result<Gate, PolicyError> {
        let state = State::new(spec, member.clone())?;
        Ok(Gate {
            clock,
            member,
            state: Mutex::new(state),
            tick: Condvar::default(),
            watched: Condvar::default(),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Offers a call for the first time: it starts at once, or what follows is left in `actions`.
    #[inline]
    pub(crate) fn offer_call(
        &self,
        now: Time,
        call: &Arc<dyn Call>,
        terms: Offer<()>,
        actions: &mut Actions,
    ) -> Option<Job> {
        let mut state = self.state.lock();
        let now = state.tick(now);
        state.first_attempt(now, call.about().again.is_some());
        let job = match state.offer(now, terms, || Who::Call(Arc::clone(call)), actions) {
            Offered::AtOnce(slot) => Some(state.run(now, Arc::clone(call), slot, Duration::ZERO)),
            Offered::Contested(_) => {
                state.dispatch(now, actions);
                None
            }
        };
        self.leave(state);
        job
    }

    /// Offers a permit: it has a slot at once, or what follows is left in `actions`, for the `waiter`.
    #[inline]
    pub(crate) fn offer_permit(
        &self,
        now: Time,
        waiter: impl FnOnce() -> Arc<Waiter>,
        terms: Offer<()>,
        actions: &mut Actions,
    ) -> Option<SlotId> {
        let mut state = self.state.lock();
        let now = state.tick(now);
        let slot = match state.offer(now, terms, || Who::Permit(waiter()), actions) {
            Offered::AtOnce(slot) => Some(slot),
            Offered::Contested(slot) => {
                state.dispatch(now, actions);
                slot
            }
        };
        self.leave(state);
        slot
    }

    /// The call in `slot` has ended, as `ended` says, and its slot is free; unless it has been
    /// answered for.
    #[inline]
    pub(crate) fn finish(&self, slot: SlotId, ended: Ended, actions: &mut Actions) -> End {
        let mut state = self.state.lock();
        let now = state.tick(ended.at);
        let runs = state.scheduler.is_running(slot);
        let Some(finished) = runs.then(|| state.scheduler.finish(now, slot)).flatten() else {
            // It was answered for, and judged then; what the backend asks for holds all the same.
            if state.learn(now, slot, Said { backend: None, ..ended.said }, Duration::ZERO) {
                state.dispatch(now, actions);
            }
            self.leave(state);
            return End::Overdue;
        };
        state.run.record_ns(finished.ran_ns);
        let held = state.running[slot.0 as usize].take();
        let shut = state.learn(now, slot, ended.said, Duration::from_nanos(finished.ran_ns));
        let end = if let Some(unanswered) = ended.error {
            state.ended_badly(now, held, *unanswered, actions);
            End::Answered
        } else {
            state.counts.ok += 1;
            End::Publish
        };
        if shut || state.scheduler.needs_dispatch(now) {
            state.dispatch(now, actions);
        }
        self.leave(state);
        end
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
    pub(crate) fn cancel(&self, call: &dyn Call, actions: &mut Actions) {
        self.section(self.clock.now(), actions, |state, now, actions| {
            if state.cancel_sleep(call, actions) {
                return;
            }
            let waiter = *call.about().waiter.lock();
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
        let ended = Ended { at: self.clock.now(), said, error: None };
        if matches!(self.finish(slot, ended, actions), End::Overdue) {
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
        self.section(self.clock.now(), actions, |state, now, actions| {
            state.end_sleep(actions);
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
        let due = state.next_due();
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
            let due = state.next_due();
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
}
