//! Calls from inside: into a partition that is full because of them, they would wait for
//! themselves.

use std::time::Duration;

use watertight::call::Run;
use watertight::outcome::{BusyReason, CallError, Failure, Outcome};
use watertight::{Partition, PartitionSpec, Runtime};

use crate::support::{MS, ends, occupy, one};

/// Long enough that a call which waits when it must not is noticed.
const LONG: Duration = Duration::from_secs(600);

fn spec(name: &str, slots: u32) -> PartitionSpec {
    PartitionSpec::new(name).slots(slots).max_wait(LONG)
}

fn two() -> (Runtime, Partition, Partition) {
    let builder = Runtime::builder().partition(spec("a", 1)).partition(spec("b", 1));
    let runtime = builder.build().unwrap();
    let (a, b) = (runtime.partition("a"), runtime.partition("b"));
    let (a, b) = (a.unwrap().clone(), b.unwrap().clone());
    (runtime, a, b)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

fn is_reentrant<T>(outcome: &Outcome<T>) -> bool {
    let reentrant = CallError::Busy { reason: BusyReason::Reentrant, retry_after: None };
    let said = outcome.result.as_ref().err().map(|e| format!("{e:?}"));
    said == Some(format!("{reentrant:?}"))
}

#[test]
fn a_call_into_its_own_full_partition() {
    let (_runtime, a) = one(spec("a", 1));
    let inner = a.clone();
    let outcome = ends("a self-call", move || {
        a.call(move |_| Ok((inner.call(nothing), inner.permit().unwrap_err())))
    });
    let (called, refused) = outcome.ok().unwrap();
    assert!(is_reentrant(&called), "{called:?}");
    assert!(is_reentrant(&refused), "{refused:?}");
}

#[test]
fn a_call_into_its_own_partition_with_a_slot_to_spare() {
    let (_runtime, a) = one(spec("a", 2));
    let inner = a.clone();
    let outcome = a.call(move |_| Ok(inner.call(nothing).is_ok()));
    assert_eq!(outcome.ok(), Some(true));
}

#[test]
fn there_and_back_again() {
    let (_runtime, a, b) = two();
    let outcome = ends("a call from a through b to a", move || {
        let (via, back) = (b, a.clone());
        a.call(move |_| Ok(via.call(move |_| Ok(back.call(nothing)))))
    });
    let back = outcome.ok().unwrap().ok().unwrap();
    assert!(is_reentrant(&back), "{back:?}");
}

#[test]
fn from_under_a_permit() {
    let (_runtime, a, b) = two();
    ends("calls from under a permit", move || {
        let permit = a.permit().unwrap();
        assert!(is_reentrant(&a.call(nothing)));
        assert!(is_reentrant(&a.permit().unwrap_err()));
        let back = a.clone();
        let back = b.call(move |_| Ok(back.call(nothing))).ok().unwrap();
        assert!(is_reentrant(&back), "{back:?}");
        permit.release();
        assert!(a.call(nothing).is_ok());
    });
}

#[test]
fn permits_released_out_of_order() {
    let (_runtime, a, b) = two();
    let first = a.permit().unwrap();
    let second = b.permit().unwrap();
    first.release();
    let held = occupy(&a);
    let waits = a.submit(nothing);
    assert!(!waits.is_finished(), "this thread is out of a: it waits");
    assert!(is_reentrant(&b.call(nothing)), "and still inside b");
    second.release();
    assert!(b.call(nothing).is_ok());
    held.release();
    assert!(waits.wait().is_ok());
}

#[test]
fn a_permit_that_outlives_its_call_takes_nothing_else_with_it() {
    use std::cell::RefCell;

    thread_local! {
        static KEPT: RefCell<Option<watertight::Permit>> = const { RefCell::new(None) };
    }
    let (_runtime, a, b) = two();
    let spare = one(spec("c", 2));
    let c = spare.1.clone();
    let keep = c.clone();
    // From inside `a`, a body in `c` keeps a permit of `c` on its worker's thread.
    let outcome = a.call(move |_| {
        let kept = keep.clone();
        Ok(keep.call(move |_| {
            KEPT.set(Some(kept.permit().unwrap()));
            Ok(())
        }))
    });
    assert!(outcome.ok().unwrap().is_ok());
    // A later body on that thread is not inside `a` any more: into a full `a`, it waits.
    let held = occupy(&a);
    let other = a.clone();
    let waited = c.call(move |_| {
        let ticket = other.submit(nothing);
        let waits = !ticket.is_finished();
        KEPT.set(None);
        Ok(waits)
    });
    held.release();
    assert_eq!(waited.ok(), Some(true));
    drop(b);
}

#[test]
fn a_permit_dropped_at_the_end_of_its_thread() {
    use std::cell::RefCell;

    thread_local! {
        static KEPT: RefCell<Option<watertight::Permit>> = const { RefCell::new(None) };
    }
    let (_runtime, a) = one(spec("a", 1));
    let mine = a.clone();
    let ended = std::thread::spawn(move || {
        // Registered before anything of the crate's on this thread, so destroyed after it.
        KEPT.set(None);
        KEPT.set(Some(mine.permit().unwrap()));
    });
    ended.join().unwrap();
    assert!(a.call(nothing).is_ok(), "the slot came back");
}

#[test]
fn calls_that_wait_for_each_others_partitions_end() {
    let quick = |name| PartitionSpec::new(name).slots(1).max_wait(20 * MS);
    let builder = Runtime::builder().partition(quick("a")).partition(quick("b"));
    let runtime = builder.build().unwrap();
    let (a, b) = (runtime.partition("a").unwrap().clone(), runtime.partition("b").unwrap().clone());
    ends("two calls that want each other's slots", move || {
        let both = std::sync::Arc::new(std::sync::Barrier::new(2));
        let cross = |from: &Partition, to: &Partition| {
            let (to, both) = (to.clone(), both.clone());
            from.submit(move |_| {
                both.wait();
                let outcome = to.call(nothing);
                both.wait();
                Ok(outcome)
            })
        };
        let (one, other) = (cross(&a, &b), cross(&b, &a));
        for outcome in [one.wait(), other.wait()] {
            let inner = outcome.ok().unwrap();
            assert!(matches!(
                inner.result,
                Err(CallError::Busy { reason: BusyReason::SlotsFull, .. })
            ));
        }
    });
}
