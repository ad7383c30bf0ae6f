//! The door before the slots: who is refused, with what hint, and what is given back.

use std::time::Duration;

use watertight::call::{Run, Terms};
use watertight::outcome::{CallError, Executed, Failure, FailureReason, Outcome, Status};
use watertight::resilience::breaker::{self, State, Window};
use watertight::resilience::deadline::MinRun;
use watertight::{Partition, PartitionSpec, Runtime};

use crate::support::{Held, MS, assert_adds_up, held, occupy, one, one_on_manual_clock, until};

const SECOND: Duration = Duration::from_secs(1);

fn spec() -> PartitionSpec {
    PartitionSpec::new("search").slots(2).max_wait(10 * SECOND).run_limit(5 * SECOND)
}

/// Opens at two failures of four; the cool-down is exactly a second.
fn breaker() -> breaker::Policy {
    breaker::Policy {
        window: Window::Count(4),
        minimum_calls: 2,
        cool_down: SECOND,
        cool_down_jitter: 0.0,
        ..breaker::Policy::default()
    }
}

fn fine(_: &Run) -> Result<(), Failure> {
    Ok(())
}

fn broken(_: &Run) -> Result<(), Failure> {
    Err(Failure::new(FailureReason::Connect, "connection refused").executed(Executed::No))
}

fn asks_for(pause: Option<Duration>) -> impl Fn(&Run) -> Result<(), Failure> + Send + Copy {
    move |_| {
        let failure = Failure::new(FailureReason::Throttled, "too many").executed(Executed::No);
        Err(pause.map_or(failure.clone(), |pause| failure.retry_after(pause)))
    }
}

/// Trips the breaker.
fn trip(partition: &Partition) {
    for _ in 0..4 {
        if state(partition) == State::Closed {
            assert_eq!(partition.call(broken).status(), Status::Failed);
        }
    }
    assert_eq!(state(partition), State::Open);
}

fn state(partition: &Partition) -> State {
    partition.snapshot().breaker.expect("it has a breaker").state
}

/// A call that is called off and does not end.
fn called_off(partition: &Partition) -> Held {
    let (hangs, body) = held();
    let ticket = partition.submit(body);
    hangs.wait_begun();
    drop(ticket);
    hangs
}

#[track_caller]
fn assert_refused<T>(outcome: &Outcome<T>, status: Status, hint: Option<Duration>) {
    let seen = (outcome.status(), outcome.executed(), outcome.retry_after());
    assert_eq!(seen, (status, Executed::No, hint), "{:?}", outcome.result.as_ref().err());
    assert_eq!(outcome.timing.ran, Duration::ZERO);
}

#[test]
fn a_dead_backend_costs_one_probe_per_cool_down_and_no_other_slot() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().breaker(breaker()));
    trip(&search);
    let started = search.snapshot().run.count();
    for _ in 0..100 {
        assert_refused(&search.call(fine), Status::CircuitOpen, Some(SECOND));
    }
    hand.advance(400 * MS);
    assert_refused(&search.call(fine), Status::CircuitOpen, Some(600 * MS));
    assert_eq!(search.snapshot().run.count(), started, "no slot was taken");
    hand.advance(600 * MS);
    assert_eq!(search.call(broken).status(), Status::Failed, "the probe");
    assert_refused(&search.call(fine), Status::CircuitOpen, Some(2 * SECOND));
    hand.advance(2 * SECOND);
    assert!(search.call(fine).is_ok());
    assert_eq!(state(&search), State::Closed);
    assert_adds_up(&search.snapshot());
}

#[test]
fn while_a_probe_runs_the_hint_is_what_is_left_of_its_limit() {
    let (_runtime, search, hand) =
        one_on_manual_clock(spec().breaker(breaker()).max_wait(Duration::ZERO));
    trip(&search);
    hand.advance(SECOND);
    let probe = occupy(&search);
    hand.advance(2 * SECOND);
    let left = 3 * SECOND + search.spec().policy().cancel_grace;
    assert_refused(&search.call(fine), Status::CircuitOpen, Some(left));
    probe.release();
}

