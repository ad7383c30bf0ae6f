//! The outcome table, row by row: status, reason or clock, executed, and whether there is a hint.

use std::time::Duration;

use watertight::call::{Run, Terms};
use watertight::outcome::{CallError, Executed, Failure, FailureReason, Outcome};
use watertight::{Partition, PartitionSpec};

use crate::support::{MS, held, occupy, one, one_on_manual_clock, until};

const RUN_LIMIT: Duration = Duration::from_secs(30);

#[track_caller]
fn assert_row<T>(
    outcome: &Outcome<T>,
    status: &str,
    reason: &str,
    executed: Executed,
    hint: Option<Duration>,
) {
    let said = outcome.result.as_ref().err().map_or("", CallError::reason);
    assert_eq!((outcome.status().as_str(), said), (status, reason));
    assert_eq!(outcome.executed(), executed);
    assert_eq!(outcome.retry_after(), hint);
}

#[track_caller]
fn assert_busy<T>(outcome: &Outcome<T>, reason: &str) {
    let hint = outcome.retry_after();
    assert_row(outcome, "busy", reason, Executed::No, hint);
    assert!(hint.is_some_and(|hint| hint >= MS), "{hint:?}");
    assert_eq!(outcome.timing.ran, Duration::ZERO);
}

/// One slot that is taken, and a queue of one.
fn narrow() -> PartitionSpec {
    PartitionSpec::new("search").slots(1).queue(1)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn finished() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let outcome = search.call(move |_| {
        hand.advance(7 * MS);
        Ok(3)
    });
    assert_row(&outcome, "ok", "", Executed::Yes, None);
    assert_eq!(outcome.timing.ran, 7 * MS);
    assert_eq!(outcome.ok(), Some(3));
}

#[test]
fn the_body_or_the_backend_said_no() {
    let (_runtime, search) = one(narrow());
    let outcome = search.call(|_| Ok(std::fs::read("/no/such/file")?));
    assert_row(&outcome, "failed", "error", Executed::Yes, None);
    let outcome =
        search.call::<(), _>(|_| Err(Failure::new(FailureReason::HttpStatus, "status 500")));
    assert_row(&outcome, "failed", "http_status", Executed::Yes, None);
    assert_eq!(search.snapshot().counts.failed, 2);
}

#[test]
fn the_work_could_not_be_begun() {
    let (_runtime, search) = one(narrow());
    for (reason, name) in [(FailureReason::Connect, "connect"), (FailureReason::Spawn, "spawn")] {
        let failure = Failure::new(reason, "refused").executed(Executed::No);
        let outcome = search.call::<(), _>(|_| Err(failure));
        assert_row(&outcome, "failed", name, Executed::No, None);
    }
}

#[test]
fn partition_closed() {
    let (runtime, search) = one(narrow());
    runtime.shutdown(Duration::ZERO);
    let outcome = search.call(nothing);
    assert_row(&outcome, "failed", "closed", Executed::No, None);
    let refused = search.permit().unwrap_err();
    assert_row(&refused, "failed", "closed", Executed::No, None);
}

#[test]
fn panic_in_user_code() {
    let (_runtime, search) = one(narrow());
    let outcome = search.call::<(), _>(|_| panic!("the {} broke", "parser"));
    assert_row(&outcome, "panicked", "", Executed::Yes, None);
    let Err(CallError::Panicked { message }) = outcome.result else {
        unreachable!("it panicked");
    };
    assert_eq!(message, "the parser broke", "the message and nothing else");
}

#[test]
fn no_slot_within_max_wait() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let _held = occupy(&search);
    let ticket = search.submit(nothing);
    hand.advance(50 * MS - Duration::from_nanos(1));
    assert!(!ticket.is_finished());
    hand.advance(Duration::from_nanos(1));
    assert!(ticket.is_finished(), "although nobody waits on the ticket");
    let outcome = ticket.wait();
    assert_busy(&outcome, "slots_full");
    assert_eq!(outcome.timing.waited, 50 * MS);
}

#[test]
fn no_slot_although_none_is_waited_for() {
    let spec = narrow().max_wait(Duration::ZERO);
    let (_runtime, search, _hand) = one_on_manual_clock(spec);
    let _held = occupy(&search);
    let outcome = search.call(nothing);
    assert_busy(&outcome, "slots_full");
    assert_eq!(outcome.timing.waited, Duration::ZERO);
}

