//! Tenants: what is remembered of them, what is counted, and what it costs.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use watertight::admission::{Decision, Dispatch, Effects, Offer, Policy, Scheduler, SlotId};
use watertight::call::Tenant;
use watertight::time::Time;

use crate::faults::{at, started, waiting};

const DISPATCH: [Dispatch; 4] =
    [Dispatch::Fifo, Dispatch::RoundRobin, Dispatch::Strict, Dispatch::Borrow];

fn offer(payload: u32, tenant: &str) -> Offer<u32> {
    Offer { tenant: Some(tenant.into()), ..Offer::new(payload) }
}

#[test]
fn a_tenant_that_starts_from_the_queue_is_not_forgotten() {
    let mut effects = Effects::default();
    let policy = Policy { tenant_max: Some(1), ..Policy::new(2) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let a = started(scheduler.offer(at(0), offer(0, "a"), &mut effects));
    let b = started(scheduler.offer(at(0), offer(1, "b"), &mut effects));
    waiting(scheduler.offer(at(0), offer(2, "c"), &mut effects));
    scheduler.finish(at(0), a.slot);
    scheduler.dispatch(at(0), &mut effects);
    let c = effects.started.pop().expect("a slot was free");

    // c still counts as holding its slot: with another free, its next call waits, others start.
    scheduler.finish(at(0), b.slot);
    waiting(scheduler.offer(at(0), offer(3, "c"), &mut effects));
    started(scheduler.offer(at(0), offer(4, "d"), &mut effects));
    scheduler.finish(at(0), c.slot);
    scheduler.dispatch(at(0), &mut effects);
    assert_eq!(effects.started[0].payload, 3);
    assert!(!scheduler.is_broken());
}

#[test]
fn nobody_is_forgotten_like_any_tenant_and_does_not_come_back_first() {
    let policy = Policy { dispatch: Dispatch::RoundRobin, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut effects = Effects::default();
    let nobody = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    scheduler.finish(at(0), nobody.slot);
    let a = started(scheduler.offer(at(0), offer(1, "a"), &mut effects));
    waiting(scheduler.offer(at(0), offer(2, "b"), &mut effects));
    waiting(scheduler.offer(at(0), Offer::new(3), &mut effects));
    scheduler.finish(at(0), a.slot);
    scheduler.dispatch(at(0), &mut effects);
    assert_eq!(effects.started[0].payload, 2, "both are without memory, and b came first");
}

#[test]
fn a_hundred_thousand_keys_leave_no_memory_behind() {
    for dispatch in [Dispatch::RoundRobin, Dispatch::Borrow] {
        let policy =
            Policy { dispatch, queue: 100_000, homes: vec![("gold".into(), 2)], ..Policy::new(4) };
        let mut scheduler = Scheduler::new(policy).unwrap();
        let mut effects = Effects::default();
        let one_by_one = measure(|| {
            for key in 0..100_000 {
                let offer = offer(key, &format!("session-{key}"));
                let call = started(scheduler.offer(at(key), offer, &mut effects));
                scheduler.finish(at(key), call.slot);
                scheduler.dispatch(at(key), &mut effects);
            }
        });
        assert!(one_by_one.bytes_current < 10_000, "{dispatch:?}: {one_by_one:?}");

        let all_at_once = measure(|| {
            let mut effects = Effects::default();
            for key in 0..100_000 {
                let _ = scheduler.offer(at(0), offer(key, &format!("crowd-{key}")), &mut effects);
            }
            assert!(scheduler.gauges().tenants > 90_000);
            scheduler.drain(at(0), &mut effects);
            for slot in 0..4 {
                scheduler.finish(at(1), SlotId(slot));
            }
        });
        assert!(all_at_once.bytes_max > 10_000_000, "{all_at_once:?}");
        assert!(all_at_once.bytes_current < 200_000, "{dispatch:?}: {all_at_once:?}");
        assert!(scheduler.gauges().tenants <= 1 && !scheduler.is_broken());

        // What is left works on.
        let call = started(scheduler.offer(at(1), offer(0, "gold"), &mut effects));
        assert!(scheduler.finish(at(1), call.slot).is_some());
    }
}

#[test]
fn a_call_that_starts_at_once_allocates_nothing() {
    let mut scheduler = Scheduler::new(Policy::new(4)).unwrap();
    let mut effects = Effects::default();
    let allocations = measure(|| {
        for step in 0..1000 {
            let call = started(scheduler.offer(at(step), Offer::new(step), &mut effects));
            scheduler.dispatch(at(step), &mut effects);
            scheduler.finish(at(step), call.slot);
            scheduler.dispatch(at(step), &mut effects);
        }
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn the_busiest_are_counted_one_by_one_and_nothing_is_missing() {
    let mut scheduler = Scheduler::new(Policy { queue: 100, ..Policy::new(1) }).unwrap();
    let mut effects = Effects::default();
    for (name, calls) in [("few", 2), ("most", 9), ("many", 5), ("one", 1)] {
        for call in 0..calls {
            let _ = scheduler.offer(at(0), offer(call, name), &mut effects);
        }
    }
    let _ = scheduler.offer(at(0), Offer::new(0), &mut effects);

    let seen = scheduler.tenants(2);
    let names = seen.busiest.iter().map(|(name, _)| name.as_ref().map(Tenant::as_str));
    assert_eq!(names.collect::<Vec<_>>(), [Some("most"), Some("many")]);
    assert_eq!((seen.busiest[0].1.totals.offered, seen.busiest[0].1.waiting), (9, 9));
    assert_eq!((seen.rest.totals.offered, seen.rest.holding, seen.rest.waiting), (4, 1, 3));
    assert_eq!(scheduler.tenants(0).rest.totals, scheduler.totals());

    scheduler.drain(at(1), &mut effects);
    scheduler.finish(at(1), SlotId(0));
    let all = scheduler.tenants(99);
    let names = all.busiest.iter().map(|(name, _)| name.as_ref().map(Tenant::as_str));
    assert_eq!(names.collect::<Vec<_>>(), [Some("few"), None], "the last one served, and nobody");
    let mut sum = all.rest.totals;
    all.busiest.iter().for_each(|(_, tenant)| sum.add(&tenant.totals));
    assert_eq!(sum, scheduler.totals());
}

/// The time of one finish, start and newcomer with `tenants` waiting, each with a home of its own
/// as far as homes go; the best of several blocks.
fn step_time(dispatch: Dispatch, tenants: u32) -> Duration {
    let names: Vec<Tenant> = (0..tenants).map(|n| n.to_string().into()).collect();
    let homes = names.iter().take(Policy::SLOTS_MAX as usize - 4);
    let mut scheduler = Scheduler::new(Policy {
        dispatch,
        queue: tenants + 8,
        homes: homes.map(|name| (name.clone(), 1)).collect(),
        ..Policy::new(Policy::SLOTS_MAX)
    })
    .unwrap();
    let mut effects = Effects::default();
    let mut running = std::collections::VecDeque::new();
    let offer =
        |n: usize| Offer { tenant: Some(names[n % names.len()].clone()), ..Offer::new(n as u32) };
    for n in 0..tenants as usize + Policy::SLOTS_MAX as usize {
        if let Decision::Start(call) = scheduler.offer(Time::ZERO, offer(n), &mut effects) {
            running.push_back(call.slot);
        }
    }
    let mut block = |n: usize| {
        let began = Instant::now();
        for n in n..n + 200 {
            scheduler.finish(Time::ZERO, running.pop_front().expect("slots are in use"));
            scheduler.dispatch(Time::ZERO, &mut effects);
            running.extend(effects.started.drain(..).map(|call| call.slot));
            if let Decision::Start(call) = scheduler.offer(Time::ZERO, offer(n), &mut effects) {
                running.push_back(call.slot);
            }
            effects.rejected.clear();
        }
        began.elapsed()
    };
    (0..20).map(|n| block(n * 200)).min().expect("there are blocks")
}

#[test]
fn a_step_costs_hardly_more_with_fifty_times_as_many_tenants() {
    for dispatch in DISPATCH {
        let (few, many) = (step_time(dispatch, 1_000), step_time(dispatch, 50_000));
        assert!(many < 10 * few, "{dispatch:?}: {few:?} against {many:?}");
    }
}
