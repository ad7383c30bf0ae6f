//! What a partition costs: a no-op call against a raw hand-off, and a permit against the locks and
//! clock reads that any permit needs. `cargo bench --bench handoff`

#![allow(clippy::print_stdout, reason = "its figures are its product")]

mod support;

use std::hint::black_box;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};
use parking_lot::Mutex;
use support::compare;
use watertight::{Partition, PartitionSpec, Runtime};

const CALLS: u32 = 20_000;
const BLOCKS: usize = 25;
const WORKERS: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

fn main() {
    let runtime = Runtime::builder()
        .partition(PartitionSpec::new("bench").slots(WORKERS as u32))
        .build()
        .expect("four threads");
    let partition = runtime.partition("bench").expect("it was just built");
    let raw = raw_workers();

    let handoff = compare(BLOCKS, || raw_handoff(&raw), || call(partition));
    let permits = compare(BLOCKS, locks_and_clocks, || permit(partition));
    println!(
        "per call: raw hand-off {:.0} ns, partition {:.0} ns, locks and clocks {:.0} ns, permit \
         {:.0} ns",
        raw_handoff(&raw),
        call(partition),
        locks_and_clocks(),
        permit(partition)
    );
    let calls_hold = handoff.report("call / raw hand-off", 1.6);
    let permits_hold = permits.report("permit / two lock pairs and two clock reads", 2.0);
    assert!(calls_hold && permits_hold, "a bound is broken");
}

/// Four threads on one bounded channel of boxed jobs.
fn raw_workers() -> Sender<Job> {
    let (jobs, inbox) = bounded::<Job>(WORKERS);
    for _ in 0..WORKERS {
        let inbox = inbox.clone();
        std::thread::spawn(move || inbox.iter().for_each(|job| job()));
    }
    jobs
}

/// A boxed job and a fresh reply channel a call.
fn raw_handoff(jobs: &Sender<Job>) -> f64 {
    per_call(|n| {
        let (reply, answer) = bounded(1);
        let job = Box::new(move || {
            let _ = reply.send(n);
        });
        jobs.send(job).expect("the workers run");
        black_box(answer.recv().expect("the worker answers"));
    })
}

fn call(partition: &Partition) -> f64 {
    per_call(|n| {
        black_box(partition.call(move |_run| Ok(n)).is_ok());
    })
}

fn permit(partition: &Partition) -> f64 {
    per_call(|_| drop(black_box(partition.permit().expect("a slot is free"))))
}

fn locks_and_clocks() -> f64 {
    let counter = Mutex::new(0u64);
    let origin = Instant::now();
    per_call(|_| {
        for _ in 0..2 {
            black_box(origin.elapsed());
            *black_box(&counter).lock() += 1;
        }
    })
}

/// Nanoseconds.
fn per_call(mut call: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