#[test]
fn opening_answers_whoever_waits_at_once() {
    let (_runtime, search, _hand) =
        one_on_manual_clock(spec().breaker(breaker()).slots(1).queue(3));
    let (first, body) = held();
    let body = move |run: &Run| body(run).and_then(|()| broken(run));
    let running = search.submit(body);
    first.wait_begun();
    let second = search.submit(broken);
    let waiting: Vec<_> = (0..2).map(|_| search.submit(fine)).collect();
    assert_eq!(search.snapshot().gauges.waiting, 3);
    first.release();
    assert_eq!(running.wait().status(), Status::Failed);
    assert_eq!(second.wait().status(), Status::Failed);
    for ticket in waiting {
        assert_refused(&ticket.wait(), Status::CircuitOpen, Some(SECOND));
    }
    assert_adds_up(&search.snapshot());
}

#[test]
fn a_full_partition_neither_trips_the_breaker_nor_eats_the_probe() {
    let (_runtime, search, hand) =
        one_on_manual_clock(spec().breaker(breaker()).max_wait(Duration::ZERO));
    let [one, two] = [occupy(&search), occupy(&search)];
    for _ in 0..10 {
        assert_eq!(search.call(fine).status(), Status::Busy);
    }
    assert_eq!(state(&search), State::Closed);
    one.release();
    until("a slot is free", || search.snapshot().gauges.free == 1);
    trip(&search);
    // The one free slot goes to a probe that is called off and does not end, so that the next
    // probes find none.
    hand.advance(SECOND);
    let hangs = called_off(&search);
    for _ in 0..10 {
        assert_eq!(search.call(fine).status(), Status::Busy);
        assert_eq!(state(&search), State::HalfOpen);
    }
    two.release();
    until("a slot is free", || search.snapshot().gauges.free == 1);
    assert!(search.call(fine).is_ok(), "the probe");
    assert_eq!(state(&search), State::Closed);
    hangs.release();
}

#[test]
fn a_late_answer_from_before_the_opening_is_not_the_probes() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().breaker(breaker()));
    let late = occupy(&search);
    trip(&search);
    late.release();
    until("the slots are free", || search.snapshot().gauges.free == 2);
    assert_eq!(state(&search), State::Open);
    hand.advance(SECOND);
    assert!(search.call(fine).is_ok(), "the probe");
    assert_eq!(state(&search), State::Closed);
}

#[test]
fn a_probe_that_waits_is_given_back_when_it_is_cancelled_or_gives_up() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().breaker(breaker()));
    let old = occupy(&search);
    trip(&search);
    hand.advance(SECOND);
    let hangs = called_off(&search);

    let probe = search.submit(fine);
    assert!(!probe.is_finished(), "it waits");
    assert_eq!(search.call(fine).status(), Status::CircuitOpen);
    probe.cancel();
    assert_refused(&probe.wait(), Status::Cancelled, None);
    let short = Terms::new().deadline(SECOND);
    let probe = search.submit_with(short, fine);
    assert_eq!(search.call(fine).status(), Status::CircuitOpen);
    hand.advance(SECOND);
    assert_refused(&probe.wait(), Status::Timeout, None);
    let probe = search.submit(fine);
    assert!(!probe.is_finished(), "the next call is the probe, and waits");
    old.release();
    assert!(probe.wait().is_ok());
    assert_eq!(state(&search), State::Closed);
    hangs.release();
}

/// One slot, ten calls of five seconds each, and twelve seconds for all of them.
#[test]
fn a_time_out_in_the_queue_is_no_failed_run() {
    let spec = spec().breaker(breaker()).slots(1).queue(9).max_wait(60 * SECOND);
    let (_runtime, search, hand) = one_on_manual_clock(spec.run_limit(60 * SECOND));
    let terms = || Terms::new().deadline(12 * SECOND);
    let (bodies, mut calls): (Vec<_>, Vec<_>) = (0..10)
        .map(|_| {
            let (held, body) = held();
            (held, search.submit_with(terms(), body))
        })
        .unzip();
    let mut bodies = bodies.into_iter();
    let seconds = |outcome: &Outcome<()>| {
        let (waited, ran) = (outcome.timing.waited, outcome.timing.ran);
        (waited.as_secs(), ran.as_secs())
    };
    for (at, call) in calls.drain(..2).enumerate() {
        let body = bodies.next().unwrap();
        body.wait_begun();
        hand.advance(5 * SECOND);
        body.release();
        let outcome = call.wait();
        assert!(outcome.is_ok());
        assert_eq!(seconds(&outcome), (5 * at as u64, 5));
    }
    let third = bodies.next().unwrap();
    third.wait_begun();
    hand.advance(2 * SECOND);
    for (at, call) in calls.into_iter().enumerate() {
        let outcome = call.wait();
        let (runs, executed) = if at == 0 { (2, Executed::Unknown) } else { (0, Executed::No) };
        assert_eq!((outcome.status(), outcome.executed()), (Status::Timeout, executed));
        assert_eq!(seconds(&outcome), (12 - runs, runs));
        assert_eq!(outcome.result.unwrap_err().reason(), "deadline");
    }
    assert!(bodies.all(|body| !body.has_begun()), "who timed out in the queue never runs");
    let seen = search.snapshot();
    let counts = (seen.counts.ok, seen.counts.failed, seen.counts.total());
    assert_eq!(counts, (2, 0, 10));
    let seen = seen.breaker.unwrap();
    assert_eq!((seen.state, seen.calls, seen.failed), (State::Closed, 3, 1), "three have run");
    third.release();
}

