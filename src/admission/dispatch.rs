//! What time and free slots bring about: waiters start or expire, running calls fall due.

use super::decision::{Effects, Overdue, Rejection, Started};
use super::policy::Dispatch;
use super::scheduler::Scheduler;
use super::slots::{SlotId, State};
use crate::outcome::TimeoutClock;
use crate::time::Time;

impl<T> Scheduler<T> {
    /// Does what is due at `now` and gives free slots to waiters, lowest slot first. A waiter that
    /// is due at this instant is never started.
    pub fn dispatch(&mut self, now: Time, effects: &mut Effects<T>) {
        self.expire(now, effects);
        self.answer_due(now, effects);
        while self.room.len() > 0
            && self.slots.free_count > 0
            && let Some((slot, tenant)) = self.next_start()
        {
            let head = self
                .tenants
                .get(tenant)
                .line
                .head
                .expect("it is somebody's turn");
            let waiter = self.take_waiter(head);
            let borrowed = self.start(now, slot, tenant, waiter.deadline, waiter.run_for);
            let waited = now - waiter.since;
            effects.started.push(Started {
                slot,
                payload: waiter.payload,
                waited,
                borrowed,
            });
        }
        self.assert_invariants();
    }

    /// When [`Scheduler::dispatch`] next has something to do if nothing else happens. It may be
    /// too early, never too late.
    pub fn next_due(&self) -> Time {
        self.room.next_due().min(self.slots.next_due())
    }

    /// Which waiter starts next, and where: the lowest slot whose home has a turn; failing that,
    /// under `Borrow`, the lowest slot of a home without one.
    fn next_start(&self) -> Option<(SlotId, u32)> {
        let home = self
            .slots
            .free_where(|home| self.tenants.next_in(home).is_some());
        if let Some(slot) = home {
            return Some((slot, self.tenants.next_in(self.slots.get(slot).home)?));
        }
        if self.policy.dispatch != Dispatch::Borrow {
            return None;
        }
        Some((
            self.slots.free_where(|_| true)?,
            self.tenants.next_anywhere()?,
        ))
    }

    pub(super) fn expire(&mut self, now: Time, effects: &mut Effects<T>) {
        while let Some(at) = self.room.expired(now) {
            let waiter = self.take_waiter(at);
            let rejection = match waiter.clock() {
                Some(TimeoutClock::Deadline) => Rejection::Deadline,
                Some(TimeoutClock::Run) | None => Rejection::Busy(self.full()),
            };
            self.turn_away(now, waiter, rejection, effects);
        }
    }

    fn answer_due(&mut self, now: Time, effects: &mut Effects<T>) {
        let Effects { overdue, abort, .. } = effects;
        let first = overdue.len();
        self.slots.take_due(now, |slot, held| {
            if held.state == State::Running {
                overdue.push(Overdue {
                    slot,
                    clock: held.clock,
                });
            } else {
                abort.push(slot);
            }
        });
        for due in &overdue[first..] {
            self.answer(now, due.slot);
        }
    }
}
