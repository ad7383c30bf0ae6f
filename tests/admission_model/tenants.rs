//! Tenants: what is remembered of them, and for how long.

use watertight::admission::{Decision, Dispatch, Effects, Offer, Policy, Scheduler};
use watertight::time::Time;

fn offer(payload: u32, tenant: &str) -> Offer<u32> {
    Offer {
        tenant: Some(tenant.into()),
        ..Offer::new(payload)
    }
}

#[test]
fn a_tenant_that_starts_from_the_queue_is_not_forgotten() {
    let now = Time::ZERO;
    let mut effects = Effects::default();
    let mut scheduler = Scheduler::new(Policy {
        dispatch: Dispatch::RoundRobin,
        tenant_max: Some(1),
        ..Policy::new(2)
    })
    .unwrap();
    let Decision::Start(first) = scheduler.offer(now, offer(0, "a"), &mut effects) else {
        panic!("a slot is free");
    };
    let Decision::Start(_) = scheduler.offer(now, offer(1, "b"), &mut effects) else {
        panic!("a slot is free");
    };
    let Decision::Wait(_) = scheduler.offer(now, offer(2, "c"), &mut effects) else {
        panic!("no slot is free");
    };
    scheduler.finish(now, first.slot);
    scheduler.dispatch(now, &mut effects);
    let started = effects.started.pop().unwrap();
    assert_eq!(started.payload, 2);

    let Decision::Wait(_) = scheduler.offer(now, offer(3, "c"), &mut effects) else {
        panic!("c is at its cap");
    };
    let Decision::Wait(_) = scheduler.offer(now, offer(4, "d"), &mut effects) else {
        panic!("no slot is free");
    };
    scheduler.finish(now, started.slot);
    scheduler.dispatch(now, &mut effects);
    assert_eq!(effects.started[0].payload, 4, "d was served less recently");
}
