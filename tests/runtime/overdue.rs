//! Calls that do not end: their callers are answered, their slots are known to be stuck, and spare
//! slots make up for as many as allowed.

use std::time::{Duration, Instant};

use watertight::call::{Run, Terms};
use watertight::outcome::{Failure, Status};
use watertight::{Partition, PartitionSpec, Ticket};

use crate::support::{
    Held, MS, assert_adds_up, assert_whole, held, occupy, one, one_on_manual_clock, until,
};

const RUN_LIMIT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_millis(100);

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

fn hang(partition: &Partition) -> (Held, Ticket<()>) {
    let (held, body) = held();
    let ticket = partition.submit(body);
    held.wait_begun();
    (held, ticket)
}

#[test]
fn a_closure_that_never_returns_on_the_systems_clock() {
    let spec = PartitionSpec::new("search").slots(1).run_limit(50 * MS);
    let (runtime, search) = one(spec.cancel_grace(50 * MS));
    let (held, body) = held();
    let from = Instant::now();
    let outcome = search.call(body);
    let took = from.elapsed();
    assert_eq!(outcome.status(), Status::Timeout);
    assert!(took >= 100 * MS, "{took:?}");
    assert!(outcome.timing.ran >= 100 * MS);
    let snapshot = search.snapshot();
    assert_eq!((snapshot.gauges.overdue, snapshot.gauges.free), (1, 0));
    assert!(snapshot.running[0].overdue);
    assert!(snapshot.running[0].age >= 100 * MS);
    let from = Instant::now();
    let report = runtime.shutdown(200 * MS);
    assert!(from.elapsed() < Duration::from_secs(20), "it does not hang");
    assert_eq!(report.left.len(), 1);
    assert_eq!(&*report.left[0].partition, "search");
    assert!(report.left[0].call.overdue);
    held.release();
}

#[test]
fn nobody_has_to_wait_for_it() {
    let (_runtime, search, hand) = one_on_manual_clock(PartitionSpec::new("search").slots(1));
    let (held, ticket) = hang(&search);
    hand.advance(RUN_LIMIT + GRACE);
    assert!(ticket.is_finished());
    held.release();
    assert_whole(&search);
    assert_eq!(search.snapshot().counts.timeout_run, 1);
    assert_eq!(ticket.wait().status(), Status::Timeout);
}

#[test]
fn its_slot_comes_back_when_it_returns() {
    let (_runtime, search, hand) = one_on_manual_clock(PartitionSpec::new("search").slots(1));
    let (held, ticket) = hang(&search);
    hand.advance(RUN_LIMIT + GRACE);
    assert_eq!(ticket.wait().status(), Status::Timeout);
    let waits = search.submit(nothing);
    assert!(!waits.is_finished());
    held.release();
    assert!(waits.wait().is_ok());
    assert_eq!(search.snapshot().max_in_flight, 1);
}

#[test]
fn a_spare_brings_exactly_one_slot_back() {
    let spec = PartitionSpec::new("search").slots(2).replace_overdue(1);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    let (first, first_ticket) = hang(&search);
    let (second, second_ticket) = hang(&search);
    hand.advance(RUN_LIMIT + GRACE);
    assert_eq!(first_ticket.wait().status(), Status::Timeout);
    assert_eq!(second_ticket.wait().status(), Status::Timeout);
    let g = search.snapshot().gauges;
    assert_eq!((g.overdue, g.replaced, g.free), (2, 1, 1), "{g:?}");
    let in_the_spare = occupy(&search);
    assert!(!search.submit(nothing).is_finished(), "and no more than one");

    first.release();
    until("a thread retires", || search.snapshot().gauges.overdue == 1);
    let g = search.snapshot().gauges;
    let seen = (g.running, g.free, g.replaced);
    assert_eq!(seen, (1, 1, 1), "its slot makes up for the other: {g:?}");
    second.release();
    until("the other slot is free", || search.snapshot().gauges.overdue == 0);
    assert_eq!(search.snapshot().gauges.free, 1);
    in_the_spare.release();
    assert_whole(&search);
    assert_adds_up(&search.snapshot());
}

#[test]
fn a_waiter_starts_in_the_spare_at_once() {
    let spec = PartitionSpec::new("search").slots(1).replace_overdue(1);
    let (_runtime, search, hand) = one_on_manual_clock(spec.max_wait(RUN_LIMIT));
    let (held, hung) = hang(&search);
    hand.advance(GRACE + MS);
    let waits = search.submit(nothing);
    hand.advance(RUN_LIMIT - MS);
    assert_eq!(hung.wait().status(), Status::Timeout);
    assert!(waits.wait().is_ok());
    held.release();
    assert_whole(&search);
}

#[test]
fn a_call_that_was_called_off_is_made_up_for_as_well() {
    let spec = PartitionSpec::new("search").slots(1).replace_overdue(1);
    let (_runtime, search) = one(spec);
    let (held, ticket) = hang(&search);
    ticket.cancel();
    assert!(search.call(nothing).is_ok());
    held.release();
    assert_whole(&search);
}

#[test]
fn a_permit_past_its_deadline_keeps_its_slot_until_it_is_released() {
    let spec = PartitionSpec::new("search").slots(1).replace_overdue(1);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    let permit = search.permit_with(Terms::new().deadline(10 * MS)).unwrap();
    hand.advance(10 * MS);
    let snapshot = search.snapshot();
    assert_adds_up(&snapshot);
    assert_eq!((snapshot.gauges.overdue, snapshot.gauges.free), (1, 0));
    assert_eq!(snapshot.counts.timeout_deadline, 1);
    permit.release();
    assert_whole(&search);
}