#[test]
fn no_slot_and_all_are_overdue() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let _held = occupy(&search);
    hand.advance(RUN_LIMIT + 100 * MS);
    assert_eq!(search.snapshot().gauges.overdue, 1);
    let ticket = search.submit(nothing);
    hand.advance(50 * MS);
    let outcome = ticket.wait();
    assert_busy(&outcome, "slots_stuck");
    assert!(outcome.retry_after() >= Some(RUN_LIMIT), "{outcome:?}");
}

#[test]
fn no_room_to_wait() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow());
    let _held = occupy(&search);
    let _waits = search.submit(nothing);
    assert_busy(&search.call(nothing), "queue_full");
}

#[test]
fn no_room_to_wait_for_this_tenant() {
    let spec = narrow().queue(8).tenant_queue(1);
    let (_runtime, search, _hand) = one_on_manual_clock(spec);
    let _held = occupy(&search);
    let terms = Terms::new().tenant("s-7");
    let _waits = search.submit_with(terms.clone(), nothing);
    let outcome = search.call_with(terms, nothing);
    assert_busy(&outcome, "tenant_queue_full");
}

#[test]
fn the_room_went_to_a_tenant_with_fewer() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow().queue(2));
    let _held = occupy(&search);
    let greedy = Terms::new().tenant("greedy");
    let _first = search.submit_with(greedy.clone(), nothing);
    let newest = search.submit_with(greedy, nothing);
    let _waits = search.submit_with(Terms::new().tenant("modest"), nothing);
    assert!(newest.is_finished());
    assert_busy(&newest.wait(), "displaced");
}

#[test]
fn into_its_own_full_partition() {
    let (_runtime, search) = one(narrow());
    let inner = search.clone();
    let outcome = search.call(move |_| Ok(inner.call(nothing)));
    let inner = outcome.ok().unwrap();
    assert_row(&inner, "busy", "reentrant", Executed::No, None);
}

#[test]
fn the_backend_asks_for_a_pause() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let pause = Duration::from_secs(3);
    for executed in [Executed::No, Executed::Unknown] {
        let failure = Failure::new(FailureReason::Throttled, "429").executed(executed);
        let outcome = search.call::<(), _>(move |_| Err(failure.retry_after(pause)));
        assert_row(&outcome, "throttled", "backend", executed, Some(pause));
        let refused = search.call(nothing);
        assert_row(&refused, "throttled", "backend", Executed::No, Some(pause));
        hand.advance(pause);
    }
    assert_eq!(search.snapshot().counts.throttled, 4);
}

#[test]
fn beyond_the_partitions_own_rate() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow().rate("4/s".parse().unwrap()));
    assert!(search.call(nothing).is_ok());
    let outcome = search.call(nothing);
    assert_row(&outcome, "throttled", "rate", Executed::No, Some(Duration::from_millis(250)));
}

#[test]
fn the_breaker_is_open() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow());
    search.open_breaker();
    let outcome = search.call(nothing);
    assert_row(&outcome, "circuit_open", "", Executed::No, Some(Duration::from_secs(60)));
}

#[test]
fn deadline_too_short() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow());
    let terms = Terms::new().deadline(Duration::ZERO);
    let outcome = search.call_with(terms.clone(), nothing);
    assert_row(&outcome, "timeout", "deadline", Executed::No, None);
    let refused = search.permit_with(terms).unwrap_err();
    assert_row(&refused, "timeout", "deadline", Executed::No, None);
}

#[test]
fn deadline_gone_while_waiting() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let _held = occupy(&search);
    let ticket = search.submit_with(Terms::new().deadline(20 * MS), nothing);
    hand.advance(19 * MS);
    assert!(!ticket.is_finished());
    hand.advance(MS);
    let outcome = ticket.wait();
    assert_row(&outcome, "timeout", "deadline", Executed::No, None);
    assert_eq!(outcome.timing.waited, 20 * MS);
}

#[test]
fn run_limit_of_a_body_that_does_not_end() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let (held, body) = held();
    let ticket = search.submit(body);
    held.wait_begun();
    hand.advance(RUN_LIMIT + 99 * MS);
    assert!(!ticket.is_finished(), "the driver has a grace to end it");
    hand.advance(MS);
    let outcome = ticket.wait();
    assert_row(&outcome, "timeout", "run", Executed::Unknown, None);
    assert_eq!(outcome.timing.ran, RUN_LIMIT + 100 * MS);
}

#[test]
fn run_limit_of_a_driver_that_ends_its_work() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let outcome = search.call::<(), _>(move |run| {
        assert_eq!(run.remaining(), RUN_LIMIT);
        hand.advance(RUN_LIMIT);
        assert_eq!(run.remaining(), Duration::ZERO);
        Err(Failure::new(FailureReason::Limit, "ended"))
    });
    assert_row(&outcome, "timeout", "run", Executed::Unknown, None);
    assert_eq!(search.snapshot().counts.timeout_run, 1);
}

