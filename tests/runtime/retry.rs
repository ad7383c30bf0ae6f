//! Calls that are attempted again: when, how often, and what holds meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use watertight::call::{Run, Terms};
use watertight::outcome::{CallError, Executed, Failure, FailureReason, Status};
use watertight::resilience::breaker::{self, Window};
use watertight::resilience::budget;
use watertight::resilience::retry::{Kinds, Policy};
use watertight::{Partition, PartitionSpec, Turn};

use crate::support::{
    HANG, MS, assert_adds_up, assert_whole, ends, held, occupy, one, one_on_manual_clock, until,
};

const SECOND: Duration = Duration::from_secs(1);

fn spec() -> PartitionSpec {
    PartitionSpec::new("search").slots(1).max_wait(Duration::ZERO).run_limit(5 * SECOND)
}

/// No wait but what is asked for.
fn at_once() -> Policy {
    Policy { backoff: Duration::ZERO, ..Policy::default() }
}

/// Some of its wait is drawn, from up to a second.
fn later() -> Policy {
    Policy { backoff: SECOND, ..Policy::default() }
}

fn refused() -> Failure {
    Failure::new(FailureReason::Connect, "connection refused").executed(Executed::No)
}

fn lost() -> Failure {
    Failure::new(FailureReason::Connect, "connection lost").executed(Executed::Unknown)
}

/// Fails with `failure` so many `times`, then brings the number of runs.
fn fails(times: u32, failure: Failure) -> impl FnMut(&Run) -> Result<u32, Failure> + Send {
    let mut runs = 0;
    move |_| {
        runs += 1;
        if runs > times { Ok(runs) } else { Err(failure.clone()) }
    }
}

fn asleep(partition: &Partition) -> usize {
    partition.snapshot().asleep
}

#[test]
fn a_call_is_attempted_until_it_goes_well_and_says_so() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    let outcome = search.call_with_retry(Terms::new(), at_once(), fails(2, refused()));
    assert_eq!(outcome.attempt, 3);
    let seen: Vec<_> = outcome.earlier.iter().map(|a| (a.status, a.reason, a.executed)).collect();
    assert_eq!(seen, [(Status::Failed, "connect", Executed::No); 2]);
    assert_eq!(outcome.ok(), Some(3));
    let snapshot = search.snapshot();
    assert_eq!((snapshot.offered, snapshot.counts.failed, snapshot.counts.ok), (3, 2, 1));
    assert_eq!((snapshot.retries, snapshot.asleep), (2, 0));
    assert_adds_up(&snapshot);
}

#[test]
fn the_last_of_all_attempts_is_the_outcome() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    let terms = Terms::new().attempt(4);
    let outcome = search.call_with_retry(terms, at_once(), fails(9, refused()));
    assert_eq!((outcome.status(), outcome.earlier.len()), (Status::Failed, 2));
    assert_eq!(outcome.attempt, 6, "three, after the caller's own three");
    assert!(outcome.detail().unwrap().ends_with("It had been attempted 2 times before."));
    assert_eq!(search.snapshot().offered, 3);
}

#[test]
fn a_busy_call_comes_back_at_its_hint_to_the_same_ticket() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let running = occupy(&search);
    let ticket = search.submit_with_retry(Terms::new(), at_once(), |run| Ok(run.attempt()));
    assert_eq!(asleep(&search), 1);
    assert!(!ticket.is_finished());
    running.release();
    until("the slot is free", || search.snapshot().gauges.free == 1);
    assert_eq!(asleep(&search), 1, "it is not its time yet");
    hand.advance(5 * SECOND);
    let outcome = ticket.wait();
    assert_eq!(outcome.earlier[0].status, Status::Busy);
    assert!(outcome.earlier[0].backoff > Duration::ZERO);
    assert_eq!(outcome.ok(), Some(2));
}

