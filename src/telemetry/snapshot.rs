//! What a partition looks like at one instant.

use std::sync::Arc;
use std::time::Duration;

use super::histogram::Latency;
use crate::admission::{Gauges, TenantSnapshot};
use crate::outcome::{BusyReason, CallError, TimeoutClock};
use crate::resilience::breaker;

/// How many calls ended how; each attempt at a call that is retried counts. Together with those that
/// wait and run they are all that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is explained at `CallError` and `BusyReason`")]
pub struct Counts {
    pub ok: u64,
    pub failed: u64,
    pub panicked: u64,
    pub busy_slots_full: u64,
    pub busy_slots_stuck: u64,
    pub busy_queue_full: u64,
    pub busy_tenant_queue_full: u64,
    pub busy_displaced: u64,
    pub busy_reentrant: u64,
    pub circuit_open: u64,
    pub throttled: u64,
    pub timeout_run: u64,
    pub timeout_deadline: u64,
    pub cancelled: u64,
}

impl Counts {
    /// All `busy`, whatever the reason.
    pub fn busy(&self) -> u64 {
        self.busy_slots_full
            + self.busy_slots_stuck
            + self.busy_queue_full
            + self.busy_tenant_queue_full
            + self.busy_displaced
            + self.busy_reentrant
    }

    /// All time-outs, whatever the clock.
    pub fn timeout(&self) -> u64 {
        self.timeout_run + self.timeout_deadline
    }

    /// All calls that ended.
    pub fn total(&self) -> u64 {
        self.ok
            + self.failed
            + self.panicked
            + self.busy()
            + self.circuit_open
            + self.throttled
            + self.timeout()
            + self.cancelled
    }

    pub(crate) fn add(&mut self, error: &CallError) {
        let count = match error {
            CallError::Failed(_) => &mut self.failed,
            CallError::Panicked { .. } => &mut self.panicked,
            CallError::Busy { reason, .. } => self.busy_for(*reason),
            CallError::CircuitOpen { .. } => &mut self.circuit_open,
            CallError::Throttled { .. } => &mut self.throttled,
            CallError::Timeout { clock, .. } => self.timeout_of(*clock),
            CallError::Cancelled { .. } => &mut self.cancelled,
        };
        *count += 1;
    }

    fn timeout_of(&mut self, clock: TimeoutClock) -> &mut u64 {
        match clock {
            TimeoutClock::Run => &mut self.timeout_run,
            TimeoutClock::Deadline => &mut self.timeout_deadline,
        }
    }

    fn busy_for(&mut self, reason: BusyReason) -> &mut u64 {
        match reason {
            BusyReason::SlotsFull => &mut self.busy_slots_full,
            BusyReason::SlotsStuck => &mut self.busy_slots_stuck,
            BusyReason::QueueFull => &mut self.busy_queue_full,
            BusyReason::TenantQueueFull => &mut self.busy_tenant_queue_full,
            BusyReason::Displaced => &mut self.busy_displaced,
            BusyReason::Reentrant => &mut self.busy_reentrant,
        }
    }
}

/// One partition at one instant: everything in it is of the same moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Its name.
    pub partition: Arc<str>,
    /// How full it is.
    pub gauges: Gauges,
    /// Calls offered so far, and each retry.
    pub offered: u64,
    /// How they ended.
    pub counts: Counts,
    /// Attempts that were or will be made again, so far.
    pub retries: u64,
    /// Calls that sleep until they are attempted again.
    pub asleep: usize,
    /// What its breaker looks like, if it has one.
    pub breaker: Option<breaker::Snapshot>,
    /// The most calls that ever held a slot at once.
    pub max_in_flight: u32,
    /// How long calls waited before they started or were turned away.
    pub wait: Latency,
    /// How long runs took that ended by themselves.
    pub run: Latency,
    /// What holds the slots, lowest first. Permits have no tool.
    pub running: Vec<RunningCall>,
    /// Its ten busiest tenants, and all others together: for whoever runs the partition, never for
    /// another tenant.
    pub tenants: TenantSnapshot,
}

/// One call that holds a slot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningCall {
    /// The slot's number.
    pub slot: u32,
    /// The tool it named, if it named one.
    pub tool: Option<Arc<str>>,
    /// How long it has been running.
    pub age: Duration,
    /// Whether it has been answered for.
    pub overdue: bool,
}

/// All partitions, each at an instant of its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// In order of their names.
    pub partitions: Vec<PartitionSnapshot>,
    /// What the partitions share.
    pub reserve: ReserveSnapshot,
}

/// The reserve at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReserveSnapshot {
    /// All its slots.
    pub slots: u32,
    /// Those that nobody has.
    pub free: u32,
    /// Partitions in line for one.
    pub waiting: usize,
}

impl Snapshot {
    /// The partition called `name`.
    pub fn partition(&self, name: &str) -> Option<&PartitionSnapshot> {
        self.partitions.iter().find(|partition| &*partition.partition == name)
    }
}