#[test]
fn run_limit_of_work_that_surely_had_not_begun() {
    let (_runtime, search) = one(narrow());
    let failure = Failure::new(FailureReason::Limit, "no connection in time");
    let outcome = search.call::<(), _>(move |_| Err(failure.executed(Executed::No)));
    assert_row(&outcome, "timeout", "run", Executed::No, None);
}

#[test]
fn deadline_gone_while_running() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let (held, body) = held();
    let ticket = search.submit_with(Terms::new().deadline(80 * MS), body);
    held.wait_begun();
    hand.advance(79 * MS);
    assert!(!ticket.is_finished());
    hand.advance(MS);
    assert!(ticket.is_finished(), "exactly on time, whatever the body does");
    let outcome = ticket.wait();
    assert_row(&outcome, "timeout", "deadline", Executed::Unknown, None);
    assert_eq!(outcome.timing.ran, 80 * MS);
}

#[test]
fn deadline_of_a_driver_that_ends_its_work() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let terms = Terms::new().deadline(RUN_LIMIT - MS);
    let outcome = search.call_with::<(), _>(terms, move |run| {
        hand.advance(run.remaining() - MS);
        Err(Failure::new(FailureReason::Limit, "ended"))
    });
    assert_row(&outcome, "timeout", "deadline", Executed::Unknown, None);
    assert_eq!(search.snapshot().counts.timeout_deadline, 1);
}

#[test]
fn cancelled_while_waiting() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow());
    let _held = occupy(&search);
    let ticket = search.submit(nothing);
    ticket.cancel();
    let outcome = ticket.wait();
    assert_row(&outcome, "cancelled", "caller", Executed::No, None);
}

#[test]
fn cancelled_while_running() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow());
    let (held, body) = held();
    let ticket = search.submit(body);
    held.wait_begun();
    ticket.cancel();
    assert!(ticket.is_finished(), "although the body goes on");
    let outcome = ticket.wait();
    assert_row(&outcome, "cancelled", "caller", Executed::Unknown, None);
}

#[test]
fn cancelled_work_that_its_driver_ended() {
    let (_runtime, search) = one(narrow());
    let said = |executed| Failure::new(FailureReason::Cancelled, "ended").executed(executed);
    let outcome = search.call::<(), _>(move |_| Err(said(Executed::Yes)));
    assert_row(&outcome, "cancelled", "caller", Executed::Unknown, None);
    let outcome = search.call::<(), _>(move |_| Err(said(Executed::No)));
    assert_row(&outcome, "cancelled", "caller", Executed::No, None);
}

#[test]
fn dropped() {
    let (_runtime, search, _hand) = one_on_manual_clock(narrow());
    let (held, body) = held();
    let running = search.submit(body);
    held.wait_begun();
    let waiting = search.submit(nothing);
    drop(waiting);
    assert_eq!(search.snapshot().counts.cancelled, 1);
    drop(running);
    assert_eq!(search.snapshot().counts.cancelled, 2);
    assert_eq!(search.snapshot().gauges.overdue, 1);
    held.release();
    until("the slot is free", || search.snapshot().gauges.free == 1);
}

#[test]
fn shut_down() {
    let (runtime, search, _hand) = one_on_manual_clock(narrow());
    let (held, body) = held();
    let running = search.submit(body);
    held.wait_begun();
    let waiting = search.submit(nothing);
    let report = runtime.shutdown(Duration::ZERO);
    assert_eq!(report.left.len(), 1);
    let outcome = waiting.wait();
    assert_row(&outcome, "cancelled", "shutdown", Executed::No, None);
    let outcome = running.wait();
    assert_row(&outcome, "cancelled", "shutdown", Executed::Unknown, None);
}

/// The table is of what callers see; the partition's own counters say the same.
#[test]
fn counters_follow_the_table() {
    let (_runtime, search, hand) = one_on_manual_clock(narrow());
    let count = |partition: &Partition| partition.snapshot().counts;
    let _ = search.call::<(), _>(|_| panic!("once"));
    assert_eq!(count(&search).panicked, 1);
    let held = occupy(&search);
    let waits = search.submit(nothing);
    assert!(!search.call(nothing).is_ok());
    hand.advance(50 * MS);
    assert!(!waits.wait().is_ok());
    held.release();
    until("the held call is counted", || count(&search).ok == 1);
    let counts = count(&search);
    assert_eq!(counts.busy_slots_full, 1);
    assert_eq!(counts.busy_queue_full, 1);
    assert_eq!(counts.total(), 4);
}