#[test]
fn a_back_off_holds_no_slot_and_no_other_outcome() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let mut turn = Turn::new();
    turn.submit_with_retry(&search, Terms::new(), later(), fails(1, refused()));
    until("it sleeps", || asleep(&search) == 1);
    let second = turn.submit(&search, Terms::new(), |_| Ok(7));
    let (index, outcome) = turn.next_within(HANG).unwrap();
    assert_eq!((index, outcome.ok()), (second, Some(7)));
    hand.advance(SECOND);
    let (_, outcome) = turn.next_within(HANG).unwrap();
    assert!(outcome.earlier[0].backoff <= SECOND);
    assert_eq!(outcome.ok(), Some(2));
}

#[test]
fn a_detached_call_is_attempted_again_as_well() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let done = Arc::new(AtomicBool::new(false));
    let mut body = fails(1, refused());
    let says = Arc::clone(&done);
    let body = move |run: &Run| body(run).inspect(|_| says.store(true, Ordering::SeqCst));
    search.submit_with_retry(Terms::new(), later(), body).detach();
    until("it sleeps", || asleep(&search) == 1);
    hand.advance(SECOND);
    until("it has run again", || done.load(Ordering::SeqCst));
    assert_whole(&search);
}

#[test]
fn what_may_have_been_executed_is_repeated_only_where_that_does_no_harm() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    let outcome = search.call_with_retry(Terms::new(), at_once(), fails(1, lost()));
    assert_eq!((outcome.executed(), outcome.earlier.len()), (Executed::Unknown, 0));

    let idempotent = Policy { idempotent: true, ..at_once() };
    let outcome = search.call_with_retry(Terms::new(), idempotent, fails(1, lost()));
    assert_eq!(outcome.ok(), Some(2));

    let mut body = fails(1, lost());
    let with_key = move |run: &Run| {
        let _sent = run.idempotency_key();
        body(run)
    };
    assert_eq!(search.call_with_retry(Terms::new(), at_once(), with_key).ok(), Some(2));

    let terms = Terms::new().idempotency_key("mine");
    let outcome = search.call_with_retry(terms, at_once(), fails(1, lost()));
    assert_eq!(outcome.earlier.len(), 0, "no backend has seen the key");
}

#[test]
fn every_attempt_has_the_same_key() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    for own in [None, Some("mine")] {
        let keys = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&keys);
        let body = move |run: &Run| -> Result<(), Failure> {
            seen.lock().unwrap().push(run.idempotency_key().to_owned());
            Err(lost())
        };
        let terms = own.map_or(Terms::new(), |key| Terms::new().idempotency_key(key));
        assert_eq!(search.call_with_retry(terms, at_once(), body).attempt, 3);
        let keys = keys.lock().unwrap();
        assert_eq!(keys.len(), 3);
        assert!(keys.iter().all(|key| *key == keys[0] && own.is_none_or(|own| key == own)));
    }
}

#[test]
fn an_earlier_attempt_that_may_have_run_is_told() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let policy = Policy { idempotent: true, attempts: 2, ..later() };
    let ticket = search.submit_with_retry(Terms::new(), policy, fails(1, lost()));
    until("it sleeps", || asleep(&search) == 1);
    let _running = occupy(&search);
    hand.advance(SECOND);
    let outcome = ticket.wait();
    assert_eq!((outcome.status(), outcome.executed()), (Status::Busy, Executed::Unknown));
    assert!(outcome.detail().unwrap().contains("find out whether it did"));
}

#[test]
fn a_mass_failure_schedules_no_more_than_the_budget() {
    let budget = budget::Policy { ratio: 0.2, floor: 1, window: 10 * SECOND };
    let (_runtime, search, hand) = one_on_manual_clock(spec().retry_budget(budget));
    let running = occupy(&search);
    let calls = 0..100;
    let tickets: Vec<_> =
        calls.map(|_| search.submit_with_retry(Terms::new(), later(), |_| Ok(()))).collect();
    assert_eq!(asleep(&search), 30, "ten, and a fifth of a hundred");
    assert_eq!(tickets.iter().filter(|ticket| ticket.is_finished()).count(), 70);
    running.release();
    until("the slot is free", || search.snapshot().gauges.free == 1);
    hand.advance(60 * SECOND);
    assert_eq!(asleep(&search), 0);
    let retried = tickets.into_iter().map(|ticket| ticket.wait().earlier.len()).sum::<usize>();
    assert!((30..=60).contains(&retried), "{retried}");
    assert_adds_up(&search.snapshot());
}

