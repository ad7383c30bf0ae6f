//! What must be equal, and what must hold, between any two steps.

use std::cmp::Reverse;
use std::fmt::Debug;

use watertight::admission::{Policy, Scheduler, TenantCounts, Totals};

use crate::model::{Counts, Model, State};
use crate::model_ends::{TENANTS, name_of};

pub(crate) type Verdict = Result<(), String>;

/// Whether the two sides agree.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, theirs: &T, ours: &T) -> Verdict {
    if theirs == ours {
        return Ok(());
    }
    Err(format!("{what}: the scheduler says {theirs:#?}, the model {ours:#?}"))
}

fn holds(what: &str, holds: bool) -> Verdict {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}")) }
}

/// Gauges and totals of both sides, and the identities between them.
pub(crate) fn states(scheduler: &Scheduler<u32>, model: &Model) -> Verdict {
    let gauges = scheduler.gauges();
    let count = |wanted: fn(State) -> bool| {
        let slots = model.slots.iter();
        slots.filter(|slot| wanted(slot.state)).count()
    };
    let theirs = [
        ("running", gauges.running as usize),
        ("overdue", gauges.overdue as usize),
        ("free", gauges.free as usize),
        ("replaced", gauges.replaced as usize),
        ("borrowed", gauges.borrowed as usize),
        ("waiting", gauges.waiting as usize),
        ("tenants", gauges.tenants),
    ];
    let ours = [
        ("running", count(|state| matches!(state, State::Running { .. }))),
        ("overdue", count(|state| matches!(state, State::Overdue { .. }))),
        ("free", count(|state| state == State::Free)),
        ("replaced", model.replaced() as usize),
        ("borrowed", model.borrowed.len()),
        ("waiting", model.waiting.len()),
        ("tenants", model.counts.keys().filter(|&&tenant| tenant > 0).count()),
    ];
    same("gauges", &theirs, &ours)?;
    same("closed", &scheduler.is_closed(), &model.closed)?;
    same("wants_reserve", &scheduler.wants_reserve(), &model.wants_reserve())?;
    let known = model.counts.values();
    let sum = known.fold(model.forgotten, |sum, counts| sum.and(counts));
    same("totals", &counts(&scheduler.totals()), &sum)?;

    holds("the partition is whole", !scheduler.is_broken())?;
    let there = gauges.running + gauges.overdue + gauges.free;
    let by_policy = gauges.slots + gauges.borrowed + gauges.replaced;
    holds("running + overdue + free = slots + borrowed + replaced", there == by_policy)?;
    let ends = sum.finished + sum.overdue + sum.rejected + sum.withdrawn;
    let in_hand = u64::from(gauges.waiting + gauges.running);
    holds("offered = outcomes + waiting + running", sum.offered == ends + in_hand)?;
    holds("next_due is never too late", scheduler.next_due() <= model.next_due())?;
    limits(&model.policy, model, gauges.waiting)
}

/// What no policy ever allows.
fn limits(policy: &Policy, model: &Model, waiting: u32) -> Verdict {
    let occupied = model.slots.iter().filter(|slot| slot.occupied()).count() as u32;
    let most = policy.slots + policy.reserve_max + policy.replace_overdue;
    holds("never more than slots and spares in flight", occupied <= most)?;
    holds("the queue is bounded", waiting <= policy.queue)?;
    for tenant in 0..=TENANTS {
        let held = |most| model.holding(tenant) as u32 <= most;
        holds("tenant_max", policy.tenant_max.is_none_or(held))?;
        let queued = |most| model.waiting_of(tenant) as u32 <= most;
        holds("tenant_queue", policy.tenant_queue.is_none_or(queued))?;
    }
    Ok(())
}

/// What one tenant counted, holds and has waiting.
type Share = (Counts, u32, u32);

/// The busiest tenants of both sides, and all others together.
pub(crate) fn tenants(scheduler: &Scheduler<u32>, model: &Model, most: usize) -> Verdict {
    let seen = scheduler.tenants(most);
    let theirs = seen.busiest.iter().map(|(name, tenant)| {
        let name = name.as_ref().map_or("", |name| name.as_str());
        (name, share(tenant))
    });

    let mut busiest: Vec<(&str, Share)> = Vec::new();
    for (&tenant, &counts) in &model.counts {
        let (holding, waiting) = (model.holding(tenant), model.waiting_of(tenant));
        busiest.push((name_of(tenant), (counts, holding as u32, waiting as u32)));
    }
    busiest.sort_by_key(|&(name, (counts, ..))| (Reverse(counts.offered), name));
    let rest = busiest.split_off(most.min(busiest.len()));
    same("busiest tenants", &theirs.collect(), &busiest)?;

    let mut others = (model.forgotten, 0, 0);
    for (_, (counts, holding, waiting)) in rest {
        others.0 = others.0.and(&counts);
        others.1 += holding;
        others.2 += waiting;
    }
    same("the other tenants", &share(&seen.rest), &others)
}

fn share(tenant: &TenantCounts) -> Share {
    (counts(&tenant.totals), tenant.holding, tenant.waiting)
}

fn counts(totals: &Totals) -> Counts {
    Counts {
        offered: totals.offered,
        finished: totals.finished,
        overdue: totals.overdue,
        rejected: totals.rejected,
        withdrawn: totals.withdrawn,
    }
}
