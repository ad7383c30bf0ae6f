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

/// How full the partition is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Slots by the policy, spares not counted.
    pub slots: u32,
    /// Calls that run and are waited for.
    pub running: u32,
    /// Calls that run although they have been answered for.
    pub overdue: u32,
    /// Slots that a call could start in.
    pub free: u32,
    /// Overdue calls that a spare slot makes up for.
    pub replaced: u32,
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
            waiting: self.room.len(),
            tenants: self.tenants.remembered(),
        }
    }

    /// What has become of all offers so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether an assertion failed: the partition has closed itself for good.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Checks the two identities that hold between any two steps. If one does not, the partition
    /// closes itself for good: its callers are refused, nobody else is touched.
    pub(super) fn assert_invariants(&mut self) {
        let Slots {
            running,
            overdue,
            free_count,
            replaced,
            ..
        } = self.slots;
        let slots_add_up = running + overdue + free_count == self.policy.slots + replaced;
        let t = &self.totals;
        let accounted = t.finished + t.overdue + t.rejected + t.withdrawn;
        let in_hand = u64::from(self.room.len()) + u64::from(running);
        if !slots_add_up || t.offered != accounted + in_hand {
            self.broken = true;
            self.closed = true;
        }
    }
}