#[test]
fn only_so_many_sleep_whatever_the_budget() {
    let budget = budget::Policy { floor: 1_000_000, ..budget::Policy::default() };
    let (_runtime, search, _hand) = one_on_manual_clock(spec().retry_budget(budget));
    let _running = occupy(&search);
    let submit = |_| search.submit_with_retry(Terms::new(), later(), |_| Ok(()));
    let tickets: Vec<_> = (0..1_100).map(submit).collect();
    assert_eq!(asleep(&search), 1_024);
    drop(tickets);
    assert_eq!(asleep(&search), 0);
}

#[test]
fn a_back_off_ends_at_a_cancel_and_gives_its_room_back() {
    let budget = budget::Policy { ratio: 0.0, floor: 1, window: SECOND };
    let (_runtime, search, hand) = one_on_manual_clock(spec().retry_budget(budget));
    let running = occupy(&search);
    for _ in 0..3 {
        let ticket = search.submit_with_retry(Terms::new(), later(), |_| Ok(()));
        assert_eq!(asleep(&search), 1, "there is room for one");
        ticket.cancel();
        assert_eq!(asleep(&search), 0);
        let outcome = ticket.wait();
        assert_eq!((outcome.status(), outcome.executed()), (Status::Cancelled, Executed::No));
        assert_eq!(outcome.earlier[0].status, Status::Busy);
        let detail = outcome.detail().unwrap();
        assert!(detail.ends_with("It had been attempted once before."), "{detail}");
        drop(search.submit_with_retry(Terms::new(), later(), |_| Ok(())));
        assert_eq!(asleep(&search), 0, "a dropped ticket is a cancel");
    }
    running.release();
    hand.advance(60 * SECOND);
    assert_adds_up(&search.snapshot());
    assert_whole(&search);
}

#[test]
fn shutdown_ends_every_back_off() {
    let (runtime, search, hand) = one_on_manual_clock(spec());
    let running = occupy(&search);
    let ticket = search.submit_with_retry(Terms::new(), later(), |_| Ok(()));
    assert_eq!(asleep(&search), 1);
    running.release();
    let report = ends("a shutdown", move || runtime.shutdown(HANG));
    assert!(report.is_clean());
    let outcome = ticket.wait();
    assert_eq!(outcome.result.unwrap_err().reason(), "shutdown");
    hand.advance(60 * SECOND);
    let outcome = search.call_with_retry(Terms::new(), at_once(), |_| Ok(()));
    assert_eq!((outcome.status(), outcome.earlier.len()), (Status::Failed, 0), "it is closed");
}

#[test]
fn no_back_off_outlasts_the_deadline() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    let _running = occupy(&search);
    let terms = Terms::new().deadline(MS);
    let outcome = search.call_with_retry(terms, at_once(), |_| Ok(()));
    assert_eq!((outcome.status(), outcome.earlier.len()), (Status::Busy, 0));
}

#[test]
fn a_run_that_does_not_end_is_not_repeated() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().slots(2));
    let policy = Policy { idempotent: true, ..at_once() };
    let runs = Arc::new(AtomicU32::new(0));
    let (first, body) = held();
    let (mut body, counted) = (Some(body), Arc::clone(&runs));
    let ticket = search.submit_with_retry(Terms::new(), policy, move |run| {
        counted.fetch_add(1, Ordering::SeqCst);
        body.take().map_or(Ok(()), |body| body(run))
    });
    first.wait_begun();
    hand.advance(6 * SECOND);
    let outcome = ticket.wait();
    assert_eq!((outcome.status(), outcome.earlier.len()), (Status::Timeout, 0));
    first.release();
    assert_whole(&search);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_is_repeated_if_that_was_chosen() {
    let (_runtime, search) = one(spec());
    let on = Kinds::parse(["panicked"]).unwrap();
    let policy = Policy { on, idempotent: true, ..at_once() };
    let mut runs = 0;
    let outcome = search.call_with_retry(Terms::new(), policy, move |_| {
        runs += 1;
        assert!(runs > 1, "the first run fails");
        Ok(runs)
    });
    assert_eq!(outcome.earlier[0].status, Status::Panicked);
    assert_eq!(outcome.ok(), Some(2));
}

