//! The second half of the model: how calls end, and what can be looked up.

use watertight::admission::{Dispatch, Rejection};
use watertight::outcome::BusyReason;
use watertight::time::Time;

use crate::model::{Counts, Model, State, Tenant, Waiter};
use crate::observed::Observed;

impl Model {
    /// Turns away every waiter whose time is over.
    pub(crate) fn expire(&mut self, seen: &mut Observed) {
        let full = self.full();
        for waiter in std::mem::take(&mut self.waiting) {
            let offered = waiter.offered;
            if offered.deadline <= self.now && offered.deadline <= offered.wait_until {
                self.reject(&waiter, Rejection::Deadline, seen);
            } else if offered.wait_until <= self.now {
                self.reject(&waiter, Rejection::Busy(full), seen);
            } else {
                self.waiting.push(waiter);
            }
        }
        self.forget();
    }

    pub(crate) fn reject(&mut self, waiter: &Waiter, rejection: Rejection, seen: &mut Observed) {
        self.count(waiter.offered.tenant).rejected += 1;
        seen.rejected.push((waiter.call, rejection, self.now - waiter.since));
    }

    pub(crate) fn count(&mut self, tenant: Tenant) -> &mut Counts {
        self.counts.entry(tenant).or_default()
    }

    /// Tenants that have nothing in the partition are forgotten, but for the one served last;
    /// nobody is never.
    pub(crate) fn forget(&mut self) {
        for tenant in 1..=TENANTS {
            if self.counts.contains_key(&tenant)
                && self.latest != Some(tenant)
                && self.holding(tenant) == 0
                && self.waiting_of(tenant) == 0
                && let Some(gone) = self.counts.remove(&tenant)
            {
                self.forgotten = self.forgotten.and(&gone);
            }
        }
    }

    /// Answers for what is due and aborts what outlasted its grace; whether anything was.
    pub(crate) fn answer_due(&mut self, seen: &mut Observed) -> bool {
        let mut any = false;
        for at in 0..self.slots.len() {
            match &mut self.slots[at].state {
                State::Running { due, clock } if *due <= self.now => {
                    seen.overdue.push((at as u32, *clock));
                    self.answer(at);
                    any = true;
                }
                State::Overdue { abort_at, .. } if abort_at.is_some_and(|at| at <= self.now) => {
                    seen.abort.push(at as u32);
                    *abort_at = None;
                    any = true;
                }
                _ => {}
            }
        }
        any
    }

    pub(crate) fn answer(&mut self, slot: usize) -> bool {
        let abort_at = Some(self.now + self.policy.cancel_grace);
        match self.slots.get_mut(slot) {
            Some(slot) if matches!(slot.state, State::Running { .. }) => {
                slot.state = State::Overdue { abort_at, replaced: false };
                let tenant = slot.tenant;
                self.count(tenant).overdue += 1;
                true
            }
            _ => false,
        }
    }

    /// Whether a call ended there, and whether it was overdue.
    pub(crate) fn finish(&mut self, at: usize) -> Option<bool> {
        let slot = self.slots.get_mut(at).filter(|slot| slot.occupied())?;
        let (ended, tenant) = (slot.state, slot.tenant);
        let overdue = matches!(ended, State::Overdue { .. });
        slot.state = State::Spare;
        slot.asked = false;
        let home = slot.home;
        if !matches!(ended, State::Overdue { replaced: true, .. }) {
            if !self.give_back(home) {
                self.slots[at].state = State::Free;
            }
        } else if let Some(next) = self.slots.iter().position(|slot| slot.asked) {
            self.replace(next);
        }
        self.count(tenant).finished += u64::from(!overdue);
        self.forget();
        Some(overdue)
    }

    pub(crate) fn replace(&mut self, at: usize) -> bool {
        let replaced = self.replaced();
        let most = self.policy.replace_overdue;
        let Some(slot) = self.slots.get_mut(at) else {
            return false;
        };
        let home = slot.home;
        match &mut slot.state {
            State::Overdue { replaced: own @ false, .. } => {
                if replaced >= most {
                    slot.asked = true;
                    return false;
                }
                *own = true;
                slot.asked = false;
                if !self.give_back(home) {
                    self.activate_spare(home);
                }
                true
            }
            _ => false,
        }
    }

    /// A slot of the reserve is given back as soon as any slot of its home is free.
    fn give_back(&mut self, home: usize) -> bool {
        let lent = self.borrowed.iter().position(|&lent| lent == home);
        if let Some(at) = lent {
            self.borrowed.remove(at);
            self.returned += 1;
        }
        lent.is_some()
    }