#[test]
fn running_calls_that_time_out_open_it() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().breaker(breaker()));
    let hung = [occupy(&search), occupy(&search)];
    let waits = search.submit(fine);
    hand.advance(5 * SECOND + 100 * MS);
    assert_refused(&waits.wait(), Status::CircuitOpen, Some(SECOND));
    assert_eq!(search.snapshot().gauges.overdue, 2);
    drop(hung);
}

#[test]
fn throttling_shuts_the_door_and_leaves_the_breaker_alone() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().breaker(breaker()));
    for _ in 0..10 {
        let outcome = search.call(asks_for(Some(3 * SECOND)));
        assert_refused_run(&outcome, 3 * SECOND);
        assert_refused(&search.call(fine), Status::Throttled, Some(3 * SECOND));
        hand.advance(2 * SECOND);
        assert_refused(&search.call(fine), Status::Throttled, Some(SECOND));
        hand.advance(SECOND);
    }
    assert_eq!(state(&search), State::Closed);
    assert!(search.call(fine).is_ok());
    assert_adds_up(&search.snapshot());
}

#[track_caller]
fn assert_refused_run<T>(outcome: &Outcome<T>, hint: Duration) {
    assert_eq!((outcome.status(), outcome.retry_after()), (Status::Throttled, Some(hint)));
}

#[test]
fn a_quota_that_is_used_up_shuts_the_door_until_its_reset() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().slots(1).throttle_max(9 * SECOND));
    let some_left = |run: &Run| {
        run.report_quota(1, 8 * SECOND);
        fine(run)
    };
    assert!(search.call(some_left).is_ok() && search.call(fine).is_ok());
    let (last, body) = held();
    let running = search.submit(move |run: &Run| {
        run.report_quota(0, 2 * SECOND);
        run.report_quota(0, 5 * SECOND);
        run.report_quota(0, 3 * SECOND);
        run.report_quota(7, 8 * SECOND);
        body(run)
    });
    last.wait_begun();
    let waits = search.submit(fine);
    hand.advance(SECOND);
    last.release();
    assert!(running.wait().is_ok(), "it was the last one, and it went well");
    assert_refused(&waits.wait(), Status::Throttled, Some(4 * SECOND));
    assert_refused(&search.call(fine), Status::Throttled, Some(4 * SECOND));
    hand.advance(4 * SECOND);
    let fails = |run: &Run| {
        run.report_quota(0, 86_400 * SECOND);
        broken(run)
    };
    assert_eq!(search.call(fails).status(), Status::Failed);
    assert_refused(&search.call(fine), Status::Throttled, Some(9 * SECOND));
    hand.advance(9 * SECOND);
    assert!(search.call(fine).is_ok());
    assert_adds_up(&search.snapshot());
}

#[test]
fn throttling_needs_no_knob_and_is_capped() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().slots(1));
    assert!(search.snapshot().breaker.is_none());
    let (first, body) = held();
    let body = move |run: &Run| body(run).and_then(|()| asks_for(Some(86_400 * SECOND))(run));
    let running = search.submit(body);
    first.wait_begun();
    let waits = search.submit(fine);
    first.release();
    assert_refused_run(&running.wait(), 60 * SECOND);
    assert_refused(&waits.wait(), Status::Throttled, Some(60 * SECOND));
    let permit = search.permit().unwrap_err();
    assert_refused(&permit, Status::Throttled, Some(60 * SECOND));
    hand.advance(60 * SECOND);
    assert_refused_run(&search.call(asks_for(None)), SECOND);
    search.close_breaker();
    assert!(search.call(fine).is_ok());

    let (_runtime, search) = one(spec().throttle_max(Duration::ZERO));
    assert_refused_run(&search.call(asks_for(Some(SECOND))), MS);
    assert!(search.call(fine).is_ok(), "never left alone");
}

