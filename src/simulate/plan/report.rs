//! What became of all calls.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use super::call::{Call, End};
use crate::call::Tenant;
use crate::outcome::{BusyReason, TimeoutClock};
use crate::telemetry::Latency;
use crate::time::Time;

/// What became of a plan's calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Calls that were made.
    pub calls: u64,
    /// Whether there would have been more than the plan allows.
    pub cut_short: bool,
    /// When the last call had ended, and the last slot was free.
    pub ended_ms: f64,
    /// The partitions, in the plan's order.
    pub partitions: Vec<PartitionReport>,
    /// The tools, in the plan's order: at most 100 by name, the rest as `(others)`.
    pub tools: Vec<GroupReport>,
    /// The tenants, likewise; calls on nobody's behalf are not among them.
    pub tenants: Vec<GroupReport>,
    /// The reserve.
    pub reserve: ReserveReport,
}

/// Calls by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// All, each once. The ends add up to it.
    pub offered: u64,
    /// Finished well.
    pub ok: u64,
    /// The backend said no.
    pub failed: u64,
    /// Got no slot.
    pub busy: BusyCounts,
    /// Ran into the run limit.
    pub timeout_run: u64,
    /// Ran or waited into their callers' deadline.
    pub timeout_deadline: u64,
    /// Came to an open breaker, or waited when it opened.
    pub circuit_open: u64,
    /// Further attempts at these calls; no part of the sum.
    pub retries: u64,
}

/// Calls that got no slot, by what was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BusyCounts {
    /// No slot came free within the wait.
    pub slots_full: u64,
    /// The same, and every slot was held by an overdue call.
    pub slots_stuck: u64,
    /// Nobody else could wait.
    pub queue_full: u64,
    /// Nobody else of the tenant could wait.
    pub tenant_queue_full: u64,
    /// The place in the queue went to a tenant with fewer waiters.
    pub displaced: u64,
}

/// What became of the calls of one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PartitionReport {
    /// Its name.
    pub name: String,
    /// Its calls.
    pub counts: Counts,
    /// How long those waited that started.
    pub waited_ms: Quantiles,
    /// The most calls in slots at once, overdue ones included.
    pub in_flight_max: u32,
    /// The most overdue calls at once.
    pub overdue_max: u32,
    /// The most slots of the reserve at once.
    pub borrowed_max: u32,
    /// How often its breaker opened.
    pub breaker_openings: u64,
    /// The part of its own slots' time until the end that calls held, 0 to 1; more with borrowed
    /// slots.
    pub utilisation: f64,
}

/// What became of the calls of one tool or tenant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// Its calls.
    pub counts: Counts,
    /// From the offer to the answer, of those that finished well.
    pub ok_ms: Quantiles,
    /// From the offer to the answer, of all.
    pub all_ms: Quantiles,
}

/// How the reserve was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReserveReport {
    /// Its slots.
    pub slots: u32,
    /// The most of them in use at once.
    pub used_max: u32,
}

/// How durations are spread, in milliseconds, to 1 %; all 0 if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// Half of all are at or below it.
    pub p50: f64,
    /// 95 in 100.
    pub p95: f64,
    /// 99 in 100.
    pub p99: f64,
    /// All.
    pub max: f64,
}

impl From<&Latency> for Quantiles {
    fn from(latency: &Latency) -> Quantiles {
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        Quantiles {
            p50: ms(latency.quantile(0.5)),
            p95: ms(latency.quantile(0.95)),
            p99: ms(latency.quantile(0.99)),
            max: ms(latency.max()),
        }
    }
}

impl Counts {
    /// Calls that got no slot.
    pub fn busy(&self) -> u64 {
        let BusyCounts { slots_full, slots_stuck, queue_full, tenant_queue_full, displaced } =
            self.busy;
        slots_full + slots_stuck + queue_full + tenant_queue_full + displaced
    }

    /// Calls that have ended.
    pub fn ended(&self) -> u64 {
        self.ok
            + self.failed
            + self.busy()
            + self.timeout_run
            + self.timeout_deadline
            + self.circuit_open
    }

