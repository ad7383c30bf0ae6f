//! What time and free slots bring about: waiters start or expire, running calls fall due.

use super::decision::{Effects, Overdue, Rejection, Started};
use super::policy::Dispatch;
use super::scheduler::Scheduler;
use super::slots::{SlotId, State};
use super::waiting::{WaiterId, has_come};
use crate::outcome::{BusyReason, TimeoutClock};
use crate::time::Time;

impl<T> Scheduler<T> {
    /// Does what is due at `now` and gives free slots to waiters, lowest slot first. A waiter that
    /// is due at this instant is never started.
    pub fn dispatch(&mut self, now: Time, effects: &mut Effects<T>) {
        self.assert_invariants();
        self.expire(now, effects);
        self.answer_due(now, effects);
        while !self.broken
            && let Some((slot, tenant)) = self.next_start()
        {
            self.start_head(now, slot, tenant, effects);
        }
        effects.returned += std::mem::take(&mut self.slots.returned);
        self.assert_invariants();
        if self.broken {
            self.turn_all_away(now, Rejection::Closed, effects);
        }
    }

    /// Whether [`Scheduler::dispatch`] may have something to do at `now`.
    #[inline]
    pub fn needs_dispatch(&self, now: Time) -> bool {
        self.room.len() > 0 || self.slots.returned > 0 || has_come(self.slots.next_due, now)
    }

    /// What the waiter `id` was offered with, if it still waits.
    pub fn payload(&self, id: WaiterId) -> Option<&T> {
        let at = self.room.find(id)?;
        self.room.get(at).map(|waiter| &waiter.payload)
    }

    /// When [`Scheduler::dispatch`] next has something to do if nothing else happens. It may be
    /// too early, never too late.
    #[inline]
    pub fn next_due(&self) -> Time {
        self.room.next_due().min(self.slots.next_due)
    }

    /// Which waiter starts next, and where: the lowest slot whose home has a turn; failing that,
    /// under `Borrow`, the lowest slot of a home without one.
    pub(super) fn next_start(&self) -> Option<(SlotId, u32)> {
        if self.room.len() == 0 || self.slots.free_count == 0 {
            return None;
        }
        if let Some(slot) = self.slots.free_and_wanted() {
            let home = self.slots.get(slot)?.home;
            return Some((slot, self.tenants.next_in(home)?));
        }
        if self.policy.dispatch != Dispatch::Borrow {
            return None;
        }
        let tenant = self.tenants.next_anywhere()?;
        Some((self.slots.free_anywhere()?, tenant))
    }

    /// Starts the first waiter of `tenant` in `slot`.
    pub(super) fn start_head(
        &mut self,
        now: Time,
        slot: SlotId,
        tenant: u32,
        effects: &mut Effects<T>,
    ) {
        let head = self.tenants.get(tenant).line.head;
        let Some(waiter) = head.and_then(|head| self.take_waiter(head)) else {
            return self.fail();
        };
        self.start(now, slot, tenant, waiter.deadline, now + waiter.run_for);
        self.settle(tenant);
        let borrowed = self.is_borrowed(slot, tenant);
        effects.started.push(Started {
            slot,
            payload: waiter.payload,
            waited: now - waiter.since,
            borrowed,
        });
    }

    /// Turns waiters away whose time is over.
    #[inline]
    pub(super) fn expire(&mut self, now: Time, effects: &mut Effects<T>) {
        if has_come(self.room.next_due(), now) {
            self.expire_due(now, effects);
        }
    }

    fn expire_due(&mut self, now: Time, effects: &mut Effects<T>) {
        let mut outlook = None;
        while let Some(at) = self.room.expired(now) {
            let Some(waiter) = self.take_waiter(at) else {
                return self.fail();
            };
            let deadline = waiter.clock() == Some(TimeoutClock::Deadline);
            let hint = (!deadline)
                .then(|| self.hint_again(now, waiter.tenant, waiter.attempt, &mut outlook));
            let rejection =
                if deadline { Rejection::Deadline } else { Rejection::Busy(self.full()) };
            self.turn_away(now, waiter, rejection, hint, effects);
        }
    }

    /// Answers for running calls whose limit is over, and ends overdue ones by force.
    #[inline]
    fn answer_due(&mut self, now: Time, effects: &mut Effects<T>) {
        while has_come(self.slots.next_due, now) {
            self.take_due(now, effects);
        }
    }

    fn take_due(&mut self, now: Time, effects: &mut Effects<T>) {
        let Effects { overdue, abort, .. } = effects;
        let first = overdue.len();
        self.slots.take_due(now, |slot, held| {
            if held.state == State::Running {
                overdue.push(Overdue { slot, clock: held.clock });
            } else {
                abort.push(slot);
            }
        });
        for due in &overdue[first..] {
            self.answer(now, due.slot);
        }
    }

    /// What to say where no slot is to be had.
    pub(super) fn full(&self) -> BusyReason {
        if self.slots.running == 0 && self.slots.free_count == 0 && self.slots.overdue > 0 {
            BusyReason::SlotsStuck
        } else {
            BusyReason::SlotsFull
        }
    }
}
