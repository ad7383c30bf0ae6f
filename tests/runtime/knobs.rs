//! Every knob of a partition: absent, 0, its maximum, and what is refused, with key, value, rule
//! and fix.

use std::time::Duration;

use watertight::admission::Dispatch;
use watertight::call::{Run, Terms};
use watertight::outcome::{Failure, Status};
use watertight::{Partition, PartitionSpec, Runtime};

use crate::support::{HANG, MS, assert_whole, held, occupy, one, one_on_manual_clock, until};

fn spec() -> PartitionSpec {
    PartitionSpec::new("search")
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

/// How many calls can run, and how many more can wait.
fn room(partition: &Partition) -> (usize, usize) {
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    loop {
        let (held, body) = held();
        let ticket = partition.submit(body);
        if ticket.is_finished() {
            return (running.len(), waiting.len());
        }
        if partition.snapshot().gauges.waiting as usize > waiting.len() {
            waiting.push((held, ticket));
        } else {
            running.push((held, ticket));
        }
    }
}

#[track_caller]
fn assert_refused(spec: PartitionSpec, key: &str, value: &str) {
    let error = spec.check().unwrap_err();
    assert_eq!((error.error.key, &*error.error.value), (key, value));
    assert!(!error.error.rule.is_empty() && !error.error.fix.is_empty());
    let said = error.to_string();
    for part in [&format!("{key} = {value}: "), error.error.rule, error.error.fix] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.starts_with(&format!("partition.{}.", error.partition)));
    let built = Runtime::builder().partition(spec).build();
    assert_eq!(built.unwrap_err(), error);
}

#[test]
fn the_defaults() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    assert_eq!(room(&search), (4, 8));
    let spec = search.spec();
    assert_eq!((spec.name(), spec.capacity()), ("search", 4));
    until("the slots are free", || search.snapshot().gauges.free == 4);

    let (held, body) = held();
    let hangs = search.submit(body);
    let _others: Vec<_> = (0..3).map(|_| occupy(&search)).collect();
    held.wait_begun();
    let waits = search.submit(nothing);
    hand.advance(50 * MS);
    assert_eq!(waits.wait().timing.waited, 50 * MS);
    hand.advance(Duration::from_millis(30_100) - 50 * MS);
    assert_eq!(hangs.wait().timing.ran, Duration::from_millis(30_100));
    let g = search.snapshot().gauges;
    assert_eq!((g.overdue, g.replaced, g.free), (4, 0, 0));
}

#[test]
fn slots() {
    assert_refused(spec().slots(0), "slots", "0");
    assert_refused(spec().slots(4_097), "slots", "4097");
    assert_refused(spec().slots(u32::MAX), "slots", &u32::MAX.to_string());
    assert!(spec().slots(4_096).check().is_ok());
    let (_runtime, search, _hand) = one_on_manual_clock(spec().slots(3));
    assert_eq!(room(&search), (3, 6), "the queue follows");
}

/// As many threads as can be had here and now: an error says so, and nothing is left.
#[test]
fn as_many_slots_as_there_are() {
    let built = Runtime::builder().partition(spec().slots(4_096)).build();
    match built {
        Ok(runtime) => assert!(runtime.partition("search").unwrap().call(nothing).is_ok()),
        Err(error) => assert_eq!((error.error.key, &*error.error.value), ("slots", "4096")),
    }
}

#[test]
fn queue() {
    assert_refused(spec().queue(1_000_001), "queue", "1000001");
    for queue in [0, 1, 5] {
        let (_runtime, search, _hand) = one_on_manual_clock(spec().queue(queue).slots(1));
        assert_eq!(room(&search), (1, queue as usize), "whatever comes first");
    }
    let spec = spec().slots(1).queue(1_000_000).max_wait(HANG);
    let (_runtime, search) = one(spec);
    let held = occupy(&search);
    let waiting: Vec<_> = (0..10_000).map(|_| search.submit(nothing)).collect();
    assert_eq!(search.snapshot().gauges.waiting, 10_000);
    held.release();
    assert!(waiting.into_iter().all(|ticket| ticket.wait().is_ok()));
}

#[test]
fn max_wait() {
    let longer = PartitionSpec::MAX_WAIT_MAX + Duration::from_nanos(1);
    assert_refused(spec().max_wait(longer), "max_wait", "3600.000000001s");
    let spec = spec().slots(1);
    let (_runtime, search, _hand) = one_on_manual_clock(spec.clone().max_wait(Duration::ZERO));
    assert_eq!(room(&search), (1, 0), "nobody waits");
    let longest = spec.max_wait(PartitionSpec::MAX_WAIT_MAX);
    let (_runtime, search, hand) =
        one_on_manual_clock(longest.run_limit(2 * PartitionSpec::MAX_WAIT_MAX));
    let _held = occupy(&search);
    let ticket = search.submit(nothing);
    hand.advance(PartitionSpec::MAX_WAIT_MAX - MS);
    assert!(!ticket.is_finished());
    hand.advance(MS);
    assert_eq!(ticket.wait().status(), Status::Busy);
}