    pub(super) fn end(&mut self, end: End) {
        let count = match end {
            End::Ok => &mut self.ok,
            End::Failed => &mut self.failed,
            End::Timeout(TimeoutClock::Run) => &mut self.timeout_run,
            End::Timeout(TimeoutClock::Deadline) => &mut self.timeout_deadline,
            End::CircuitOpen => &mut self.circuit_open,
            End::Busy(BusyReason::SlotsStuck) => &mut self.busy.slots_stuck,
            End::Busy(BusyReason::QueueFull) => &mut self.busy.queue_full,
            End::Busy(BusyReason::TenantQueueFull) => &mut self.busy.tenant_queue_full,
            End::Busy(BusyReason::Displaced) => &mut self.busy.displaced,
            End::Busy(_) => &mut self.busy.slots_full,
        };
        *count += 1;
    }
}

/// A partition's figures so far.
#[derive(Debug, Default)]
pub(super) struct PartitionTally {
    pub(super) counts: Counts,
    pub(super) waited: Latency,
    pub(super) in_flight_max: u32,
    pub(super) overdue_max: u32,
    pub(super) borrowed_max: u32,
    pub(super) breaker_openings: u64,
    /// Time for which slots were held, in ns.
    pub(super) held: u128,
}

impl PartitionTally {
    pub(super) fn report(&self, name: &str, slots: u32, end: Time) -> PartitionReport {
        let span = u128::from(end.as_nanos()) * u128::from(slots);
        PartitionReport {
            name: name.to_owned(),
            counts: self.counts,
            waited_ms: (&self.waited).into(),
            in_flight_max: self.in_flight_max,
            overdue_max: self.overdue_max,
            borrowed_max: self.borrowed_max,
            breaker_openings: self.breaker_openings,
            utilisation: self.held as f64 / span.max(1) as f64,
        }
    }
}

/// A tool's or a tenant's figures so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    ok: Latency,
    all: Latency,
}

impl Tally {
    pub(super) fn end(&mut self, end: End, took: Duration) {
        self.counts.end(end);
        self.all.record(took);
        if end == End::Ok {
            self.ok.record(took);
        }
    }

    fn report(&self, name: &str) -> GroupReport {
        GroupReport {
            name: name.to_owned(),
            counts: self.counts,
            ok_ms: (&self.ok).into(),
            all_ms: (&self.all).into(),
        }
    }
}

/// Groups that are told apart.
const GROUPS_MAX: usize = 100;

/// Figures by name.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    places: HashMap<String, u32>,
    named: Vec<(String, Tally)>,
    others: Tally,
}

impl Tallies {
    /// Where the figures of `name` are.
    fn place(&mut self, name: &str) -> u32 {
        if let Some(&at) = self.places.get(name) {
            return at;
        }
        let at = self.named.len();
        if at < GROUPS_MAX {
            self.named.push((name.to_owned(), Tally::default()));
            self.places.insert(name.to_owned(), at as u32);
        }
        at as u32
    }

    fn at(&mut self, place: u32) -> &mut Tally {
        match self.named.get_mut(place as usize) {
            Some((_, tally)) => tally,
            None => &mut self.others,
        }
    }

    fn report(&self) -> Vec<GroupReport> {
        let named = self.named.iter().map(|(name, tally)| tally.report(name));
        let others = (self.others.counts.offered > 0).then(|| self.others.report("(others)"));
        named.chain(others).collect()
    }
}

/// A tenant, and where its figures are.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) tenant: Tenant,
    place: u32,
}

/// The figures of tools and tenants.
#[derive(Debug, Default)]
pub(super) struct Tables {
    tools: Tallies,
    tenants: Tallies,
}

impl Tables {
    /// Where the figures of a tool are.
    pub(super) fn tool(&mut self, name: &str) -> u32 {
        self.tools.place(name)
    }

    pub(super) fn tenant(&mut self, name: &str) -> Known {
        Known { tenant: Tenant::new(name), place: self.tenants.place(name) }
    }

    /// Counts something of a call with its tool and its tenant.
    #[inline]
    pub(super) fn count(&mut self, call: &Call, count: impl Fn(&mut Tally)) {
        count(self.tools.at(call.tool));
        if let Some(known) = &call.tenant {
            count(self.tenants.at(known.place));
        }
    }

    pub(super) fn reports(&self) -> (Vec<GroupReport>, Vec<GroupReport>) {
        (self.tools.report(), self.tenants.report())
    }
}
