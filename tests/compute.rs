//! The compute driver: results, ends, what is refused, and what becomes of its threads.
#![cfg(all(feature = "compute", target_os = "linux"))]

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use watertight::call::{CancelToken, Run};
use watertight::driver::args::{ArgSpec, ArgType};
use watertight::driver::compute::{Compute, Pool, THREADS_MAX};
use watertight::outcome::{CallError, Executed, Failure, FailureReason, Status};
use watertight::{PartitionSpec, Runtime, ToolCall};

const AMPLE: Duration = Duration::from_secs(60);

/// A pool of two threads, named after its partition.
fn pool(partition: &str) -> Pool {
    let sizing = PartitionSpec::new(partition).slots(2).sizing();
    Compute::new().open(&sizing).expect("two threads")
}

fn run() -> Run {
    Run::detached(AMPLE, CancelToken::new())
}

#[test]
fn chunks_are_computed_on_the_pool_and_their_results_are_in_order() {
    let numbers: Vec<u64> = (0..1000).collect();
    let sums = pool("sums").run(&run(), |work| {
        work.par_chunks(&numbers, 300, |chunk| {
            let name = std::thread::current().name().map(str::to_owned);
            (name.expect("named"), chunk.len(), chunk[0])
        })
    });
    let sums = sums.expect("nothing ends it");
    assert!(sums.iter().all(|(name, ..)| name.starts_with("sums-cpu-")));
    let shapes: Vec<_> = sums.iter().map(|(_, len, first)| (*len, *first)).collect();
    assert_eq!(shapes, [(300, 0), (300, 300), (300, 600), (100, 900)]);
}

#[test]
fn chunks_may_be_changed() {
    let mut numbers = [1, 2, 3, 4, 5];
    let double = |chunk: &mut [i32]| chunk.iter_mut().for_each(|n| *n *= 2);
    let done = pool("sums").run(&run(), |work| work.par_chunks_mut(&mut numbers, 2, double));
    assert_eq!(done.expect("nothing ends it").len(), 3);
    assert_eq!(numbers, [2, 4, 6, 8, 10]);
}