#[test]
fn run_limit() {
    assert_refused(spec().run_limit(Duration::ZERO), "run_limit", "0ns");
    let longer = PartitionSpec::RUN_LIMIT_MAX + MS;
    assert_refused(spec().run_limit(longer), "run_limit", "86400.001s");
    let spec = spec().run_limit(PartitionSpec::RUN_LIMIT_MAX);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    let (held, body) = held();
    let ticket = search.submit(body);
    held.wait_begun();
    hand.advance(PartitionSpec::RUN_LIMIT_MAX);
    assert!(!ticket.is_finished());
    hand.advance(100 * MS);
    assert_eq!(ticket.wait().status(), Status::Timeout);
}

#[test]
fn cancel_grace() {
    let longer = PartitionSpec::CANCEL_GRACE_MAX + MS;
    assert_refused(spec().cancel_grace(longer), "cancel_grace", "3600.001s");
    for grace in [Duration::ZERO, MS, PartitionSpec::CANCEL_GRACE_MAX] {
        let spec = spec().run_limit(MS).cancel_grace(grace);
        let (_runtime, search, hand) = one_on_manual_clock(spec);
        let (held, body) = held();
        let ticket = search.submit(body);
        held.wait_begun();
        hand.advance(grace);
        assert!(!ticket.is_finished() || grace.is_zero());
        hand.advance(MS);
        assert_eq!(ticket.wait().status(), Status::Timeout, "{grace:?}");
        held.release();
        assert_whole(&search);
    }
}

#[test]
fn replace_overdue() {
    assert_refused(spec().replace_overdue(4_097), "replace_overdue", "4097");
    assert!(spec().replace_overdue(4_096).check().is_ok());
    assert_eq!(spec().slots(3).replace_overdue(2).capacity(), 5);
    for spares in 0..3 {
        let spec = spec().slots(2).queue(0).replace_overdue(spares);
        let (_runtime, search, hand) = one_on_manual_clock(spec);
        let _hung = [occupy(&search), occupy(&search)];
        hand.advance(Duration::from_millis(30_100));
        assert_eq!(room(&search).0, spares as usize);
    }
}

#[test]
fn tenant_max() {
    assert_refused(spec().tenant_max(0), "tenant_max", "0");
    assert!(spec().tenant_max(u32::MAX).check().is_ok());
    let (_runtime, search, _hand) = one_on_manual_clock(spec().slots(2).tenant_max(1));
    let (held, body) = held();
    let greedy = || Terms::new().tenant("greedy");
    let _first = search.submit_with(greedy(), body);
    held.wait_begun();
    let second = search.submit_with(greedy(), nothing);
    assert_eq!(search.snapshot().gauges.waiting, 1, "although a slot is free");
    assert!(search.call_with(Terms::new().tenant("modest"), nothing).is_ok());
    held.release();
    assert!(second.wait().is_ok());
}

#[test]
fn tenant_queue() {
    let waiting = |most: u32| {
        let spec = spec().slots(1).queue(8).tenant_queue(most);
        let (_runtime, search, _hand) = one_on_manual_clock(spec);
        let _held = occupy(&search);
        room(&search).1
    };
    assert_eq!([0, 3, 100].map(waiting), [0, 3, 8]);
}

#[test]
fn tenant_slots() {
    let two = |gold| spec().slots(2).dispatch(Dispatch::Strict).tenant_slots("gold", gold);
    assert_refused(two(3), "tenant_slots", "3");
    let (_runtime, search, _hand) = one_on_manual_clock(two(1));
    assert_eq!(room(&search).0, 1, "the other one is gold's");
    until("the slots are free", || search.snapshot().gauges.free == 2);
    let _held = occupy(&search);
    assert!(search.call_with(Terms::new().tenant("gold"), nothing).is_ok());
    let (_runtime, search, _hand) = one_on_manual_clock(two(2));
    assert_eq!(room(&search).0, 0, "none is left for others");
    let (_runtime, search, _hand) = one_on_manual_clock(two(0));
    assert_eq!(room(&search).0, 2);
}

#[test]
fn names() {
    let long = "x".repeat(65);
    for bad in ["", "a b", "a/b", "ä", "a\0b", &long] {
        assert_refused(PartitionSpec::new(bad), "name", &format!("{bad:?}"));
    }
    let fine = "x".repeat(64);
    for good in ["a", "A-1_b.c", &fine] {
        assert!(one(PartitionSpec::new(good)).1.call(nothing).is_ok());
    }
    let twice = Runtime::builder().partition(spec()).partition(spec());
    let error = twice.build().unwrap_err();
    assert_eq!((error.error.key, &*error.error.value), ("name", "\"search\""));
    assert_eq!(Runtime::builder().build().unwrap().partitions().count(), 0);
}
