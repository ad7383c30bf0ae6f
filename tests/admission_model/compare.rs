//! What must be equal, and what must hold, between any two steps.

use watertight::admission::{Policy, Scheduler, TenantCounts, Totals};

use crate::model::{Counts, Model, State, Tenant};
use crate::model_ends::{TENANTS, name_of};

type Verdict = Result<(), String>;

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, theirs: T, ours: T) -> Verdict {
    if theirs == ours {
        return Ok(());
    }
    Err(format!(
        "{what}: the scheduler says {theirs:?}, the model {ours:?}"
    ))
}

fn holds(what: &str, holds: bool) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(format!("it does not hold that {what}"))
    }
}

/// Gauges and totals of both sides, and the identities between them.
pub(crate) fn states(scheduler: &Scheduler<u32>, model: &Model) -> Verdict {
    let count = |wanted: fn(State) -> bool| {
        model.slots.iter().filter(|slot| wanted(slot.state)).count() as u32
    };
    let gauges = scheduler.gauges();
    equal(
        "running",
        gauges.running,
        count(|state| matches!(state, State::Running { .. })),
    )?;
    equal(
        "overdue",
        gauges.overdue,
        count(|state| matches!(state, State::Overdue { .. })),
    )?;
    equal("free", gauges.free, count(|state| state == State::Free))?;
    equal("replaced", gauges.replaced, model.replaced())?;
    equal("borrowed", gauges.borrowed, model.borrowed.len() as u32)?;
    equal("waiting", gauges.waiting, model.waiting.len() as u32)?;
    equal(
        "tenants",
        gauges.tenants,
        model.counts.keys().filter(|&&tenant| tenant > 0).count(),
    )?;
    equal(
        "wants_reserve",
        scheduler.wants_reserve(),
        model.wants_reserve(),
    )?;
    equal("closed", scheduler.is_closed(), model.closed)?;
    let sum = model
        .counts
        .values()
        .fold(model.forgotten, |sum, counts| sum.and(counts));
    equal("totals", counts(&scheduler.totals()), sum)?;

    holds("the partition is whole", !scheduler.is_broken())?;
    let there = gauges.running + gauges.overdue + gauges.free;
    let by_policy = gauges.slots + gauges.borrowed + gauges.replaced;
    holds(
        "running + overdue + free = slots + borrowed + replaced",
        there == by_policy,
    )?;
    let ends = sum.finished + sum.overdue + sum.rejected + sum.withdrawn;
    let in_hand = u64::from(gauges.waiting + gauges.running);
    holds(
        "offered = outcomes + waiting + running",
        sum.offered == ends + in_hand,
    )?;
    holds(
        "next_due is never too late",
        scheduler.next_due() <= model.next_due(),
    )?;
    limits(&model.policy, model, gauges.waiting)
}

/// What no policy ever allows.
fn limits(policy: &Policy, model: &Model, waiting: u32) -> Verdict {
    let occupied = model.slots.iter().filter(|slot| slot.occupied()).count() as u32;
    let most = policy.slots + policy.reserve_max + policy.replace_overdue;
    holds(
        "never more than slots + reserve_max + replace_overdue in flight",
        occupied <= most,
    )?;
    holds("the queue is bounded", waiting <= policy.queue)?;
    for tenant in 0..=TENANTS {
        let held = |most| model.holding(tenant) as u32 <= most;
        holds("tenant_max", policy.tenant_max.is_none_or(held))?;
        let queued = |most| model.waiting_of(tenant) as u32 <= most;
        holds("tenant_queue", policy.tenant_queue.is_none_or(queued))?;
    }
    Ok(())
}

/// The busiest tenants of both sides, and all others together.
pub(crate) fn tenants(scheduler: &Scheduler<u32>, model: &Model, most: usize) -> Verdict {
    let seen = scheduler.tenants(most);
    let mut busiest: Vec<(Tenant, Counts)> = model.counts.iter().map(|(&t, &c)| (t, c)).collect();
    busiest.sort_by_key(|&(tenant, counts)| (std::cmp::Reverse(counts.offered), tenant));
    let rest = busiest.split_off(most.min(busiest.len()));

    let theirs = seen.busiest.iter().map(|(name, tenant)| {
        let name = name.as_ref().map_or("", |name| name.as_str());
        (name, seen_of(tenant))
    });
    let ours = busiest.iter().map(|&(tenant, counts)| {
        let (holding, waiting) = (model.holding(tenant), model.waiting_of(tenant));
        (name_of(tenant), (counts, holding as u32, waiting as u32))
    });
    equal(
        "busiest tenants",
        theirs.collect::<Vec<_>>(),
        ours.collect(),
    )?;
    let mut others = (model.forgotten, 0, 0);
    for (tenant, counts) in rest {
        others.0 = others.0.and(&counts);
        others.1 += model.holding(tenant) as u32;
        others.2 += model.waiting_of(tenant) as u32;
    }
    equal("the other tenants", seen_of(&seen.rest), others)
}

fn seen_of(tenant: &TenantCounts) -> (Counts, u32, u32) {
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
