//! What becomes of an offer: a slot at once, a place to wait, or a reason why not.

use std::time::Duration;

use super::decision::{Decision, Effects, Offer, Rejected, Rejection, Started};
use super::policy::Dispatch;
use super::scheduler::Scheduler;
use super::slots::SlotId;
use super::waiting::{Waiter, WaiterId, has_come};
use crate::call::Tenant;
use crate::outcome::BusyReason;
use crate::time::Time;

impl<T> Scheduler<T> {
    /// A call asks for a slot. Waiters that are due leave first, so that they never count as full.
    pub fn offer(&mut self, now: Time, offer: Offer<T>, effects: &mut Effects<T>) -> Decision<T> {
        self.offer_or_borrow(now, offer, effects, || false)
    }

    /// As [`Scheduler::offer`]; but a call that would otherwise have to wait, and may use the
    /// reserve, asks `reserve` for a slot, which answers whether it gives one: then the call
    /// starts. Calls that cannot wait come to a reserve slot in this way only.
    pub fn offer_or_borrow(
        &mut self,
        now: Time,
        offer: Offer<T>,
        effects: &mut Effects<T>,
        reserve: impl FnOnce() -> bool,
    ) -> Decision<T> {
        self.assert_invariants();
        self.expire(now, effects);
        let decision = self.decide(now, offer, effects, reserve);
        self.assert_invariants();
        decision
    }

    /// Starts a call in a free slot if nobody waits, nothing is due and its tenant may have one:
    /// what [`Scheduler::offer`] would do, with nothing to hand over. It is overdue at `run_until`.
    /// `None`: nothing has happened.
    #[inline]
    pub fn start_now(
        &mut self,
        now: Time,
        tenant: Option<&Tenant>,
        deadline: Time,
        run_until: Time,
    ) -> Option<SlotId> {
        if self.room.len() > 0 || self.closed || has_come(deadline, now) {
            return None;
        }
        self.assert_invariants();
        let tenant = self.tenants.enter(tenant);
        let home = self.tenants.get(tenant).home;
        let Some(slot) = self.eligible(home, self.tenants.below_cap(tenant)) else {
            self.tenants.leave(tenant);
            return None;
        };
        self.count(tenant, |totals| &mut totals.offered);
        self.start(now, slot, tenant, deadline, run_until);
        self.assert_invariants();
        Some(slot)
    }

    #[inline]
    fn decide(
        &mut self,
        now: Time,
        offer: Offer<T>,
        effects: &mut Effects<T>,
        reserve: impl FnOnce() -> bool,
    ) -> Decision<T> {
        let tenant = self.tenants.enter(offer.tenant.as_ref());
        self.count(tenant, |totals| &mut totals.offered);
        if self.closed {
            return self.refuse(now, tenant, offer, Rejection::Closed);
        }
        if has_come(offer.deadline, now) {
            return self.refuse(now, tenant, offer, Rejection::Deadline);
        }
        let home = self.tenants.get(tenant).home;
        let below_cap = self.tenants.below_cap(tenant);
        let slot = self.eligible(home, below_cap).or_else(|| {
            let borrows = self.may_borrow(tenant) && reserve();
            borrows.then(|| self.borrow_for(tenant)).flatten()
        });
        if let Some(slot) = slot {
            self.start(now, slot, tenant, offer.deadline, now + offer.run_for);
            self.settle(tenant);
            let borrowed = self.is_borrowed(slot, tenant);
            return Decision::Start(Started {
                slot,
                payload: offer.payload,
                waited: Duration::ZERO,
                borrowed,
            });
        }
        match self.no_room(now, tenant, &offer, effects) {
            Some(reason) => self.refuse(now, tenant, offer, Rejection::Busy(reason)),
            None => Decision::Wait(self.wait(now, tenant, offer)),
        }
    }

    fn refuse(
        &mut self,
        now: Time,
        tenant: u32,
        offer: Offer<T>,
        rejection: Rejection,
    ) -> Decision<T> {
        let Offer { payload, attempt, .. } = offer;
        let comes_back =
            matches!(rejection, Rejection::Busy(reason) if reason != BusyReason::Reentrant);
        let retry_after = comes_back.then(|| self.hint(now, tenant, attempt));
        self.count(tenant, |totals| &mut totals.rejected);
        self.tenants.leave(tenant);
        Decision::Reject(Rejected { rejection, payload, waited: Duration::ZERO, retry_after })
    }

    /// Whether an offer of `tenant` would have to wait or be turned away as busy.
    pub fn is_full_for(&self, tenant: Option<&Tenant>) -> bool {
        let (home, below_cap) = self.tenants.look_up(tenant);
        !self.closed && self.eligible(home, below_cap).is_none()
    }

    /// The slot an offer may go straight into: never past a waiter that could have it.
    #[inline]
    fn eligible(&self, home: u32, below_cap: bool) -> Option<SlotId> {
        if self.slots.free_count == 0 || !below_cap {
            return None;
        }
        let waited_for = self.room.len() > 0;
        if waited_for && self.tenants.next_in(home).is_some() {
            return None;
        }
        let own = self.slots.free_in(home);
        if own.is_some() || self.policy.dispatch != Dispatch::Borrow {
            return own;
        }
        match self.tenants.next_anywhere() {
            Some(_) => None,
            None => self.slots.free_anywhere(),
        }
    }

    /// Why the offer may not wait, if so. A full queue makes room for a tenant that will still
    /// have fewer waiting than the one with most, whose newest waiter loses its place: were a
    /// tie enough, two tenants could take one place from each other for ever.
    fn no_room(
        &mut self,
        now: Time,
        tenant: u32,
        offer: &Offer<T>,
        effects: &mut Effects<T>,
    ) -> Option<BusyReason> {
        if offer.reentrant {
            return Some(BusyReason::Reentrant);
        }
        if offer.wait_until <= now || self.policy.queue == 0 {
            return Some(self.full());
        }
        let waiting = self.tenants.get(tenant).line.len;
        if self.policy.tenant_queue.is_some_and(|most| waiting >= most) {
            return Some(BusyReason::TenantQueueFull);
        }
        if self.room.len() < self.policy.queue {
            return None;
        }
        match self.tenants.longest_line() {
            Some((longest, most)) if most > waiting + 1 => self.displace(now, longest, effects),
            _ => Some(BusyReason::QueueFull),
        }
    }

    /// Takes the place of the newest waiter of `tenant`; why not, if it cannot.
    fn displace(&mut self, now: Time, tenant: u32, effects: &mut Effects<T>) -> Option<BusyReason> {
        let newest = self.tenants.get(tenant).line.tail;
        let Some(waiter) = newest.and_then(|newest| self.take_waiter(newest)) else {
            self.fail();
            return Some(BusyReason::QueueFull);
        };
        let hint = self.hint(now, tenant, waiter.attempt);
        let displaced = Rejection::Busy(BusyReason::Displaced);
        self.turn_away(now, waiter, displaced, Some(hint), effects);
        None
    }

    fn wait(&mut self, now: Time, tenant: u32, offer: Offer<T>) -> WaiterId {
        let waiter = Waiter::new(tenant, self.totals.offered, now, offer);
        let room = &mut self.room;
        let id = self.tenants.line(tenant, |line| room.join(waiter, line));
        self.settle(tenant);
        id
    }
}
