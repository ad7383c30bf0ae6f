//! Calls that are attempted again: their sleep against clock, cancel, drop and close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shuttle::thread;
use watertight::Partition;
use watertight::call::{Run, Terms};
use watertight::outcome::{Failure, FailureReason, Status};
use watertight::resilience::retry::Policy;

use crate::explore::{Latch, MS, assert_adds_up, assert_ends, assert_whole, explore, narrow, one};

/// One retry, at once.
fn once_more() -> Policy {
    Policy { attempts: 2, backoff: Duration::ZERO, idempotent: true, ..Policy::default() }
}

/// Something of the user's that lives as long as the body.
struct Mine(Partition, Arc<AtomicU32>);

impl Drop for Mine {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        let thread = thread::current().name().unwrap_or_default().to_owned();
        assert_ne!(thread, "search-time", "it may block");
        if thread == "search-0" {
            let g = self.0.snapshot().gauges;
            assert!(g.running + g.overdue > 0, "its slot is not free yet");
        }
    }
}

/// Fails once; counts its runs and its drops.
struct Counted {
    runs: Arc<AtomicU32>,
    drops: Arc<AtomicU32>,
}

fn fails_once(
    partition: &Partition,
) -> (Counted, impl FnMut(&Run) -> Result<(), Failure> + Send + 'static) {
    let (runs, drops) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let (ran, mine) = (Arc::clone(&runs), Mine(partition.clone(), Arc::clone(&drops)));
    let body = move |_: &Run| {
        let _mine = &mine;
        match ran.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Failure::new(FailureReason::Connect, "not yet")),
            _ => Ok(()),
        }
    };
    (Counted { runs, drops }, body)
}

#[test]
fn a_retry_against_a_cancel() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow());
        let (counted, body) = fails_once(&search);
        let ticket = search.submit_with_retry(Terms::new(), once_more(), body);
        let looks = search.clone();
        let watch = thread::spawn(move || assert_adds_up(&looks.snapshot()));
        ticket.cancel();
        let outcome = ticket.wait();
        let seen = (outcome.status(), outcome.earlier.len());
        assert!([(Status::Ok, 1), (Status::Cancelled, 0), (Status::Cancelled, 1)].contains(&seen));
        watch.join().unwrap();
        assert_whole(&runtime, &search);
        assert!(counted.runs.load(Ordering::SeqCst) <= 2);
        assert_eq!(counted.drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_retry_against_a_dropped_ticket() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow());
        let (counted, body) = fails_once(&search);
        let ticket = search.submit_with_retry(Terms::new(), once_more(), body);
        let drop = thread::spawn(move || drop(ticket));
        assert_whole(&runtime, &search);
        drop.join().unwrap();
        assert_eq!(counted.drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_detached_retry_against_the_close() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow());
        let (counted, body) = fails_once(&search);
        search.submit_with_retry(Terms::new(), once_more(), body).detach();
        assert_ends(&runtime);
        assert_eq!(search.snapshot().asleep, 0);
        assert_eq!(counted.drops.load(Ordering::SeqCst), 1);
    });
}

/// It is woken though nobody but the timekeeper looks, and finds the slot or does not.
#[test]
fn a_sleeper_against_the_clock_and_the_end_of_what_it_waits_for() {
    explore(|| {
        let (runtime, search, hand) = one(narrow().max_wait(Duration::ZERO));
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let (_counted, body) = fails_once(&search);
        let mut body = body;
        let policy = Policy { idempotent: false, ..once_more() };
        let ticket =
            search.submit_with_retry(Terms::new(), policy, move |run| body(run).or(Ok(())));
        assert_eq!(search.snapshot().asleep, 1);
        let clock = thread::spawn(move || hand.advance(60_000 * MS));
        latch.open();
        let outcome = ticket.wait();
        assert_eq!(outcome.earlier.len(), 1);
        assert!([Status::Ok, Status::Busy].contains(&outcome.status()));
        clock.join().unwrap();
        assert_ends(&runtime);
        assert_adds_up(&search.snapshot());
    });
}
