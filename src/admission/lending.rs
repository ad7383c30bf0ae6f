//! Slots of the reserve: when the partition wants one, and where it goes.

use super::decision::Effects;
use super::scheduler::Scheduler;
use super::slots::SlotId;
use crate::time::Time;

impl<T> Scheduler<T> {
    /// Whether a waiter could start if the partition had one more slot, and it may have one of the
    /// reserve's. To be asked after [`Scheduler::dispatch`].
    #[inline]
    pub fn wants_reserve(&self) -> bool {
        self.reserve_for().is_some()
    }

    /// Brings a slot of the reserve and starts a waiter in it. If none wants it any more, it goes
    /// straight back, as [`Effects::returned`] says. Includes a [`Scheduler::dispatch`].
    ///
    /// From then on the first slot with the same home that comes free is given back, be it this
    /// one or another.
    pub fn grant_reserve(&mut self, now: Time, effects: &mut Effects<T>) {
        self.dispatch(now, effects);
        match self.reserve_for() {
            Some(tenant) => {
                if let Some(slot) = self.borrow_for(tenant) {
                    self.start_head(now, slot, tenant, effects);
                }
            }
            None => effects.returned += 1,
        }
        self.assert_invariants();
    }

    /// The tenant that a slot of the reserve would go to.
    fn reserve_for(&self) -> Option<u32> {
        let most = self.slots.borrowed == self.policy.reserve_max;
        if most || self.broken || self.next_start().is_some() {
            return None;
        }
        self.tenants.next_anywhere()
    }

    /// Whether an offer of `tenant` may go straight into a slot of the reserve, where it has none
    /// of its own: never past a waiter that could have it.
    pub(super) fn may_borrow(&self, tenant: u32) -> bool {
        self.slots.borrowed < self.policy.reserve_max
            && self.tenants.below_cap(tenant)
            && self.tenants.next_anywhere().is_none()
    }

    /// A slot of the reserve, which has given one, where `tenant` is at home.
    pub(super) fn borrow_for(&mut self, tenant: u32) -> Option<SlotId> {
        let home = self.tenants.get(tenant).home;
        let slot = self.slots.borrow(home);
        if slot.is_none() {
            self.slots.returned += 1;
            self.fail();
        }
        slot
    }
}
