//! What can be seen of a partition from outside.

use std::sync::Arc;
use std::time::Duration;

use super::partition::Partition;
use crate::admission::{SlotId, TenantSnapshot};
use crate::call::Tenant;
use crate::telemetry::{PartitionSnapshot, RunningCall};

/// How many tenants a snapshot shows one by one.
const TENANTS_SHOWN: usize = 10;

impl Partition {
    /// Whether a call of `tenant`, offered now, would have to wait or be turned away as busy. If all
    /// offers come from this thread, a no holds until the next one. Holds the partition's lock for
    /// some nanoseconds.
    pub fn is_full_for(&self, tenant: Option<&Tenant>) -> bool {
        self.shared.gate.look(|state| state.scheduler.is_full_for(tenant))
    }

    /// What its `most` busiest tenants have done, and all others together. Holds the partition's
    /// lock for a pass over the tenants that have calls in it.
    pub fn tenants(&self, most: usize) -> TenantSnapshot {
        self.shared.gate.look(|state| state.scheduler.tenants(most))
    }

    /// How full it is and what it has done, all at one instant. Holds the partition's lock for
    /// some microseconds.
    pub fn snapshot(&self) -> PartitionSnapshot {
        self.shared.gate.look(|state| {
            let slots = 0..state.running.len() as u32;
            let running = slots.filter_map(|slot| {
                let (age, overdue) = state.scheduler.occupant(SlotId(slot), state.now)?;
                let held = state.running[slot as usize].as_ref();
                let tool = held.and_then(|held| held.call.about().tool.clone());
                Some(RunningCall { slot, tool, age, overdue })
            });
            let running = running.collect();
            let mut wait = state.wait.clone();
            wait.record_many(Duration::ZERO, state.unwaited);
            let (asleep, retries) = state.retries.as_ref().map_or((0, 0), |r| r.figures());
            PartitionSnapshot {
                partition: Arc::clone(&self.shared.name),
                gauges: state.scheduler.gauges(),
                offered: state.scheduler.totals().offered + state.refused,
                counts: state.counts,
                retries,
                asleep,
                breaker: state.door.as_mut().and_then(|door| door.breaker(state.now)),
                max_in_flight: state.max_in_flight,
                wait,
                run: state.run.clone(),
                running,
                tenants: state.scheduler.tenants(TENANTS_SHOWN),
            }
        })
    }
}