/// It came too late for its caller, and all the same the backend asks for a pause.
#[test]
fn a_call_that_was_answered_for_shuts_the_door_when_it_is_throttled() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().slots(1).breaker(breaker()));
    let (hangs, body) = held();
    let body = move |run: &Run| body(run).and_then(|()| asks_for(Some(3 * SECOND))(run));
    let overdue = search.submit(body);
    hangs.wait_begun();
    hand.advance(5 * SECOND + 100 * MS);
    assert_eq!(overdue.wait().status(), Status::Timeout);
    let waits = search.submit(fine);
    assert!(!waits.is_finished(), "the door is open");
    hangs.release();
    assert_refused(&waits.wait(), Status::Throttled, Some(3 * SECOND));
    until("the slot is free", || search.snapshot().gauges.free == 1);
    assert_refused(&search.call(fine), Status::Throttled, Some(3 * SECOND));
    let seen = search.snapshot().breaker.unwrap();
    assert_eq!((seen.calls, seen.failed), (1, 1), "it is judged once, by its time-out");
    hand.advance(3 * SECOND);
    assert!(search.call(fine).is_ok());
    assert_adds_up(&search.snapshot());
}

#[test]
fn calls_beyond_the_rate_are_told_when_and_those_without_a_slot_cost_nothing() {
    let spec = spec().max_wait(Duration::ZERO).rate("10/s".parse().unwrap()).burst(3);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    let slots = [occupy(&search), occupy(&search)];
    for _ in 0..20 {
        assert_eq!(search.call(fine).status(), Status::Busy);
    }
    slots.into_iter().for_each(Held::release);
    until("the slots are free", || search.snapshot().gauges.free == 2);
    assert!(search.call(fine).is_ok(), "the third of the burst");
    let refused = search.call(fine);
    assert_refused(&refused, Status::Throttled, Some(100 * MS));
    assert_eq!(refused.result.unwrap_err().reason(), "rate");
    hand.advance(100 * MS);
    assert!(search.permit().is_ok());
    assert_refused(&search.permit().unwrap_err(), Status::Throttled, Some(100 * MS));
}

#[test]
fn an_open_breaker_takes_no_cell_of_the_rate() {
    let spec = spec().breaker(breaker()).rate("1/min".parse().unwrap()).burst(3);
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    trip(&search);
    for _ in 0..5 {
        assert_eq!(search.call(fine).status(), Status::CircuitOpen);
    }
    hand.advance(SECOND);
    assert!(search.call(fine).is_ok(), "the third of the burst, as the probe");
}

#[test]
fn the_wait_never_eats_what_the_run_needs() {
    let spec = spec().slots(1).min_run(MinRun::Fixed(2 * SECOND));
    let (_runtime, search, hand) = one_on_manual_clock(spec);
    let short = search.call_with(Terms::new().deadline(1999 * MS), fine);
    assert_refused(&short, Status::Timeout, None);
    assert_eq!(short.result.unwrap_err().reason(), "deadline");
    assert!(search.call_with(Terms::new().deadline(2 * SECOND), fine).is_ok());

    let slot = occupy(&search);
    let waits = search.submit_with(Terms::new().deadline(3 * SECOND), fine);
    hand.advance(999 * MS);
    assert!(!waits.is_finished());
    hand.advance(MS);
    let outcome = waits.wait();
    assert_eq!((outcome.status(), outcome.timing.waited), (Status::Busy, SECOND));
    slot.release();
    assert_adds_up(&search.snapshot());
}

#[test]
fn what_a_useful_run_is_can_be_learnt() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().min_run(MinRun::Auto));
    for _ in 0..8 {
        let ends = occupy(&search);
        hand.advance(SECOND);
        ends.release();
        until("the slots are free", || search.snapshot().gauges.free == 2);
    }
    let short = || search.call_with(Terms::new().deadline(900 * MS), fine);
    let refused = (0..20).filter(|_| short().status() == Status::Timeout).count();
    assert_eq!(refused, 19, "one in twenty goes on");
}

