//! Whoever has an answer never meets a slot that is still taken by it; panics cost their own call
//! and nothing else.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use watertight::call::Run;
use watertight::outcome::{CallError, Failure};
use watertight::{Partition, PartitionSpec};

use crate::support::{assert_whole, one};

/// Five slots and nowhere to wait: whoever finds none is turned away at once.
fn five_slots() -> (watertight::Runtime, Partition) {
    let spec = PartitionSpec::new("search").slots(5).queue(0);
    one(spec.max_wait(Duration::ZERO))
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn bursts_below_the_limit_from_one_thread() {
    let (_runtime, search) = five_slots();
    for round in 0..5_000 {
        let burst: Vec<_> = (0..4).map(|_| search.submit(nothing)).collect();
        for ticket in burst {
            let outcome = ticket.wait();
            assert!(outcome.is_ok(), "round {round}: {outcome:?}");
        }
    }
    assert_eq!(search.snapshot().counts.ok, 20_000);
}

#[test]
fn bursts_below_the_limit_from_many_threads() {
    let (_runtime, search) = five_slots();
    let at_once = Barrier::new(4);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (search, at_once) = (&search, &at_once);
            scope.spawn(move || {
                for round in 0..1_000 {
                    at_once.wait();
                    if thread == 0 {
                        drop(search.permit().unwrap());
                    } else {
                        let outcome = search.call(nothing);
                        assert!(outcome.is_ok(), "round {round}: {outcome:?}");
                    }
                }
            });
        }
    });
    assert_eq!(search.snapshot().counts.busy(), 0);
}

#[test]
fn after_a_failure_and_a_panic_the_slot_is_free_as_well() {
    let spec = PartitionSpec::new("search").slots(1).queue(0);
    let (_runtime, search) = one(spec);
    for _ in 0..1_000 {
        let failed = search.call::<(), _>(|_| Err(std::io::Error::other("no").into()));
        assert!(matches!(failed.result, Err(CallError::Failed(_))));
        let panicked = search.call::<(), _>(|_| resume_unwind(Box::new("quietly")));
        assert!(matches!(panicked.result, Err(CallError::Panicked { .. })));
    }
}

#[test]
fn ten_thousand_panics_cost_no_worker_and_no_slot() {
    let spec = PartitionSpec::new("search").slots(4).queue(10_000);
    let (_runtime, search) = one(spec.max_wait(Duration::from_secs(60)));
    let tickets: Vec<_> = (0..10_000_u32)
        .map(|at| {
            search.submit::<(), _>(move |_| match at % 3 {
                0 => resume_unwind(Box::new("a literal")),
                1 => resume_unwind(Box::new(format!("number {at}"))),
                _ => resume_unwind(Box::new(at)),
            })
        })
        .collect();
    for (at, ticket) in tickets.into_iter().enumerate() {
        let Err(CallError::Panicked { message }) = ticket.wait().result else {
            panic!("call {at} did not panic");
        };
        match at % 3 {
            0 => assert_eq!(message, "a literal"),
            1 => assert_eq!(message, format!("number {at}")),
            _ => assert_eq!(message, "", "a payload that is no text"),
        }
    }
    assert_eq!(search.snapshot().counts.panicked, 10_000);
    assert_whole(&search);
}
