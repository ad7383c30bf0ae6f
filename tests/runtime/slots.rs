//! Slots are never lost, never overshot, and never go to a call that has given up.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use watertight::PartitionSpec;
use watertight::call::{Run, Terms};
use watertight::outcome::{Failure, Status};

use crate::support::{MS, assert_whole, held, occupy, one, one_on_manual_clock, until};

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn waiters_that_expired_take_no_slot_with_them() {
    let spec = PartitionSpec::new("search").slots(1).queue(8);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    for _ in 0..1_000 {
        let held = occupy(&search);
        let waiting: Vec<_> = (0..8).map(|_| search.submit(nothing)).collect();
        hand.advance(50 * MS);
        for ticket in waiting {
            assert_eq!(ticket.wait().status(), Status::Busy);
        }
        held.release();
        until("the slot is free", || search.snapshot().gauges.free == 1);
        assert!(search.call(nothing).is_ok());
    }
    assert_eq!(search.snapshot().max_in_flight, 1);
}

#[test]
fn permit_waiters_that_expired_take_no_slot_with_them() {
    let spec = PartitionSpec::new("search").slots(1).max_wait(MS);
    let (_runtime, search) = one(spec);
    for _ in 0..100 {
        let held = occupy(&search);
        let refused = search.permit().unwrap_err();
        assert_eq!(refused.status(), Status::Busy);
        held.release();
        until("the slot is free", || search.snapshot().gauges.free == 1);
        drop(search.permit().unwrap());
    }
    assert_eq!(search.snapshot().max_in_flight, 1);
}

#[test]
fn a_grant_just_before_the_expiry_stands() {
    let (_runtime, search, hand) = one_on_manual_clock(PartitionSpec::new("search").slots(1));
    let held = occupy(&search);
    let ticket = search.submit(nothing);
    hand.advance(50 * MS - std::time::Duration::from_nanos(1));
    held.release();
    until("the waiter ran", || ticket.is_finished());
    hand.advance(MS);
    assert!(ticket.wait().is_ok());
}

#[test]
fn an_expiry_just_before_the_grant_stands() {
    let (_runtime, search, hand) = one_on_manual_clock(PartitionSpec::new("search").slots(1));
    let held = occupy(&search);
    let ticket = search.submit(|_| -> Result<(), Failure> { unreachable!("it has expired") });
    hand.advance(50 * MS);
    held.release();
    assert_eq!(ticket.wait().status(), Status::Busy);
    assert_whole(&search);
    assert_eq!(search.snapshot().counts.panicked, 0);
}

#[test]
fn a_grant_at_the_instant_of_the_expiry_loses_no_slot() {
    let (_runtime, search, hand) = one_on_manual_clock(PartitionSpec::new("search").slots(1));
    let ran = Arc::new(AtomicU32::new(0));
    let (mut granted, mut expired) = (0, 0);
    for _ in 0..1_000 {
        let held = occupy(&search);
        let mine = Arc::clone(&ran);
        let ticket = search.submit(move |_| Ok(mine.fetch_add(1, Ordering::SeqCst)));
        let at_once = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                at_once.wait();
                hand.advance(50 * MS);
            });
            at_once.wait();
            held.release();
        });
        match ticket.wait().status() {
            Status::Ok => granted += 1,
            Status::Busy => expired += 1,
            other => panic!("{other:?}"),
        }
        until("the slot is free", || search.snapshot().gauges.free == 1);
    }
    assert_eq!(granted + expired, 1_000);
    assert_eq!(ran.load(Ordering::SeqCst), granted);
    assert_whole(&search);
}

#[test]
fn the_limit_is_never_overshot() {
    const SLOTS: u32 = 4;
    let spec = PartitionSpec::new("search").slots(SLOTS).queue(64);
    let (_runtime, search) = one(spec.max_wait(20_000 * MS));
    let (now, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let inside = Arc::new((now, most));
    let work = |inside: &(AtomicU32, AtomicU32)| {
        let now = inside.0.fetch_add(1, Ordering::SeqCst) + 1;
        inside.1.fetch_max(now, Ordering::SeqCst);
        thread::yield_now();
        inside.0.fetch_sub(1, Ordering::SeqCst);
    };
    let _busy: Vec<_> = (1..SLOTS).map(|_| occupy(&search)).collect();
    for _ in 0..20 {
        let at_once = Barrier::new(64);
        thread::scope(|scope| {
            for thread in 0..64 {
                let (search, inside, at_once) = (&search, &inside, &at_once);
                scope.spawn(move || {
                    at_once.wait();
                    if thread % 2 == 0 {
                        let inside = Arc::clone(inside);
                        let outcome = search.call(move |_| {
                            work(&inside);
                            Ok(())
                        });
                        assert!(outcome.is_ok(), "{outcome:?}");
                    } else {
                        let _permit = search.permit().unwrap();
                        work(inside);
                    }
                });
            }
        });
    }
    assert_eq!(inside.1.load(Ordering::SeqCst), 1, "one slot was free");
    assert_eq!(search.snapshot().max_in_flight, SLOTS);
}

#[test]
fn tickets_dropped_unread_leak_nothing() {
    let spec = PartitionSpec::new("search").slots(4).queue(64);
    let (_runtime, search) = one(spec);
    for at in 0..100_000 {
        let ticket = search.submit(move |_| Ok(vec![at; 4]));
        if at % 3 == 0 {
            ticket.cancel();
        }
        drop(ticket);
    }
    assert_whole(&search);
    assert_eq!(search.snapshot().offered, 100_000 + 4);
}

#[test]
fn a_cancelled_waiting_call_leaves_the_queue_and_never_runs() {
    let spec = PartitionSpec::new("search").slots(1).queue(1);
    let (_runtime, search, _hand) = one_on_manual_clock(spec);
    let busy = occupy(&search);
    let (never, body) = held();
    let cancelled = search.submit(body);
    assert_eq!(search.snapshot().gauges.waiting, 1);
    cancelled.cancel();
    cancelled.cancel();
    assert_eq!(search.snapshot().gauges.waiting, 0);
    let next = search.submit_with(Terms::new(), nothing);
    busy.release();
    assert!(next.wait().is_ok(), "its place in the queue is free");
    assert_whole(&search);
    assert!(!never.has_begun());
    assert_eq!(cancelled.wait().status(), Status::Cancelled);
}

#[test]
fn tenants_leave_no_memory_behind() {
    let (_runtime, search) = one(PartitionSpec::new("search").slots(2));
    for at in 0..1_000 {
        let terms = Terms::new().tenant(format!("s-{at}"));
        let _ = search.call_with(terms, nothing);
    }
    assert!(search.snapshot().gauges.tenants <= 1);
}