#[test]
fn no_chunk_begins_after_a_cancel_or_the_limit() {
    let pool = pool("sums");
    let token = CancelToken::new();
    let cancelled = Run::detached(AMPLE, token.clone());
    let late = Run::detached(Duration::from_millis(50), CancelToken::new());
    for (run, reason) in [(cancelled, FailureReason::Cancelled), (late, FailureReason::Limit)] {
        let started = Instant::now();
        let failure = pool.run(&run, |work| {
            token.cancel();
            let blocked = CancelToken::new();
            work.par_chunks(&[0; 1_000_000], 1, |_| blocked.wait(Duration::from_millis(1)))
        });
        let failure = failure.expect_err("a thousand seconds of work");
        assert_eq!((failure.reason, failure.executed), (reason, Executed::Unknown));
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_call_that_is_over_does_not_begin() {
    let token = CancelToken::new();
    token.cancel();
    for (run, reason) in [
        (Run::detached(AMPLE, token), FailureReason::Cancelled),
        (Run::detached(Duration::ZERO, CancelToken::new()), FailureReason::Limit),
    ] {
        let result: Result<(), Failure> = pool("sums").run(&run, |_| panic!("it ran"));
        let failure = result.expect_err("it is over");
        assert_eq!((failure.reason, failure.executed), (reason, Executed::No));
    }
}

#[test]
fn another_partitions_pool_is_refused_and_its_own_is_not() {
    let (sums, products) = (pool("sums"), pool("products"));
    let nested = sums.run(&run(), |work| products.run(work.run(), |_| Ok(())));
    let failure = nested.expect_err("refused");
    assert_eq!((failure.reason, failure.executed), (FailureReason::Error, Executed::No));
    assert!(failure.message.contains("`products`"), "{}", failure.message);
    let own = sums.run(&run(), |work| sums.run(work.run(), |_| Ok(7)));
    assert_eq!(own.expect("its own"), 7);
}

#[test]
fn arguments_are_checked_and_a_panic_is_an_outcome() {
    let spec = PartitionSpec::new("sums").slots(2);
    let pool = Compute::new().threads(1).open(&spec.sizing()).expect("a thread");
    let n = ArgSpec { name: "n".to_owned(), kind: ArgType::Integer, default: Some(json!(7)) };
    let tool = pool.tool([n], |args, _| {
        assert_ne!(args["n"], 0, "not zero");
        // Left behind, and nobody waits for it.
        rayon::spawn(|| panic!("alone"));
        Ok(args["n"].clone())
    });
    let runtime = Runtime::builder().partition(spec).tool("n", "sums", tool).build();
    let runtime = runtime.expect("threads");
    let wrong = runtime.call(ToolCall::new("n").arg("n", "x"));
    assert!(
        matches!(&wrong.result, Err(CallError::Failed(f)) if f.reason == FailureReason::InvalidCall)
    );
    let panicked = runtime.call(ToolCall::new("n").arg("n", 0));
    assert_eq!(panicked.status(), Status::Panicked);
    for _ in 0..3 {
        assert_eq!(runtime.call(ToolCall::new("n")).ok(), Some(json!(7)));
    }
}

#[test]
fn the_threads_end_with_the_pool() {
    let named = |name: &str| {
        let tasks = std::fs::read_dir("/proc/self/task").expect("mounted").flatten();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
            .filter(|comm| comm.starts_with(name))
            .count()
    };
    let pool = pool("brief");
    pool.run(&run(), |_| Ok(())).expect("nothing ends it");
    assert_eq!(named("brief-cpu"), 2);
    drop(pool);
    assert_eq!(named("brief-cpu"), 0);
}

#[test]
fn the_last_clone_may_go_on_a_thread_of_the_pool() {
    let pool = pool("sums");
    let last = pool.clone();
    let (told, tell) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    pool.run(&run(), |_| {
        rayon::spawn(move || {
            let _ = gone.recv();
            drop(last);
            let _ = told.send(());
        });
        Ok(())
    })
    .expect("nothing ends it");
    drop(pool);
    drop(go);
    tell.recv_timeout(AMPLE).expect("the drop does not hang");
}

#[test]
fn the_number_of_threads_is_checked() {
    let sizing = PartitionSpec::new("sums").sizing();
    for threads in [0, THREADS_MAX + 1] {
        let error = Compute::new().threads(threads).open(&sizing).unwrap_err();
        assert!(error.contains("`threads`") && error.contains("1 to 1024"), "{error}");
    }
}

#[test]
fn a_chunk_that_does_not_look_is_overdue_until_it_ends() {
    let spec = PartitionSpec::new("sums").slots(1).run_limit(Duration::from_millis(50));
    let pool = Compute::new().threads(1).open(&spec.sizing()).expect("a thread");
    let released = CancelToken::new();
    let wait = released.clone();
    let deaf = pool.tool([], move |_, work| {
        work.par_chunks(&[0], 1, |_| wait.wait(AMPLE))?;
        Ok(json!(null))
    });
    let runtime = Runtime::builder().partition(spec).tool("deaf", "sums", deaf).build();
    let runtime = runtime.expect("threads");
    let called = Instant::now();
    assert_eq!(runtime.call(ToolCall::new("deaf")).status(), Status::Timeout);
    assert!(called.elapsed() < AMPLE / 2, "its caller does not wait for it");
    let gauges = || runtime.partition("sums").expect("it was built").snapshot().gauges;
    assert_eq!((gauges().overdue, gauges().free), (1, 0));
    released.cancel();
    let since = Instant::now();
    while gauges().free == 0 {
        assert!(since.elapsed() < AMPLE, "its slot is not free");
        std::thread::yield_now();
    }
}
