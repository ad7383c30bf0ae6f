//! What has become of all offers, how full the partition is, and that the two agree.

use super::scheduler::Scheduler;
use super::slots::Slots;

/// What has become of all offers so far. Each offer is in one of these, waits, or runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Offers made.
    pub offered: u64,
    /// Runs that ended before anybody answered for them.
    pub finished: u64,
    /// Runs that were answered for before they ended: limits, deadlines, cancels.
    pub overdue: u64,
    /// Offers and waiters turned away, for whatever reason.
    pub rejected: u64,
    /// Waiters that were taken back.
    pub withdrawn: u64,
}

impl Totals {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Totals) {
        self.offered += other.offered;
        self.finished += other.finished;
        self.overdue += other.overdue;
        self.rejected += other.rejected;
        self.withdrawn += other.withdrawn;
    }
}

/// How full the partition is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Slots by the policy: the guaranteed ones. `slots - free` of them are in use.
    pub slots: u32,
    /// Calls that run and are waited for.
    pub running: u32,
    /// Calls that run although they have been answered for.
    pub overdue: u32,
    /// Slots that a call could start in.
    pub free: u32,
    /// Overdue calls that a spare slot makes up for.
    pub replaced: u32,
    /// Slots held that are the reserve's.
    pub borrowed: u32,
    /// Calls that wait.
    pub waiting: u32,
    /// Tenants that are remembered.
    pub tenants: usize,
}

impl<T> Scheduler<T> {
    /// How full the partition is.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            slots: self.policy.slots,
            running: self.slots.running,
            overdue: self.slots.overdue,
            free: self.slots.free_count,
            replaced: self.slots.replaced,
            borrowed: self.slots.borrowed,
            waiting: self.room.len(),
            tenants: self.tenants.remembered(),
        }
    }

    /// How many slots are held, overdue ones included.
    #[inline]
    pub fn occupied(&self) -> u32 {
        self.slots.running + self.slots.overdue
    }

    /// What has become of all offers so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether an assertion failed: the partition has closed itself for good.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Counts something that became of an offer of `tenant`.
    #[inline]
    pub(super) fn count(&mut self, tenant: u32, what: impl Fn(&mut Totals) -> &mut u64) {
        *what(&mut self.totals) += 1;
        *what(&mut self.tenants.all[tenant as usize].totals) += 1;
    }

    /// Checks the two identities that hold between any two steps. If one does not, the partition
    /// closes itself for good: its callers are refused, nobody else is touched.
    #[inline]
    pub(super) fn assert_invariants(&mut self) {
        let Slots { running, overdue, free_count, replaced, borrowed, .. } = self.slots;
        let there = running + overdue + free_count;
        let t = &self.totals;
        let accounted = t.finished + t.overdue + t.rejected + t.withdrawn;
        let in_hand = u64::from(self.room.len()) + u64::from(running);
        if there != self.policy.slots + borrowed + replaced || t.offered != accounted + in_hand {
            self.fail();
        }
    }

    /// Makes the next check fail.
    #[cfg(test)]
    pub(crate) fn miscount(&mut self) {
        self.totals.offered += 1;
    }

    /// Closes the partition for good because something is so that cannot be.
    #[cold]
    pub(super) fn fail(&mut self) {
        self.broken = true;
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decision, Effects, Offer, Policy, Rejection};
    use super::*;
    use crate::time::Time;

    /// One slot, one call that runs, two that wait.
    fn crowded() -> Scheduler<u32> {
        let mut scheduler = Scheduler::new(Policy::new(1)).expect("one slot is allowed");
        for call in 0..3 {
            let mut effects = Effects::default();
            let _ = scheduler.offer(Time::ZERO, Offer::new(call), &mut effects);
        }
        scheduler
    }

    /// Damages a partition and sees it close, turn its waiters away and refuse newcomers.
    fn closes_after(damage: impl FnOnce(&mut Scheduler<u32>)) {
        let mut scheduler = crowded();
        damage(&mut scheduler);
        let mut effects = Effects::default();
        scheduler.dispatch(Time::ZERO, &mut effects);
        assert!(scheduler.is_broken() && scheduler.is_closed());
        assert!(effects.started.is_empty());
        assert_eq!(scheduler.gauges().waiting, 0);
        let mut rejections = effects.rejected.iter().map(|rejected| rejected.rejection);
        assert!(rejections.all(|rejection| rejection == Rejection::Closed));
        let answer = scheduler.offer(Time::ZERO, Offer::new(9), &mut effects);
        assert!(
            matches!(answer, Decision::Reject(rejected) if rejected.rejection == Rejection::Closed)
        );
        for slot in 0..2 {
            scheduler.finish(Time::ZERO, crate::admission::SlotId(slot));
        }
    }

    #[test]
    fn a_gauge_that_is_wrong_closes_the_partition() {
        closes_after(|scheduler| scheduler.slots.running = 0);
        closes_after(|scheduler| scheduler.slots.overdue += 1);
        closes_after(|scheduler| scheduler.slots.free_count += 1);
        closes_after(|scheduler| scheduler.slots.borrowed += 1);
        closes_after(|scheduler| scheduler.slots.replaced += 1);
        closes_after(|scheduler| {
            scheduler.finish(Time::ZERO, crate::admission::SlotId(0));
            scheduler.slots.overdue += 1;
        });
    }

    #[test]
    fn a_total_that_is_wrong_closes_the_partition() {
        closes_after(|scheduler| scheduler.totals.offered += 1);
        closes_after(|scheduler| scheduler.totals.finished += 1);
    }

    #[test]
    fn a_waiter_that_is_nowhere_closes_the_partition() {
        closes_after(|scheduler| {
            let tenant = scheduler.tenants.next_in(0).expect("somebody waits");
            let head = scheduler.tenants.get(tenant).line.head;
            let head = head.expect("the first of them");
            scheduler.room.leave(head, &mut Default::default());
        });
    }
}
