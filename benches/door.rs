//! What the door costs: a no-op call of a partition with everything switched on (deadline, throttling,
//! rate, breaker, retries and their budget, a key) against the same call with everything off. `cargo bench --bench door --no-default-features`

#![allow(clippy::print_stdout, reason = "its figures are its product")]

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use support::compare;
use watertight::call::{Run, Terms};
use watertight::resilience::breaker;
use watertight::resilience::deadline::MinRun;
use watertight::resilience::retry::Policy;
use watertight::{Partition, PartitionSpec, Runtime};

const CALLS: u32 = 20_000;
const BLOCKS: usize = 25;

fn main() {
    let spec = |name: &'static str| PartitionSpec::new(name).slots(4);
    let slow_calls_too =
        breaker::Policy { slow_call: Duration::from_secs(1), ..breaker::Policy::default() };
    let everything = spec("on")
        .breaker(slow_calls_too)
        .rate("1000000/s".parse().expect("a rate"))
        .burst(u32::MAX)
        .min_run(MinRun::Auto);
    let runtime = Runtime::builder()
        .partition(spec("off"))
        .partition(everything)
        .build()
        .expect("eight threads");
    let off = runtime.partition("off").expect("it was just built");
    let on = runtime.partition("on").expect("it was just built");
    let calls = compare(BLOCKS, || call(off), || retriable_call(on));
    println!("per call: off {:.0} ns, on {:.0} ns", call(off), retriable_call(on));
    println!("per permit: off {:.0} ns, on {:.0} ns", permit(off), permit(on));
    assert!(calls.report("call with everything on / off", 1.25), "the bound is broken");
}

fn call(partition: &Partition) -> f64 {
    let terms = Terms::new().deadline(Duration::from_secs(60));
    per_call(|n| {
        let outcome = partition.call_with(terms.clone(), move |_run| Ok(n));
        assert!(black_box(outcome).is_ok());
    })
}

fn retriable_call(partition: &Partition) -> f64 {
    let terms = Terms::new().deadline(Duration::from_secs(60)).idempotency_key("key");
    per_call(|n| {
        let body = move |_run: &Run| Ok(n);
        let outcome = partition.call_with_retry(terms.clone(), Policy::default(), body);
        assert!(black_box(outcome).is_ok());
    })
}

fn permit(partition: &Partition) -> f64 {
    per_call(|_| drop(black_box(partition.permit().expect("a slot is free"))))
}

/// Nanoseconds.
fn per_call(mut call: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
