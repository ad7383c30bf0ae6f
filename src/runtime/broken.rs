//! A partition whose accounts do not add up, which cannot be: it closes itself, and nobody else is
//! touched.

use std::time::Duration;

use crossbeam_channel::bounded;

use super::{Partition, PartitionSpec, Runtime};
use crate::call::Run;
use crate::outcome::{CallError, Executed, FailureReason, Outcome};

/// Nothing here takes so long.
const HANG: Duration = Duration::from_secs(60);

fn two() -> (Runtime, Partition, Partition) {
    let spec = |name| PartitionSpec::new(name).slots(1).max_wait(HANG);
    let runtime = Runtime::builder().partition(spec("a")).partition(spec("b"));
    let runtime = runtime.build().expect("two threads");
    let [a, b] = ["a", "b"].map(|name| runtime.partition(name).expect("it was built").clone());
    (runtime, a, b)
}

fn assert_closed<T: std::fmt::Debug>(outcome: &Outcome<T>) {
    let Err(CallError::Failed(failure)) = &outcome.result else {
        panic!("{outcome:?}");
    };
    assert_eq!((failure.reason, failure.executed), (FailureReason::Closed, Executed::No));
}

#[test]
fn a_miscount_closes_its_own_partition_for_good() {
    let (runtime, a, b) = two();
    let (begins, begun) = bounded(1);
    let (release, released) = bounded::<()>(1);
    let runs = a.submit(move |_: &Run| {
        begins.send(()).expect("the test waits");
        Ok(released.recv_timeout(HANG).is_ok())
    });
    begun.recv_timeout(HANG).expect("it runs");
    let waits = a.submit(|_| Ok(()));

    a.shared.gate.with_state(|state| state.scheduler.miscount());
    assert_closed(&a.call(|_| Ok(())));
    assert_closed(&waits.wait());
    let permit = a.permit().expect_err("it is closed");
    assert_closed(&permit);

    release.send(()).expect("the body waits");
    assert_eq!(runs.wait().ok(), Some(true), "what runs has its own answer");
    assert_closed(&a.call(|_| Ok(())));
    assert!(b.call(|_| Ok(())).is_ok(), "its neighbour does not know");
    assert!(runtime.shutdown(HANG).is_clean());
}