#[test]
fn every_attempt_passes_the_door() {
    let breaker = breaker::Policy {
        window: Window::Count(2),
        minimum_calls: 2,
        failure_rate: 1.0,
        ..breaker::Policy::default()
    };
    let (_runtime, search, _hand) = one_on_manual_clock(spec().breaker(breaker));
    let policy = Policy { attempts: 5, ..at_once() };
    let outcome = search.call_with_retry(Terms::new(), policy, fails(9, refused()));
    assert_eq!((outcome.status(), outcome.earlier.len()), (Status::CircuitOpen, 2));
}

#[test]
fn a_retry_competes_like_a_new_call() {
    let spec = spec().max_wait(30 * SECOND).queue(4);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    let ticket = search.submit_with_retry(Terms::new(), later(), fails(1, refused()));
    until("it sleeps", || asleep(&search) == 1);
    let running = occupy(&search);
    let waiting = search.submit(|_| Ok("first come"));
    hand.advance(SECOND);
    assert_eq!((asleep(&search), search.snapshot().gauges.waiting), (0, 2));
    ticket.cancel();
    assert_eq!(search.snapshot().gauges.waiting, 1, "it is found where it waits now");
    running.release();
    assert!(waiting.wait().is_ok());
    assert_eq!(ticket.wait().status(), Status::Cancelled);
}

#[test]
fn a_policy_that_is_not_allowed_is_a_value() {
    let (_runtime, search) = one(spec());
    let policy = Policy { attempts: 0, ..Policy::default() };
    let outcome = search.call_with_retry(Terms::new(), policy, |_| Ok(()));
    let Err(CallError::Failed(failure)) = outcome.result else { panic!("{outcome:?}") };
    assert_eq!((failure.reason, failure.executed), (FailureReason::InvalidCall, Executed::No));
    assert!(failure.message.starts_with("retry.attempts = 0: must be 1 to 100"), "{failure:?}");
    let budget = budget::Policy { ratio: -1.0, ..budget::Policy::default() };
    let error = spec().retry_budget(budget).check().unwrap_err();
    assert!(error.to_string().contains("ratio = -1"), "{error}");
}

#[test]
fn nobody_sleeps_for_ever_because_a_backend_asks_for_it() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    for asked in [Duration::MAX, 86_400 * SECOND] {
        let body = fails(1, refused().retry_after(asked));
        let ticket = search.submit_with_retry(Terms::new(), at_once(), body);
        let outcome = ticket.wait_timeout(HANG).expect("it does not sleep");
        assert_eq!((outcome.status(), outcome.earlier.len()), (Status::Failed, 0));
        assert_eq!(outcome.retry_after(), Some(asked), "that is for the caller to know");
    }
}

/// Counts its drop, the first of which blocks.
struct Blocks {
    drops: Arc<AtomicUsize>,
    gate: Receiver<()>,
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if self.drops.fetch_add(1, Ordering::SeqCst) == 0 {
            let _ = self.gate.recv();
        }
    }
}

#[test]
fn the_bodies_of_all_that_sleep_are_dropped_though_the_first_takes_its_time() {
    const CALLS: usize = 1_000;
    let budget = budget::Policy { floor: 1_000_000, ..budget::Policy::default() };
    let (runtime, search, _hand) = one_on_manual_clock(spec().retry_budget(budget));
    let running = occupy(&search);
    let drops = Arc::new(AtomicUsize::new(0));
    let (open, gate) = bounded(1);
    for _ in 0..CALLS {
        let mine = Blocks { drops: Arc::clone(&drops), gate: gate.clone() };
        let body = move |_: &Run| {
            let _mine = &mine;
            Ok(())
        };
        search.submit_with_retry(Terms::new(), later(), body).detach();
    }
    assert_eq!(asleep(&search), CALLS);
    running.release();
    runtime.shutdown(SECOND);
    open.send(()).unwrap();
    until("all are dropped", || drops.load(Ordering::SeqCst) == CALLS);
}
