//! The end of a runtime: it comes within its grace whatever hangs, and says what is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use watertight::call::Run;
use watertight::outcome::{CallError, CancelledBy, Failure, FailureReason, Status};
use watertight::{PartitionSpec, Runtime};

use crate::support::{HANG, MS, ends, held, occupy, one, until};

/// What a shutdown may take on a machine that is busy with something else, beside its grace.
const SLOW: Duration = Duration::from_secs(20);

fn spec(name: &str) -> PartitionSpec {
    PartitionSpec::new(name).slots(2)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

/// How many threads of this process are named after `partition`.
fn threads_of(partition: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let prefix = format!("{partition}-");
    names.filter(|name| name.starts_with(&prefix)).count()
}

#[test]
#[cfg(target_os = "linux")]
fn no_thread_is_left() {
    let (runtime, search) = one(spec("gone"));
    assert!(search.call(nothing).is_ok());
    until("two workers, timekeeper and ender have their names", || threads_of("gone") == 4);
    assert!(runtime.shutdown(MS).is_clean());
    until("all threads end", || threads_of("gone") == 0);
    assert!(runtime.shutdown(MS).is_clean(), "there is nothing to do");
}

#[test]
#[cfg(target_os = "linux")]
fn a_runtime_that_could_not_be_built_leaves_no_thread() {
    let builder = Runtime::builder().partition(spec("twice"));
    let error = builder.partition(spec("twice")).build().unwrap_err();
    assert!(error.to_string().contains("name"), "{error}");
    until("all threads end", || threads_of("twice") == 0);
}

#[test]
fn what_waits_is_cancelled_and_what_runs_may_go_on() {
    let (runtime, search) = one(spec("search").max_wait(HANG));
    let runtime = Arc::new(runtime);
    let (last, body) = held();
    let running = search.submit(body);
    last.wait_begun();
    let other = occupy(&search);
    let waiting = search.submit(nothing);
    let shutting = Arc::clone(&runtime);
    let shutdown = thread::spawn(move || shutting.shutdown(HANG));
    let outcome = waiting.wait();
    assert_eq!(outcome.status(), Status::Cancelled, "at once: {outcome:?}");
    assert!(!running.is_finished());
    last.release();
    assert!(running.wait().is_ok());
    drop(other);
    assert!(shutdown.join().unwrap().is_clean());
}

#[test]
fn what_still_runs_is_called_off_before_the_end() {
    let (runtime, search) = one(spec("search"));
    let (begins, begun) = bounded(1);
    let ticket = search.submit(move |run| {
        begins.send(()).unwrap();
        assert!(run.cancel_token().wait(HANG));
        Ok(())
    });
    begun.recv_timeout(HANG).unwrap();
    let report = runtime.shutdown(2_000 * MS);
    assert!(report.is_clean(), "{report:?}");
    let Err(CallError::Cancelled { by, .. }) = ticket.wait().result else {
        panic!("it was called off");
    };
    assert_eq!(by, CancelledBy::Shutdown);
}

#[test]
fn every_partition_has_its_moment() {
    let hasty = spec("a").cancel_grace(Duration::ZERO);
    let patient = spec("b").cancel_grace(1_000 * MS);
    let builder = Runtime::builder().partition(hasty).partition(patient);
    let runtime = builder.build().unwrap();
    let hung = occupy(runtime.partition("a").unwrap());
    let (begins, begun) = bounded(1);
    let ends_when_told = runtime.partition("b").unwrap().submit(move |run| {
        begins.send(()).unwrap();
        assert!(run.cancel_token().wait(HANG));
        Ok(())
    });
    begun.recv_timeout(HANG).unwrap();
    let report = runtime.shutdown(4_000 * MS);
    let left: Vec<_> = report.left.iter().map(|left| &*left.partition).collect();
    assert_eq!(left, ["a"], "b was called off in time to end");
    assert_eq!(ends_when_told.wait().status(), Status::Cancelled);
    hung.release();
}

#[test]
fn what_hangs_is_reported_in_time() {
    let builder = Runtime::builder().partition(spec("a")).partition(spec("b"));
    let runtime = builder.build().unwrap();
    let hung: Vec<_> = runtime.partitions().map(occupy).collect();
    let permit = runtime.partition("a").unwrap().permit().unwrap();
    for (grace, least) in [(Duration::ZERO, Duration::ZERO), (300 * MS, 300 * MS)] {
        let from = Instant::now();
        let report = runtime.shutdown(grace);
        let took = from.elapsed();
        assert!((least..grace + SLOW).contains(&took), "{took:?}");
        let left: Vec<_> = report.left.iter().map(|left| &*left.partition).collect();
        assert_eq!(left, ["a", "a", "b"]);
        let overdue = report.left.iter().filter(|left| left.call.overdue);
        assert_eq!(overdue.count(), 2, "nobody answers for a permit");
    }
    drop(hung);
    drop(permit);
    until("everything has ended", || runtime.shutdown(MS).is_clean());
}

#[test]
fn from_inside_a_worker_of_its_own() {
    let (runtime, search) = one(spec("search"));
    let runtime = Arc::new(runtime);
    let inside = Arc::clone(&runtime);
    let outcome = ends("a shutdown from inside", move || {
        search.call(move |_| Ok(inside.shutdown(100 * MS).left.len()))
    });
    assert_eq!(outcome.status(), Status::Cancelled, "it shut itself down");
    until("it ends all the same", || runtime.shutdown(MS).is_clean());
}

#[test]
fn dropped_inside_a_worker_of_its_own() {
    let (runtime, search) = one(spec("search"));
    let outcome = ends("a drop from inside", move || {
        let inner = search.clone();
        let ticket = search.submit(move |_| {
            drop(runtime);
            Ok(inner.call(nothing).status())
        });
        drop(search);
        ticket.wait()
    });
    assert_eq!(outcome.status(), Status::Cancelled);
}

#[test]
fn dropping_it_answers_everybody() {
    let (runtime, search) = one(spec("search").max_wait(HANG));
    let held = [occupy(&search), occupy(&search)];
    let waiting = search.submit(nothing);
    let from = Instant::now();
    drop(runtime);
    assert!(from.elapsed() < SLOW, "{:?}", from.elapsed());
    assert_eq!(waiting.wait().status(), Status::Cancelled);
    let Err(CallError::Failed(failure)) = search.call(nothing).result else {
        panic!("it is closed");
    };
    assert_eq!(failure.reason, FailureReason::Closed);
    drop(held);
}

#[test]
fn twice_at_once_and_with_submits() {
    for _ in 0..50 {
        let (runtime, search) = one(spec("search").max_wait(HANG));
        let at_once = Barrier::new(5);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    at_once.wait();
                    runtime.shutdown(20 * MS);
                    stop.store(true, Ordering::SeqCst);
                });
            }
            for _ in 0..3 {
                scope.spawn(|| {
                    at_once.wait();
                    while !stop.load(Ordering::SeqCst) {
                        let turn: Vec<_> = (0..4).map(|_| search.submit(nothing)).collect();
                        for ticket in turn {
                            let outcome = ticket.wait_timeout(HANG).expect("nobody hangs");
                            assert_ended(outcome.status());
                        }
                    }
                });
            }
        });
        assert!(runtime.shutdown(HANG).is_clean());
    }
}

#[test]
fn a_start_just_before_the_close_is_neither_lost_nor_leaked() {
    for _ in 0..300 {
        let (runtime, search) = one(spec("search"));
        let at_once = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    at_once.wait();
                    let ticket = search.submit(nothing);
                    let outcome = ticket.wait_timeout(HANG).expect("it is answered");
                    assert_ended(outcome.status());
                });
            }
            at_once.wait();
            runtime.shutdown(Duration::ZERO);
        });
        until("no slot is held", || runtime.shutdown(MS).is_clean());
    }
}

#[track_caller]
fn assert_ended(status: Status) {
    let known = [Status::Ok, Status::Cancelled, Status::Failed, Status::Busy];
    assert!(known.contains(&status), "{status:?}");
}

#[test]
fn nothing_is_kept_alive_by_it() {
    let (runtime, search) = one(spec("search"));
    let mine = Arc::new(());
    let (kept, weak): (_, Weak<()>) = (Arc::clone(&mine), Arc::downgrade(&mine));
    let ticket = search.submit(move |_| Ok(kept));
    until("it is finished", || ticket.is_finished());
    drop((mine, ticket));
    assert_eq!(weak.strong_count(), 0);
    drop(runtime);
}
