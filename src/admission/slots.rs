//! The numbered slots: who holds which, since when, and which is free.

use super::bits::Bits;
use crate::outcome::TimeoutClock;
use crate::time::Time;

/// A slot's number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// One slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    /// Whose home it is.
    pub(super) home: u32,
    /// Who holds it, if anybody does.
    pub(super) tenant: u32,
    pub(super) started: Time,
    /// When the call is answered for, or, if that is past, ended by force.
    pub(super) due: Time,
    pub(super) clock: TimeoutClock,
    /// Whether a spare stands in for it while it is overdue.
    pub(super) replaced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not in use, and in nobody's home: a spare.
    Retired,
    Free,
    Running,
    Overdue,
}

/// The slots that serve the same tenants first.
#[derive(Debug)]
struct Home {
    slots: Bits,
    /// Whether one of its tenants waits and may start.
    wanted: bool,
    /// How many of its slots are the reserve's.
    borrowed: u32,
}

/// All slots of a partition, spares included. A step costs a pass over a bit a slot at most,
/// except where calls fall due.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) all: Vec<Slot>,
    free: Bits,
    pub(super) retired: Bits,
    homes: Vec<Home>,
    /// The slots of all homes that are wanted.
    wanted: Bits,
    /// Overdue calls that ask for a spare and have none.
    pub(super) unreplaced: Bits,
    pub(super) free_count: u32,
    pub(super) running: u32,
    pub(super) overdue: u32,
    pub(super) replaced: u32,
    pub(super) replaced_max: u32,
    /// Slots that are the reserve's. None of them is ever free between two steps.
    pub(super) borrowed: u32,
    /// Slots given back to the reserve that nobody was told of yet.
    pub(super) returned: u32,
    /// No slot is due earlier than this; it may be too early, never too late.
    pub(super) next_due: Time,
}

impl Slots {
    /// Slots for `homes` (slots of home 0, of home 1, …), and spares for `replaced_max` overdue
    /// calls and `borrowed_max` slots of the reserve.
    pub(super) fn new(homes: &[u32], replaced_max: u32, borrowed_max: u32) -> Slots {
        let own = homes.iter().sum::<u32>();
        let total = own + replaced_max + borrowed_max;
        let spare = Slot {
            state: State::Retired,
            home: 0,
            tenant: 0,
            started: Time::ZERO,
            due: Time::MAX,
            clock: TimeoutClock::Run,
            replaced: false,
        };
        let home = |_| Home { slots: Bits::new(total), wanted: false, borrowed: 0 };
        let mut slots = Slots {
            all: vec![spare; total as usize],
            free: Bits::new(total),
            retired: Bits::new(total),
            homes: homes.iter().map(home).collect(),
            wanted: Bits::new(total),
            unreplaced: Bits::new(total),
            free_count: 0,
            running: 0,
            overdue: 0,
            replaced: 0,
            replaced_max,
            borrowed: 0,
            returned: 0,
            next_due: Time::MAX,
        };
        let owners = homes.iter().zip(0..);
        let owners = owners.flat_map(|(&count, home)| (0..count).map(move |_| home));
        for (slot, home) in (0..own).zip(owners) {
            slots.join(slot, home);
            slots.set_free(slot);
        }
        for spare in own..total {
            slots.retired.insert(spare);
        }
        slots
    }

    /// The slot with this number, if there is one.
    #[inline]
    pub(super) fn get(&self, slot: SlotId) -> Option<&Slot> {
        self.all.get(slot.0 as usize)
    }

    pub(super) fn occupied(&self) -> impl Iterator<Item = &Slot> {
        self.all.iter().filter(|slot| matches!(slot.state, State::Running | State::Overdue))
    }

    /// The lowest free slot of `home`.
    #[inline]
    pub(super) fn free_in(&self, home: u32) -> Option<SlotId> {
        let slots = &self.homes[home as usize].slots;
        self.free.first_also_in(slots).map(SlotId)
    }

    /// The lowest free slot of all.
    #[inline]
    pub(super) fn free_anywhere(&self) -> Option<SlotId> {
        self.free.first().map(SlotId)
    }

    /// The lowest free slot whose home is wanted.
    #[inline]
    pub(super) fn free_and_wanted(&self) -> Option<SlotId> {
        self.free.first_also_in(&self.wanted).map(SlotId)
    }

    /// Says whether one of the tenants of `home` waits and may start.
    pub(super) fn set_wanted(&mut self, home: u32, wanted: bool) {
        let home = &mut self.homes[home as usize];
        if home.wanted == wanted {
            return;
        }
        home.wanted = wanted;
        if wanted {
            self.wanted.insert_all(&home.slots);
        } else {
            self.wanted.remove_all(&home.slots);
        }
    }

    #[inline]
    pub(super) fn take(
        &mut self,
        id: SlotId,
        tenant: u32,
        now: Time,
        due: Time,
        clock: TimeoutClock,
    ) {
        let slot = &mut self.all[id.0 as usize];
        slot.state = State::Running;
        slot.tenant = tenant;
        slot.started = now;
        slot.due = due;
        slot.clock = clock;
        self.free.remove(id.0);
        self.free_count = self.free_count.saturating_sub(1);
        self.running += 1;
        self.next_due = self.next_due.min(due);
    }

    /// Ends the call in `id`. Its slot is free again, unless a spare stands in for it: then it is
    /// a spare itself.
    #[inline]
    pub(super) fn release(&mut self, id: SlotId) {
        let slot = &mut self.all[id.0 as usize];
        match slot.state {
            State::Running => self.running = self.running.saturating_sub(1),
            State::Overdue => {
                self.overdue = self.overdue.saturating_sub(1);
                if slot.replaced {
                    slot.replaced = false;
                    self.replaced = self.replaced.saturating_sub(1);
                    self.retire(id.0);
                    self.replace_another();
                    return;
                }
                self.unreplaced.remove(id.0);
            }
            State::Free | State::Retired => return,
        }
        let home = self.all[id.0 as usize].home;
        if self.give_back(home) {
            self.retire(id.0);
        } else {
            self.set_free(id.0);
        }
    }

    /// Gives one slot of `home` back to the reserve if one is the reserve's: whichever of them is
    /// free first is given back.
    #[inline]
    pub(super) fn give_back(&mut self, home: u32) -> bool {
        let home = &mut self.homes[home as usize];
        if home.borrowed == 0 {
            return false;
        }
        home.borrowed -= 1;
        self.borrowed = self.borrowed.saturating_sub(1);
        self.returned += 1;
        true
    }

    /// Makes a spare a slot of `home` that is the reserve's. It must be taken in the same step.
    pub(super) fn borrow(&mut self, home: u32) -> Option<SlotId> {
        let spare = self.retired.first()?;
        self.join(spare, home);
        self.set_free(spare);
        self.homes[home as usize].borrowed += 1;
        self.borrowed += 1;
        Some(SlotId(spare))
    }

    #[inline]
    pub(super) fn set_free(&mut self, slot: u32) {
        self.all[slot as usize].state = State::Free;
        self.free.insert(slot);
        self.free_count += 1;
    }

    pub(super) fn join(&mut self, slot: u32, home: u32) {
        self.retired.remove(slot);
        self.all[slot as usize].home = home;
        let home = &mut self.homes[home as usize];
        home.slots.insert(slot);
        if home.wanted {
            self.wanted.insert(slot);
        }
    }

    fn retire(&mut self, slot: u32) {
        let retired = &mut self.all[slot as usize];
        retired.state = State::Retired;
        self.homes[retired.home as usize].slots.remove(slot);
        self.wanted.remove(slot);
        self.retired.insert(slot);
    }
}
