//! What the partition's busiest tenants have done.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::counts::Totals;
use super::scheduler::Scheduler;
use crate::call::Tenant;

/// What one tenant, or several together, have done, and have in the partition now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantCounts {
    /// What has become of its offers.
    pub totals: Totals,
    /// Slots it holds, overdue calls included.
    pub holding: u32,
    /// Its calls that wait.
    pub waiting: u32,
}

/// The tenants of a partition, busiest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantSnapshot {
    /// The tenants that made most offers since they last came in; `None` is nobody's calls.
    pub busiest: Vec<(Option<Tenant>, TenantCounts)>,
    /// All others together, and what tenants had counted that have left since.
    pub rest: TenantCounts,
}

impl<T> Scheduler<T> {
    /// The `most` busiest tenants one by one, and all others summed up, so that nothing that was
    /// counted is missing. A tenant is counted by itself while it has a call in the partition.
    ///
    /// A pass over the tenants that have one: at most slots and queue together.
    pub fn tenants(&self, most: usize) -> TenantSnapshot {
        let mut rest = TenantCounts { totals: self.tenants.forgotten, ..TenantCounts::default() };
        let mut busiest = BTreeSet::new();
        for (tenant, at) in self.tenants.all.iter().zip(0_usize..) {
            let offered = tenant.totals.offered;
            if offered == 0 {
                continue;
            }
            busiest.insert((Reverse(offered), &tenant.name, at));
            if busiest.len() > most
                && let Some((.., least)) = busiest.pop_last()
            {
                rest.add(&self.tenants.all[least].counts());
            }
        }
        let counts = |(_, name, at): (_, &Option<Tenant>, usize)| {
            (name.clone(), self.tenants.all[at].counts())
        };
        TenantSnapshot { busiest: busiest.into_iter().map(counts).collect(), rest }
    }
}

impl TenantCounts {
    fn add(&mut self, other: &TenantCounts) {
        self.totals.add(&other.totals);
        self.holding += other.holding;
        self.waiting += other.waiting;
    }
}
