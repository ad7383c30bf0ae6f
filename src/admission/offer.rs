//! What becomes of an offer: a slot at once, a place to wait, or a reason why not.

use std::time::Duration;

use super::decision::{Decision, Effects, Offer, Rejected, Rejection, Started};
use super::policy::Dispatch;
use super::scheduler::Scheduler;
use super::slots::SlotId;
use super::waiting::{Waiter, WaiterId};
use crate::call::Tenant;
use crate::outcome::BusyReason;
use crate::time::Time;

impl<T> Scheduler<T> {
    pub(super) fn decide(
        &mut self,
        now: Time,
        offer: Offer<T>,
        effects: &mut Effects<T>,
    ) -> Decision<T> {
        if self.closed {
            return self.refuse(offer.payload, Rejection::Closed, None);
        }
        if offer.deadline <= now {
            return self.refuse(offer.payload, Rejection::Deadline, None);
        }
        let tenant = self.tenants.enter(offer.tenant.as_ref());
        let (home, below_cap) = (
            self.tenants.get(tenant).home,
            self.tenants.below_cap(tenant),
        );
        if let Some(slot) = self.eligible(home, below_cap) {
            let borrowed = self.start(now, slot, tenant, offer.deadline, offer.run_for);
            let waited = Duration::ZERO;
            return Decision::Start(Started {
                slot,
                payload: offer.payload,
                waited,
                borrowed,
            });
        }
        if let Some(reason) = self.no_room(now, tenant, &offer, effects) {
            let ahead = self.room.len();
            let hint = (reason != BusyReason::Reentrant).then(|| self.hint(now, ahead));
            self.tenants.leave(tenant);
            return self.refuse(offer.payload, Rejection::Busy(reason), hint);
        }
        Decision::Wait(self.wait(now, tenant, offer))
    }

    fn refuse(
        &mut self,
        payload: T,
        rejection: Rejection,
        retry_after: Option<Duration>,
    ) -> Decision<T> {
        self.totals.rejected += 1;
        let waited = Duration::ZERO;
        Decision::Reject(Rejected {
            rejection,
            payload,
            waited,
            retry_after,
        })
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
        if self.tenants.next_in(home).is_some() {
            return None;
        }
        let own = self.slots.free_in(home);
        if own.is_some() || self.policy.dispatch != Dispatch::Borrow {
            return own;
        }
        match self.tenants.next_anywhere() {
            Some(_) => None,
            None => self.slots.free_where(|_| true),
        }
    }

    /// Why the offer may not wait, if so. A full queue makes room for a tenant with fewer waiting
    /// than the one with most, whose newest waiter loses its place.
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
        let (longest, most) = self.tenants.longest_line()?;
        if most <= waiting + 1 {
            return Some(BusyReason::QueueFull);
        }
        let newest = self.tenants.get(longest).line.tail?;
        let waiter = self.take_waiter(newest);
        self.turn_away(now, waiter, Rejection::Busy(BusyReason::Displaced), effects);
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
