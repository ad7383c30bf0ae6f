//! The door at the ends of its knobs.

use std::time::Duration;

use watertight::PartitionSpec;
use watertight::call::Run;
use watertight::outcome::{Executed, Failure, FailureReason, Status};
use watertight::resilience::breaker::{self, Window};

use crate::support::{held, one_on_manual_clock};

/// A cool-down of zero is over as soon as it begins; who waited is told of the breaker all the same.
#[test]
fn waiters_are_told_of_a_breaker_without_a_cool_down() {
    let policy = breaker::Policy {
        window: Window::Count(4),
        minimum_calls: 1,
        cool_down: Duration::ZERO,
        cool_down_jitter: 0.0,
        ..breaker::Policy::default()
    };
    let spec = PartitionSpec::new("search").slots(1).max_wait(Duration::from_secs(10));
    let (_runtime, search, _hand) = one_on_manual_clock(spec.breaker(policy));
    let (first, body) = held();
    let fails = move |run: &Run| {
        body(run)?;
        let refused = Failure::new(FailureReason::Connect, "connection refused");
        Err::<(), _>(refused.executed(Executed::No))
    };
    let running = search.submit(fails);
    first.wait_begun();
    let waits = search.submit(|_| Ok(()));
    first.release();
    assert_eq!(running.wait().status(), Status::Failed);
    let outcome = waits.wait();
    assert_eq!((outcome.status(), outcome.executed()), (Status::CircuitOpen, Executed::No));
    assert_eq!(outcome.retry_after(), Some(Duration::from_millis(1)));
    assert!(search.call(|_| Ok(())).is_ok(), "the next is the probe");
}
