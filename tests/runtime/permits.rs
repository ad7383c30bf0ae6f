//! Permits: the caller's own thread, inside the partition's bounds.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use watertight::PartitionSpec;
use watertight::call::{Run, Terms};
use watertight::outcome::{Failure, Status};

use crate::support::{
    HANG, MS, assert_adds_up, assert_whole, occupy, one, one_on_manual_clock, until,
};

fn spec() -> PartitionSpec {
    PartitionSpec::new("files").slots(1).max_wait(HANG)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn a_permit_holds_its_slot_until_it_is_dropped() {
    let (_runtime, files, hand) = one_on_manual_clock(spec().run_limit(7 * MS));
    let permit = files.permit().unwrap();
    assert_eq!(permit.limit(), 7 * MS);
    assert_eq!(permit.waited(), Duration::ZERO);
    hand.advance(20 * MS);
    let snapshot = files.snapshot();
    assert_adds_up(&snapshot);
    assert_eq!(snapshot.gauges.running, 1, "no limit ends a permit");
    assert_eq!(snapshot.running[0].age, 20 * MS);
    drop(permit);
    let snapshot = files.snapshot();
    assert_eq!((snapshot.gauges.free, snapshot.counts.ok), (1, 1));
    assert_eq!(snapshot.run.count(), 1);
    assert_whole(&files);
}

#[test]
fn released_early() {
    let (_runtime, files) = one(spec());
    let permit = files.permit().unwrap();
    permit.release();
    assert!(files.call(nothing).is_ok());
}

#[test]
fn released_by_unwinding() {
    let (_runtime, files) = one(spec());
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _permit = files.permit().unwrap();
        resume_unwind(Box::new("user code"))
    }));
    assert!(unwound.is_err());
    assert_whole(&files);
}

#[test]
fn it_is_waited_for_and_handed_on_in_order() {
    let (_runtime, files) = one(spec());
    let held = occupy(&files);
    thread::scope(|scope| {
        let waits = scope.spawn(|| files.permit().unwrap().waited());
        until("it waits", || files.snapshot().gauges.waiting == 1);
        let behind = files.submit(nothing);
        held.release();
        assert!(waits.join().unwrap() > Duration::ZERO);
        assert!(behind.wait().is_ok());
    });
    assert_whole(&files);
}

#[test]
fn refused_like_any_call() {
    let (_runtime, files, hand) = one_on_manual_clock(spec().max_wait(50 * MS).queue(1));
    let _held = occupy(&files);
    thread::scope(|scope| {
        let waits = scope.spawn(|| files.permit().unwrap_err());
        until("it waits", || files.snapshot().gauges.waiting == 1);
        assert_eq!(files.permit().unwrap_err().status(), Status::Busy);
        hand.advance(50 * MS);
        let refused = waits.join().unwrap();
        assert_eq!(refused.status(), Status::Busy);
        assert_eq!(refused.timing.waited, 50 * MS);
        assert!(refused.retry_after().is_some());

        let terms = Terms::new().deadline(20 * MS);
        let waits = scope.spawn(|| files.permit_with(terms).unwrap_err());
        until("it waits", || files.snapshot().gauges.waiting == 1);
        hand.advance(20 * MS);
        assert_eq!(waits.join().unwrap().status(), Status::Timeout);
    });
    assert_adds_up(&files.snapshot());
}

#[test]
fn a_shutdown_refuses_those_that_wait() {
    let (runtime, files) = one(spec());
    let _held = occupy(&files);
    thread::scope(|scope| {
        let waits = scope.spawn(|| files.permit().unwrap_err());
        until("it waits", || files.snapshot().gauges.waiting == 1);
        runtime.shutdown(Duration::ZERO);
        assert_eq!(waits.join().unwrap().status(), Status::Cancelled);
    });
}

#[test]
fn threads_that_hammer_one_slot() {
    let (_runtime, files) = one(spec().queue(8));
    let at_once = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                at_once.wait();
                for _ in 0..500 {
                    let permit = files.permit().unwrap();
                    assert_eq!(files.snapshot().gauges.running, 1);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!(files.snapshot().counts.ok, 2_000);
    assert_whole(&files);
}
