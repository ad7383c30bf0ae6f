//! The machines at the door against naive models: every short history, and long random ones.

mod breaker;
mod breaker_faults;
mod breaker_model;
mod budget;
mod deadline;
mod knobs;
mod rate;
mod retry;
mod throttle;

use std::time::Duration;

use proptest::test_runner::Config as ProptestConfig;
use watertight::resilience::breaker::Breaker;
use watertight::resilience::budget::Budget;
use watertight::resilience::deadline::Deadline;
use watertight::resilience::rate::RateLimit;
use watertight::resilience::throttle::Throttle;
use watertight::time::Time;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// The number of the tenth of `span` that `time` lies in, as sliding windows forget by tenths.
fn tenth(time: Time, span: Duration) -> u128 {
    (time - Time::ZERO).as_nanos() / (span.as_nanos() / 10)
}

/// 256 histories, or as many as `PROPTEST_CASES` says.
fn random_histories() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// Runs `visit` on every sequence of at most `depth` steps from `world`: `visit` makes a step in a
/// copy of the world and returns it, or nothing if the step makes no sense there.
fn explore<W, S: Copy>(
    world: &W,
    steps: &[S],
    depth: u32,
    visit: &impl Fn(&W, S) -> Option<W>,
) -> u64 {
    if depth == 0 {
        return 1;
    }
    let next = steps.iter().filter_map(|step| visit(world, *step));
    next.map(|world| explore(&world, steps, depth - 1, visit)).sum()
}

/// What has nothing to drop owns no heap, so its memory is what its size says, for ever.
#[test]
fn machines_own_no_heap_and_are_small() {
    fn check<T>(size_max: usize) {
        assert!(!std::mem::needs_drop::<T>(), "{}", std::any::type_name::<T>());
        let size = size_of::<T>();
        assert!(size <= size_max, "{}: {size} bytes", std::any::type_name::<T>());
    }
    check::<Breaker>(600);
    check::<Budget>(400);
    check::<Deadline>(1700);
    check::<RateLimit>(100);
    check::<Throttle>(100);
}
