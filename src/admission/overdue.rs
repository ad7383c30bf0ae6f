//! Calls that outlast their limit: when they fall due, and the spares that stand in for them.

use super::slots::{Slot, SlotId, Slots, State};
use super::waiting::has_come;
use crate::time::Time;

impl Slots {
    /// The call in `id` is answered for; its work is called off, and ended by force at `abort_at`.
    pub(super) fn make_overdue(&mut self, id: SlotId, abort_at: Time) {
        let slot = &mut self.all[id.0 as usize];
        if slot.state == State::Running {
            slot.state = State::Overdue;
            slot.due = abort_at;
            self.running = self.running.saturating_sub(1);
            self.overdue += 1;
            self.next_due = self.next_due.min(abort_at);
        }
    }

    /// Gives the overdue call in `id` a spare slot with the same home; whether there was one. If
    /// not, it has the next that is given back.
    pub(super) fn replace(&mut self, id: SlotId) -> bool {
        let Some(slot) = self.all.get_mut(id.0 as usize) else {
            return false;
        };
        if slot.state != State::Overdue || slot.replaced {
            return false;
        }
        let home = slot.home;
        if self.replaced == self.replaced_max {
            self.unreplaced.insert(id.0);
            return false;
        }
        let Some(spare) = self.retired.first() else {
            return false;
        };
        slot.replaced = true;
        self.unreplaced.remove(id.0);
        self.replaced += 1;
        if !self.give_back(home) {
            self.join(spare, home);
            self.set_free(spare);
        }
        true
    }

    /// Passes a spare that was given back on to the lowest slot that asked for one.
    pub(super) fn replace_another(&mut self) {
        if let Some(slot) = self.unreplaced.first() {
            self.replace(SlotId(slot));
        }
    }

    /// Calls whose due time has come, lowest slot first. O(1) while none has; a pass over the
    /// slots otherwise, which is at most one for every time at which a call was due.
    pub(super) fn take_due(&mut self, now: Time, mut due: impl FnMut(SlotId, &Slot)) {
        self.next_due = Time::MAX;
        for (slot, at) in self.all.iter_mut().zip(0..) {
            if !matches!(slot.state, State::Running | State::Overdue) {
                continue;
            }
            if has_come(slot.due, now) {
                due(SlotId(at), slot);
                slot.due = Time::MAX;
            }
            self.next_due = self.next_due.min(slot.due);
        }
    }
}
