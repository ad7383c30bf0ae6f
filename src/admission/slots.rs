//! The numbered slots: who holds which, since when, and which is free.

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
    /// Whether a spare may stand in for it while it is overdue, and whether one does.
    replaceable: bool,
    replaced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not in use: a spare for an overdue call, or one that made room for its spare.
    Retired,
    Free,
    Running,
    Overdue,
}

/// All slots of a partition, spares included.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// Free slots by home.
    free: Vec<SlotSet>,
    retired: SlotSet,
    pub(super) free_count: u32,
    pub(super) running: u32,
    pub(super) overdue: u32,
    pub(super) replaced: u32,
    /// No slot is due earlier than this; it may be too early, never too late.
    next_due: Time,
}

impl Slots {
    /// Slots for `homes` (slots of home 0, of home 1, …) and `spares` retired ones.
    pub(super) fn new(homes: &[u32], spares: u32) -> Slots {
        let total = homes.iter().sum::<u32>() + spares;
        let mut slots = Slots {
            all: Vec::with_capacity(total as usize),
            free: homes.iter().map(|_| SlotSet::new(total)).collect(),
            retired: SlotSet::new(total),
            free_count: 0,
            running: 0,
            overdue: 0,
            replaced: 0,
            next_due: Time::MAX,
        };
        let blank = Slot {
            state: State::Free,
            home: 0,
            tenant: 0,
            started: Time::ZERO,
            due: Time::MAX,
            clock: TimeoutClock::Run,
            replaceable: false,
            replaced: false,
        };
        for (home, &count) in homes.iter().enumerate() {
            for _ in 0..count {
                slots.free[home].insert(slots.all.len() as u32);
                slots.all.push(Slot {
                    home: home as u32,
                    ..blank
                });
                slots.free_count += 1;
            }
        }
        for _ in 0..spares {
            slots.retired.insert(slots.all.len() as u32);
            slots.all.push(Slot {
                state: State::Retired,
                ..blank
            });
        }
        slots
    }

    pub(super) fn get(&self, slot: SlotId) -> &Slot {
        &self.all[slot.0 as usize]
    }

    pub(super) fn occupied(&self) -> impl Iterator<Item = &Slot> {
        self.all
            .iter()
            .filter(|slot| matches!(slot.state, State::Running | State::Overdue))
    }

    /// The lowest free slot of `home`.
    #[inline]
    pub(super) fn free_in(&self, home: u32) -> Option<SlotId> {
        self.free[home as usize].first().map(SlotId)
    }

    /// The lowest free slot of any home for which `lends` holds.
    pub(super) fn free_where(&self, lends: impl Fn(u32) -> bool) -> Option<SlotId> {
        let homes = 0..self.free.len() as u32;
        homes
            .filter(|&home| lends(home))
            .filter_map(|home| self.free_in(home))
            .min()
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
        slot.replaceable = false;
        self.free[slot.home as usize].remove(id.0);
        self.free_count -= 1;
        self.running += 1;
        self.next_due = self.next_due.min(due);
    }

    /// Ends the call in `id`. Its slot is free again, unless a spare stands in for it: then it is
    /// retired, or becomes the spare of another overdue call that has none.
    #[inline]
    pub(super) fn release(&mut self, id: SlotId) {
        let slot = &mut self.all[id.0 as usize];
        match slot.state {
            State::Running => self.running -= 1,
            State::Overdue => {
                self.overdue -= 1;
                if slot.replaced {
                    self.replaced -= 1;
                    slot.state = State::Retired;
                    slot.replaced = false;
                    self.retired.insert(id.0);
                    self.replace_another();
                    return;
                }
            }
            State::Free | State::Retired => return,
        }
        slot.state = State::Free;
        self.free[slot.home as usize].insert(id.0);
        self.free_count += 1;
    }

    /// The call in `id` is answered for; its work is called off, and ended by force at `abort_at`.
    pub(super) fn make_overdue(&mut self, id: SlotId, abort_at: Time) {
        let slot = &mut self.all[id.0 as usize];
        if slot.state == State::Running {
            slot.state = State::Overdue;
            slot.due = abort_at;
            self.running -= 1;
            self.overdue += 1;
            self.next_due = self.next_due.min(abort_at);
        }
    }

    /// Gives the overdue call in `id` a spare slot with the same home; whether there was one.
    pub(super) fn replace(&mut self, id: SlotId) -> bool {
        let slot = &mut self.all[id.0 as usize];
        if slot.state != State::Overdue || slot.replaced {
            return false;
        }
        slot.replaceable = true;
        let Some(spare) = self.retired.first() else {
            return false;
        };
        slot.replaced = true;
        let home = slot.home;
        self.retired.remove(spare);
        self.all[spare as usize].home = home;
        self.all[spare as usize].state = State::Free;
        self.free[home as usize].insert(spare);
        self.free_count += 1;
        self.replaced += 1;
        true
    }

    fn replace_another(&mut self) {
        let stuck =
            |slot: &Slot| slot.state == State::Overdue && slot.replaceable && !slot.replaced;
        if self.overdue > self.replaced
            && let Some(at) = self.all.iter().position(stuck)
        {
            self.replace(SlotId(at as u32));
        }
    }

    /// Calls whose due time has come, lowest slot first; O(1) while none has.
    pub(super) fn take_due(&mut self, now: Time, mut due: impl FnMut(SlotId, &Slot)) {
        if now < self.next_due {
            return;
        }
        self.next_due = Time::MAX;
        for (at, slot) in self.all.iter_mut().enumerate() {
            if !matches!(slot.state, State::Running | State::Overdue) {
                continue;
            }
            if slot.due <= now {
                due(SlotId(at as u32), slot);
                slot.due = Time::MAX;
            }
            self.next_due = self.next_due.min(slot.due);
        }
    }

    pub(super) fn next_due(&self) -> Time {
        self.next_due
    }
}

/// A set of small numbers that finds its least member fast and never allocates.
#[derive(Debug)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    fn new(members: u32) -> SlotSet {
        SlotSet(vec![0; (members as usize).div_ceil(64)])
    }

    #[inline]
    fn insert(&mut self, member: u32) {
        self.0[(member / 64) as usize] |= 1 << (member % 64);
    }

    #[inline]
    fn remove(&mut self, member: u32) {
        self.0[(member / 64) as usize] &= !(1 << (member % 64));
    }

    #[inline]
    fn first(&self) -> Option<u32> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(word as u32 * 64 + self.0[word].trailing_zeros())
    }
}
