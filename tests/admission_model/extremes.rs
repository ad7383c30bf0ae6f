//! Knobs at their ends, and hints.

use std::time::Duration;

use watertight::admission::{Dispatch, Effects, Offer, Policy, Rejection, Scheduler, SlotId};
use watertight::outcome::BusyReason;
use watertight::time::Time;

use crate::faults::{MS, at, rejected, started, waiting, waiting_until};

fn refused(policy: &Policy) -> (&'static str, String) {
    let error = policy.check().expect_err("it is not allowed");
    assert!(error.to_string().contains(error.rule));
    (error.key, error.value)
}

#[test]
fn every_knob_refuses_what_is_beyond_its_ends() {
    let base = Policy::new(4);
    let cases: Vec<(&str, &str, Policy)> = vec![
        ("slots", "0", Policy::new(0)),
        ("slots", "4097", Policy { slots: 4097, ..base.clone() }),
        ("queue", "1000001", Policy { queue: 1_000_001, ..base.clone() }),
        ("replace_overdue", "4097", Policy { replace_overdue: 4097, ..base.clone() }),
        ("reserve_max", "4097", Policy { reserve_max: 4097, ..base.clone() }),
        ("tenant_max", "0", Policy { tenant_max: Some(0), ..base.clone() }),
        ("tenant_slots", "5", Policy { homes: vec![("a".into(), 5)], ..base.clone() }),
        (
            "tenant_slots",
            "8589934590",
            Policy { homes: vec![("a".into(), u32::MAX), ("b".into(), u32::MAX)], ..base.clone() },
        ),
        (
            "tenant_slots",
            "a",
            Policy { homes: vec![("a".into(), 1), ("a".into(), 2)], ..base.clone() },
        ),
        (
            "tenant_slots",
            "4097",
            Policy {
                homes: (0..4097).map(|n| (n.to_string().into(), 0)).collect(),
                ..base.clone()
            },
        ),
        ("tenant_weights", "0", Policy { weights: vec![("a".into(), 0)], ..base.clone() }),
        ("tenant_weights", "1001", Policy { weights: vec![("a".into(), 1001)], ..base.clone() }),
        ("tenant_weights", "b", Policy { weights: vec![("b".into(), 1), ("b".into(), 1)], ..base }),
    ];
    for (key, value, policy) in cases {
        assert_eq!(refused(&policy), (key, value.to_owned()));
        assert!(Scheduler::<u32>::new(policy).is_err());
    }
}

#[test]
fn every_knob_works_at_its_ends() {
    let policy = Policy {
        queue: Policy::QUEUE_MAX,
        dispatch: Dispatch::Borrow,
        tenant_max: Some(u32::MAX),
        tenant_queue: Some(u32::MAX),
        homes: vec![("a".into(), Policy::SLOTS_MAX), ("b".into(), 0)],
        replace_overdue: Policy::SLOTS_MAX,
        reserve_max: Policy::SLOTS_MAX,
        run_limit: Duration::MAX,
        cancel_grace: Duration::MAX,
        ..Policy::new(Policy::SLOTS_MAX)
    };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut effects = Effects::default();
    let offer = |n| Offer { tenant: Some("b".into()), ..Offer::new(n) };
    for call in 0..2 * Policy::SLOTS_MAX {
        let decision = scheduler.offer_or_borrow(at(0), offer(call), &mut effects, || true);
        assert_eq!(started(decision).slot.0, call);
    }
    waiting(scheduler.offer_or_borrow(at(0), offer(0), &mut effects, || true));
    for slot in 0..2 * Policy::SLOTS_MAX {
        let slot = SlotId(slot);
        assert!(scheduler.answer(at(0), slot));
        assert_eq!(scheduler.replace(slot), slot.0 < Policy::SLOTS_MAX);
    }
    scheduler.dispatch(at(1), &mut effects);
    assert_eq!(effects.started.len(), 1);
    assert!(!scheduler.is_broken());
}

#[test]
fn what_has_no_limit_is_never_due_not_even_at_the_end_of_time() {
    let mut scheduler = Scheduler::new(Policy::new(1)).unwrap();
    let mut effects = Effects::default();
    let holder = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    waiting(scheduler.offer(at(0), Offer::new(1), &mut effects));
    scheduler.dispatch(Time::MAX, &mut effects);
    assert!(effects.is_empty());
    scheduler.finish(Time::MAX, holder.slot);
    scheduler.dispatch(Time::MAX, &mut effects);
    assert_eq!(effects.started.len(), 1);
}