    pub(crate) fn activate_spare(&mut self, home: usize) -> usize {
        let spare = self.slots.iter().position(|slot| slot.state == State::Spare).unwrap();
        self.slots[spare].state = State::Free;
        self.slots[spare].home = home;
        spare
    }

    pub(crate) fn withdraw(&mut self, call: u32) -> bool {
        let at = self.waiting.iter().position(|waiter| waiter.call == call);
        if let Some(at) = at {
            let waiter = self.waiting.remove(at);
            self.count(waiter.offered.tenant).withdrawn += 1;
            self.forget();
        }
        at.is_some()
    }

    pub(crate) fn drain(&mut self) -> Observed {
        let mut seen = Observed::default();
        for waiter in std::mem::take(&mut self.waiting) {
            self.reject(&waiter, Rejection::Drained, &mut seen);
        }
        self.forget();
        seen
    }

    pub(crate) fn full(&self) -> BusyReason {
        let occupied = self.slots.iter().filter(|slot| slot.occupied());
        let stuck = |state| matches!(state, State::Overdue { .. });
        let all_stuck = occupied.clone().count() > 0 && occupied.clone().all(|s| stuck(s.state));
        if all_stuck && self.free_slots().next().is_none() {
            BusyReason::SlotsStuck
        } else {
            BusyReason::SlotsFull
        }
    }

    pub(crate) fn free_slots(&self) -> impl Iterator<Item = usize> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.state == State::Free).map(|(at, _)| at)
    }

    pub(crate) fn home_of(&self, tenant: Tenant) -> usize {
        if matches!(self.policy.dispatch, Dispatch::Fifo | Dispatch::RoundRobin) {
            return 0;
        }
        let homes = &self.policy.homes;
        let listed = homes.iter().position(|(name, _)| name.as_str() == name_of(tenant));
        listed.unwrap_or(homes.len())
    }

    pub(crate) fn weight(&self, tenant: Tenant) -> f64 {
        let weights = &self.policy.weights;
        if self.policy.dispatch != Dispatch::RoundRobin || weights.is_empty() {
            // Only the order of dispatches counts: everybody's pass stands still.
            return f64::INFINITY;
        }
        let mut weights = weights.iter();
        let listed = weights.find(|(name, _)| name.as_str() == name_of(tenant));
        listed.map_or(1.0, |&(_, weight)| f64::from(weight))
    }

    pub(crate) fn holding(&self, tenant: Tenant) -> usize {
        self.slots.iter().filter(|slot| slot.occupied() && slot.tenant == tenant).count()
    }

    pub(crate) fn waiting_of(&self, tenant: Tenant) -> usize {
        self.waiting.iter().filter(|waiter| waiter.offered.tenant == tenant).count()
    }

    pub(crate) fn at_cap(&self, tenant: Tenant) -> bool {
        let cap = self.policy.tenant_max;
        cap.is_some_and(|cap| self.holding(tenant) >= cap as usize)
    }

    pub(crate) fn replaced(&self) -> u32 {
        let replaced = |state| matches!(state, State::Overdue { replaced: true, .. });
        self.slots.iter().filter(|slot| replaced(slot.state)).count() as u32
    }

    /// When something happens if nothing else does.
    pub(crate) fn next_due(&self) -> Time {
        let waiters = self.waiting.iter().map(|w| w.offered.deadline.min(w.offered.wait_until));
        let slots = self.slots.iter().map(|slot| match slot.state {
            State::Running { due, .. } => due,
            State::Overdue { abort_at, .. } => abort_at.unwrap_or(Time::MAX),
            _ => Time::MAX,
        });
        waiters.chain(slots).min().unwrap_or(Time::MAX)
    }
}

impl Counts {
    pub(crate) fn and(&self, other: &Counts) -> Counts {
        Counts {
            offered: self.offered + other.offered,
            finished: self.finished + other.finished,
            overdue: self.overdue + other.overdue,
            rejected: self.rejected + other.rejected,
            withdrawn: self.withdrawn + other.withdrawn,
        }
    }
}

/// Tenants that scripts speak of have numbers up to this.
pub(crate) const TENANTS: Tenant = 5;

/// What a tenant is called; nobody has no name.
pub(crate) fn name_of(tenant: Tenant) -> &'static str {
    ["", "a", "b", "c", "d", "e"].get(tenant as usize).copied().unwrap_or("?")
}
