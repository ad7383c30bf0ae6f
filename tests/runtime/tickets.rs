//! Tickets: wait, wait with a limit, cancel, look, detach, drop.

use std::time::Duration;

use crossbeam_channel::bounded;
use watertight::PartitionSpec;
use watertight::call::{Run, Terms};
use watertight::outcome::{Failure, Status};

use crate::support::{HANG, MS, assert_whole, ends, held, occupy, one, one_on_manual_clock, until};

fn spec() -> PartitionSpec {
    PartitionSpec::new("search").slots(1).max_wait(HANG)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn a_wait_with_a_limit_gives_the_ticket_back() {
    let (_runtime, search) = one(spec());
    let (held, body) = held();
    let ticket = search.submit(body);
    let ticket = ticket.wait_timeout(Duration::ZERO).unwrap_err();
    let ticket = ticket.wait_timeout(5 * MS).unwrap_err();
    assert!(!ticket.is_finished());
    held.release();
    let outcome = ticket.wait_timeout(Duration::MAX).unwrap();
    assert!(outcome.is_ok());
}

#[test]
fn a_finished_ticket_needs_no_wait() {
    let (_runtime, search) = one(spec());
    let ticket = search.submit(|_| Ok(5));
    until("it is finished", || ticket.is_finished());
    assert_eq!(ticket.wait_timeout(Duration::ZERO).unwrap().ok(), Some(5));
}

#[test]
fn a_limit_of_a_wait_is_in_real_time() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    let _held = occupy(&search);
    let ticket = search.submit(nothing);
    let ticket = ticket.wait_timeout(MS).unwrap_err();
    assert_eq!(search.snapshot().gauges.waiting, 1);
    drop(ticket);
    assert_eq!(search.snapshot().gauges.waiting, 0);
}

#[test]
fn a_cancel_after_the_end_changes_nothing() {
    let (_runtime, search) = one(spec());
    let ticket = search.submit(|_| Ok(5));
    until("it is finished", || ticket.is_finished());
    ticket.cancel();
    assert_eq!(ticket.wait().ok(), Some(5));
    assert_eq!(search.snapshot().counts.cancelled, 0);
}

#[test]
fn dropping_the_ticket_tells_the_body() {
    let (_runtime, search) = one(spec());
    let (begins, begun) = bounded(1);
    let (ends, ended) = bounded(1);
    let ticket = search.submit(move |run| {
        begins.send(()).unwrap();
        ends.send(run.cancel_token().wait(HANG)).unwrap();
        Ok(())
    });
    begun.recv_timeout(HANG).unwrap();
    drop(ticket);
    assert_eq!(ended.recv_timeout(HANG), Ok(true));
    assert_whole(&search);
}

#[test]
fn a_detached_call_goes_on() {
    let (_runtime, search) = one(spec());
    let (held, body) = held();
    let (ends, ended) = bounded(1);
    let waiting = {
        let running = search.submit(body);
        held.wait_begun();
        let waiting = search.submit(move |run| {
            ends.send(run.cancel_token().is_cancelled()).unwrap();
            Ok(())
        });
        running.detach();
        waiting
    };
    waiting.detach();
    assert_eq!(search.snapshot().gauges.waiting, 1);
    held.release();
    assert_eq!(ended.recv_timeout(HANG), Ok(false));
    until("both are counted", || search.snapshot().counts.ok == 2);
}

#[test]
fn a_detached_call_still_has_its_limits() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let held = occupy(&search);
    search.submit(nothing).detach();
    hand.advance(HANG);
    let snapshot = search.snapshot();
    assert_eq!(snapshot.counts.busy(), 1);
    assert_eq!(snapshot.counts.timeout_run, 1);
    held.release();
    assert_whole(&search);
}

#[test]
fn what_the_body_is_told() {
    let (_runtime, search) = one(spec());
    let terms = Terms::new().attempt(3).idempotency_key("order-7");
    let told = search.call_with(terms, |run| Ok((run.attempt(), run.idempotency_key().to_owned())));
    assert_eq!(told.ok(), Some((3, "order-7".to_owned())));
    let keys = |run: &Run| Ok([run.idempotency_key(), run.idempotency_key()].map(str::to_owned));
    let [one, again] = search.call(keys).ok().unwrap();
    assert!(one == again && one.len() == 36, "one a call: {one} {again}");
    assert_ne!(search.call(keys).ok().unwrap()[0], one);
}

#[test]
fn a_body_may_wait_for_another_partition() {
    let builder = watertight::Runtime::builder().partition(spec());
    let runtime = builder.partition(PartitionSpec::new("files")).build();
    let runtime = runtime.unwrap();
    let [files, search] = ["files", "search"].map(|name| runtime.partition(name).unwrap().clone());
    let sum = ends("a call in a call", move || {
        files.call(move |_| Ok(search.call(|_| Ok(20)).ok().unwrap() + 1))
    });
    assert_eq!(sum.ok(), Some(21));
    assert_eq!(runtime.snapshot().partition("search").unwrap().counts.ok, 1);
}

#[test]
fn a_clock_moved_to_its_end_ends_every_wait() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let (held, body) = held();
    let running = search.submit(body);
    held.wait_begun();
    let waiting = search.submit(nothing);
    ends("a clock at its end", move || {
        hand.advance(Duration::MAX);
        hand.advance(Duration::MAX);
    });
    assert_eq!(running.wait().status(), Status::Timeout);
    assert_eq!(waiting.wait().status(), Status::Busy);
    held.release();
    assert_whole(&search);
}