#[test]
fn an_exception_that_comes_to_no_run_is_given_back() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().min_run(MinRun::Auto));
    for _ in 0..8 {
        let ends = occupy(&search);
        hand.advance(SECOND);
        ends.release();
        until("the slots are free", || search.snapshot().gauges.free == 2);
    }
    let short = || search.call_with(Terms::new().deadline(900 * MS), fine).status();
    search.open_breaker();
    let refused: Vec<_> = (0..20).map(|_| short()).collect();
    assert_eq!(refused[..19], [Status::Timeout; 19]);
    assert_eq!((refused[19], short()), (Status::CircuitOpen, Status::CircuitOpen));
    search.close_breaker();
    let slots = [occupy(&search), occupy(&search)];
    assert_eq!((short(), short()), (Status::Busy, Status::Busy), "it does not wait");
    slots.into_iter().for_each(Held::release);
    until("the slots are free", || search.snapshot().gauges.free == 2);
    assert_eq!((short(), short()), (Status::Ok, Status::Timeout), "and it is one in twenty");
}

#[test]
fn permits_count_like_calls() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().breaker(breaker()));
    search.permit().unwrap().fail();
    search.permit().unwrap().fail();
    assert_refused(&search.permit().unwrap_err(), Status::CircuitOpen, Some(SECOND));
    hand.advance(SECOND);
    search.permit().unwrap().release();
    assert_eq!(state(&search), State::Closed);
    let panics = std::thread::spawn({
        let search = search.clone();
        move || {
            let _permit = search.permit().unwrap();
            panic!("work that fails");
        }
    });
    assert!(panics.join().is_err());
    assert_eq!(search.snapshot().breaker.unwrap().failed, 1);
}

#[test]
fn a_breaker_can_be_held_open_by_hand() {
    let (runtime, search, _hand) = one_on_manual_clock(spec().slots(1));
    let slot = occupy(&search);
    let waits = search.submit(fine);
    search.open_breaker();
    assert_eq!(waits.wait().status(), Status::CircuitOpen);
    assert_eq!(state(&search), State::HeldOpen);
    slot.release();
    search.close_breaker();
    assert!(search.call(fine).is_ok());
    for _ in 0..50 {
        assert_eq!(search.call(broken).status(), Status::Failed, "it never opens by itself");
    }
    search.open_breaker();
    runtime.shutdown(Duration::ZERO);
    let closed = search.call(fine).result.unwrap_err();
    assert!(matches!(closed, CallError::Failed(_)), "closed comes first: {closed}");
    assert_adds_up(&search.snapshot());
}

#[test]
fn a_backend_that_works_and_says_no_is_not_left_alone() {
    let refuses = |_: &Run| -> Result<(), Failure> {
        Err(Failure::new(FailureReason::ExitCode, "the linter found something"))
    };
    let (_runtime, lint) = one(spec().breaker(breaker()));
    for _ in 0..10 {
        assert_eq!(lint.call(refuses).status(), Status::Failed);
    }
    assert_eq!(state(&lint), State::Closed);
    let counts = breaker::Policy { count_refusals: true, ..breaker() };
    let (_runtime, lint) = one(spec().breaker(counts));
    assert_eq!(lint.call(refuses).status(), Status::Failed);
    assert_eq!(lint.call(refuses).status(), Status::Failed);
    assert_eq!(state(&lint), State::Open);
}

#[test]
fn knobs_of_the_door_are_checked() {
    let wrong = breaker::Policy { probes: 0, ..breaker() };
    for (spec, said) in [
        (spec().breaker(wrong), "breaker.probes = 0: must be 1 to 1000"),
        (spec().burst(2), "burst = 2: means nothing without a rate"),
        (spec().rate("1/s".parse().unwrap()).burst(0), "burst = 0: must be at least 1"),
        (spec().min_run(MinRun::Fixed(6 * SECOND)), "min_run = 6s: must be at most run_limit"),
    ] {
        let error = spec.check().unwrap_err().to_string();
        assert!(error.starts_with(&format!("partition.search.{said}")), "{error}");
        assert!(Runtime::builder().partition(spec).build().is_err());
    }
}