#[test]
fn without_a_queue_a_call_starts_or_is_busy() {
    let policy = Policy { queue: 0, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut effects = Effects::default();
    started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    let busy = rejected(scheduler.offer(at(0), Offer::new(1), &mut effects));
    assert_eq!(busy.rejection, Rejection::Busy(BusyReason::SlotsFull));
}

#[test]
fn a_reentrant_call_into_a_full_partition_is_busy_at_once_and_without_a_hint() {
    let mut scheduler = Scheduler::new(Policy::new(1)).unwrap();
    let mut effects = Effects::default();
    let inner = |n| Offer { reentrant: true, ..Offer::new(n) };
    started(scheduler.offer(at(0), inner(0), &mut effects));
    let busy = rejected(scheduler.offer(at(0), inner(1), &mut effects));
    assert_eq!(busy.rejection, Rejection::Busy(BusyReason::Reentrant));
    assert_eq!(busy.retry_after, None);
}

/// A scheduler of one slot that has learnt that calls take 40 ms, with a call that started at 0.
fn busy_with(policy: Policy, effects: &mut Effects<u32>) -> Scheduler<u32> {
    let mut scheduler = Scheduler::new(policy).unwrap();
    for run in 0..20 {
        let slot = started(scheduler.offer(at(run), Offer::new(0), effects)).slot;
        scheduler.finish(at(run + 40), slot);
    }
    started(scheduler.offer(at(0), Offer::new(0), effects));
    scheduler
}

#[test]
fn a_hint_counts_who_waits_ahead() {
    let mut effects = Effects::default();
    let mut scheduler = busy_with(Policy { queue: 2, ..Policy::new(1) }, &mut effects);
    let refused = |scheduler: &mut Scheduler<u32>, now| {
        let mut effects = Effects::default();
        let never = waiting_until(9, at(0));
        let rejected = rejected(scheduler.offer(now, never, &mut effects));
        rejected.retry_after.expect("it is busy")
    };
    let hint = refused(&mut scheduler, at(30));
    assert_eq!(hint, 10 * MS, "what is left of one run");
    for call in 1..=2 {
        waiting(scheduler.offer(at(30), Offer::new(call), &mut effects));
    }
    let hint = refused(&mut scheduler, at(30));
    assert_eq!(
        hint,
        130 * MS,
        "and whole runs of two that wait and one that was told to come back"
    );
    let hint = refused(&mut scheduler, at(2000));
    assert!(hint >= 2000 * MS, "older than any run: {hint:?}");
}

#[test]
fn a_hint_does_not_expect_an_overdue_call_back_soon_and_never_overflows() {
    for run_limit in [Duration::from_secs(3), Duration::MAX] {
        let mut effects = Effects::default();
        let policy = Policy { run_limit, ..Policy::new(1) };
        let mut scheduler = busy_with(policy, &mut effects);
        scheduler.answer(at(10), SlotId(0));
        for call in 1..=2 {
            waiting(scheduler.offer(at(10), Offer::new(call), &mut effects));
        }
        let busy = rejected(scheduler.offer(at(10), Offer::new(3), &mut effects));
        assert!(busy.retry_after.unwrap() >= run_limit);
    }
}

#[test]
fn a_hint_looks_only_at_slots_that_may_serve_the_tenant() {
    let long = Duration::from_secs(20);
    for dispatch in [Dispatch::Fifo, Dispatch::Strict] {
        let policy = Policy {
            dispatch,
            tenant_max: (dispatch == Dispatch::Fifo).then_some(1),
            homes: vec![("slow".into(), 1)],
            ..Policy::new(2)
        };
        let mut effects = Effects::default();
        let mut scheduler = busy_with(policy, &mut effects);
        let offer = |wait_until| Offer {
            tenant: Some("slow".into()),
            run_for: long,
            ..waiting_until(1, wait_until)
        };
        let own = started(scheduler.offer(at(0), offer(at(1)), &mut effects)).slot;
        let others = SlotId(1 - own.0);
        let soon = rejected(scheduler.offer(at(30), waiting_until(2, at(0)), &mut effects));
        assert!(soon.retry_after.unwrap() < 20 * MS, "{dispatch:?}: {soon:?}");

        // Its own slot is held by a call far older than any before it, the other by a new one.
        scheduler.finish(at(8999), others);
        started(scheduler.offer(at(8999), Offer::new(3), &mut effects));
        for call in [offer(at(9000)), offer(at(9000)), waiting_until(4, at(9000))] {
            waiting(scheduler.offer(at(8999), call, &mut effects));
        }
        scheduler.dispatch(at(9000), &mut effects);
        for expired in &effects.rejected {
            let soon = expired.payload == 4;
            let hint = expired.retry_after.unwrap();
            assert_eq!(hint < 1000 * MS, soon, "{dispatch:?}: {expired:?}");
        }
        let late = rejected(scheduler.offer(at(9000), offer(at(0)), &mut effects));
        assert!(late.retry_after.unwrap() >= 9000 * MS, "{dispatch:?}: {late:?}");
    }
}
