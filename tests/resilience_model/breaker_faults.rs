//! Faults known from other breakers, each with the history that brings it out.

use std::time::Duration;

use watertight::outcome::{
    BusyReason, CallError, CancelledBy, Evidence, Executed, Failure, FailureReason, ThrottledBy,
    TimeoutClock,
};
use watertight::resilience::breaker::{
    Admit, Breaker, Change, Ended, Epoch, Policy, State, Window,
};
use watertight::time::Time;

use crate::{at, ms};

const LIMIT: Duration = ms(700);

fn policy() -> Policy {
    Policy {
        window: Window::Count(10),
        minimum_calls: 4,
        cool_down: ms(1000),
        cool_down_jitter: 0.0,
        ..Policy::default()
    }
}

fn breaker(policy: Policy) -> Breaker {
    Breaker::new(policy).expect("sensible")
}

fn pass(breaker: &mut Breaker, now: Time) -> Epoch {
    match breaker.admit(now, LIMIT) {
        Admit::Pass(epoch) => epoch,
        other => panic!("expected to pass, got {other:?}"),
    }
}

fn probe(breaker: &mut Breaker, now: Time) -> Epoch {
    match breaker.admit(now, LIMIT) {
        Admit::Probe(epoch) => epoch,
        other => panic!("expected to be the probe, got {other:?}"),
    }
}

fn refused(breaker: &mut Breaker, now: Time) -> Duration {
    match breaker.admit(now, LIMIT) {
        Admit::Open(after) => after.get(),
        other => panic!("expected to be refused, got {other:?}"),
    }
}

/// Opens it at `now` by four failures; a fifth call that was let in before is still out.
fn open(breaker: &mut Breaker, now: Time) -> Epoch {
    let late = pass(breaker, now);
    let calls: Vec<_> = (0..4).map(|_| pass(breaker, now)).collect();
    let changes: Vec<_> =
        calls.iter().map(|call| breaker.record(now, *call, Ended::Failed, ms(5), 0)).collect();
    assert!(matches!(changes[..], [None, None, None, Some(Change::Opened { .. })]), "{changes:?}");
    late
}

#[test]
fn a_late_answer_from_before_the_opening_is_not_the_probe() {
    for late_ended in [Ended::Ok, Ended::Failed] {
        let mut breaker = breaker(policy());
        let late = open(&mut breaker, at(0));
        assert_eq!(breaker.record(at(10), late, late_ended, ms(10), 0), None);
        assert_eq!(refused(&mut breaker, at(10)), ms(990));

        let epoch = probe(&mut breaker, at(1000));
        assert_eq!(breaker.record(at(1001), late, late_ended, ms(10), 0), None);
        breaker.give_back(late);
        assert_eq!(refused(&mut breaker, at(1001)), ms(699), "the probe is still out");
        assert_eq!(breaker.record(at(1100), epoch, Ended::Ok, ms(100), 0), Some(Change::Closed));
        assert_eq!(breaker.record(at(1101), late, Ended::Failed, ms(10), 0), None);
        assert_eq!(breaker.snapshot(at(1101)).calls, 0, "nor does it count afterwards");
    }
}

#[test]
fn a_full_partition_during_half_open_neither_trips_it_nor_eats_the_probe() {
    let mut breaker = breaker(policy());
    open(&mut breaker, at(0));
    for turn in 0..1000 {
        let now = at(1000 + turn);
        let epoch = probe(&mut breaker, now);
        refused(&mut breaker, now);
        breaker.give_back(epoch);
        assert_eq!(breaker.snapshot(now).state, State::HalfOpen);
    }
    let epoch = probe(&mut breaker, at(3000));
    assert_eq!(breaker.record(at(3001), epoch, Ended::Ok, ms(1), 0), Some(Change::Closed));
}

#[test]
fn refusals_cancels_and_throttling_leave_it_alone() {
    let neutral = [
        CallError::Busy { reason: BusyReason::SlotsFull, retry_after: Some(ms(5)) },
        CallError::CircuitOpen { retry_after: ms(5) },
        CallError::Throttled {
            by: ThrottledBy::Backend,
            executed: Executed::No,
            retry_after: ms(5),
        },
        CallError::Timeout {
            clock: TimeoutClock::Deadline,
            executed: Executed::No,
            evidence: Evidence::default(),
        },
        CallError::Cancelled {
            by: CancelledBy::Caller,
            executed: Executed::Unknown,
            evidence: Evidence::default(),
        },
        CallError::Failed(Failure::new(FailureReason::InvalidCall, "")),
        CallError::Failed(Failure::new(FailureReason::UnknownTool, "")),
        CallError::Failed(Failure::new(FailureReason::UnknownPartition, "")),
        CallError::Failed(Failure::new(FailureReason::Closed, "")),
        CallError::Failed(Failure::new(FailureReason::Throttled, "")),
        CallError::Failed(Failure::new(FailureReason::Cancelled, "")),
        CallError::Failed(Failure::new(FailureReason::QueryCancelled, "")),
    ];
    let mut breaker = breaker(policy());
    for error in neutral {
        let result = Err::<(), _>(error);
        assert_eq!(Ended::of(&result), None, "{result:?}");
        for _ in 0..10 {
            let epoch = pass(&mut breaker, at(0));
            breaker.give_back(epoch);
        }
    }
    assert_eq!(breaker.snapshot(at(0)).calls, 0);
}

#[test]
fn failures_panics_and_running_time_outs_count() {
    let timeout = |clock| CallError::Timeout {
        clock,
        executed: Executed::Unknown,
        evidence: Evidence::default(),
    };
    let failed = |reason| CallError::Failed(Failure::new(reason, "").executed(Executed::No));
    assert_eq!(Ended::of(&Ok::<_, CallError>(())), Some(Ended::Ok));
    for (error, ended) in [
        (failed(FailureReason::Connect), Ended::Failed),
        (failed(FailureReason::HttpStatus), Ended::Failed),
        (failed(FailureReason::ServerDown), Ended::Failed),
        (failed(FailureReason::PoolExhausted), Ended::Failed),
        (failed(FailureReason::QueryFailed), Ended::Refused),
        (failed(FailureReason::ExitCode), Ended::Refused),
        (failed(FailureReason::Limit), Ended::TimedOut),
        (CallError::Panicked { message: String::new() }, Ended::Failed),
        (timeout(TimeoutClock::Run), Ended::TimedOut),
        (timeout(TimeoutClock::Deadline), Ended::TimedOut),
    ] {
        assert_eq!(Ended::of(&Err::<(), _>(error)), Some(ended));
    }
}

/// Callers come every millisecond for an hour; each probe hangs until its limit.
#[test]
fn a_dead_backend_costs_one_probe_a_cool_down() {
    let mut breaker = breaker(policy());
    open(&mut breaker, at(0));
    let (mut out, mut probes, mut longest) = (None, Vec::new(), Duration::ZERO);
    for millis in 0..3_600_000 {
        if let Some((epoch, ends)) = out
            && millis >= ends
        {
            let change = breaker.record(at(millis), epoch, Ended::TimedOut, LIMIT, 0);
            assert!(matches!(change, Some(Change::Opened { .. })));
            out = None;
        }
        match breaker.admit(at(millis), LIMIT) {
            Admit::Open(after) => longest = longest.max(after.get()),
            Admit::Probe(epoch) => {
                out = Some((epoch, millis + 700));
                probes.push(millis);
            }
            Admit::Pass(_) => panic!("passed at {millis} ms"),
        }
    }
    let pauses: Vec<_> = probes.windows(2).map(|pair| pair[1] - pair[0] - 700).collect();
    assert_eq!(pauses[..6], [2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
    assert!(pauses[6..].iter().all(|pause| *pause == 60_000));
    assert_eq!(longest, ms(60_000));
}

#[test]
fn a_good_probe_brings_the_first_cool_down_back() {
    let mut breaker = breaker(policy());
    open(&mut breaker, at(0));
    let epoch = probe(&mut breaker, at(1000));
    breaker.record(at(1000), epoch, Ended::Failed, ms(1), 0);
    assert_eq!(refused(&mut breaker, at(1000)), ms(2000));
    let epoch = probe(&mut breaker, at(3000));
    assert_eq!(breaker.record(at(3000), epoch, Ended::Ok, ms(1), 0), Some(Change::Closed));
    open(&mut breaker, at(4000));
    assert_eq!(refused(&mut breaker, at(4000)), ms(1000));
}

#[test]
fn slow_calls_open_it_though_none_fails() {
    let slow = Policy { failure_rate: 0.0, slow_call: ms(100), slow_call_rate: 0.5, ..policy() };
    let mut breaker = breaker(slow);
    let mut end = |ran| {
        let epoch = pass(&mut breaker, at(0));
        breaker.record(at(0), epoch, Ended::Ok, ran, 0)
    };
    assert_eq!([end(ms(99)), end(ms(100)), end(ms(99))], [None; 3]);
    assert!(matches!(end(ms(25_000)), Some(Change::Opened { .. })));
    let epoch = probe(&mut breaker, at(1000));
    let change = breaker.record(at(1100), epoch, Ended::Ok, ms(100), 0);
    assert!(matches!(change, Some(Change::Opened { .. })), "a slow probe is no recovery");
}

#[test]
fn time_alone_empties_a_window_of_time() {
    let span = ms(1000);
    let mut breaker = breaker(Policy { window: Window::Time(span), ..policy() });
    for call in 0..3 {
        let epoch = pass(&mut breaker, at(call));
        assert_eq!(breaker.record(at(call), epoch, Ended::Failed, ms(1), 0), None);
    }
    assert_eq!(breaker.snapshot(at(900)).failed, 3, "within nine tenths they are in");
    assert_eq!(breaker.snapshot(at(1002)).failed, 0, "after all of it they are not");
}

#[test]
fn the_widest_window_forgets_one_call_at_a_time() {
    let widest =
        Policy { window: Window::Count(1024), minimum_calls: 1024, failure_rate: 1.0, ..policy() };
    let mut breaker = breaker(widest);
    let mut random = fastrand::Rng::with_seed(1403);
    let mut failed = Vec::new();
    for _ in 0..5000 {
        failed.push(random.bool());
        let ended = if failed[failed.len() - 1] { Ended::Failed } else { Ended::Ok };
        let epoch = pass(&mut breaker, at(0));
        breaker.record(at(0), epoch, ended, ms(1), 0);
        let recent = failed.iter().rev().take(1024).filter(|failed| **failed).count();
        assert_eq!(breaker.snapshot(at(0)).failed, recent as u64);
    }
}

/// However far time jumps, a window forgets no more buckets than it has.
#[test]
fn the_end_of_time_is_one_step_away() {
    let mut breaker = breaker(Policy { window: Window::Time(ms(10)), ..policy() });
    for now in [at(0), Time::MAX, Time::MAX] {
        let epoch = pass(&mut breaker, now);
        breaker.record(now, epoch, Ended::Failed, ms(1), 0);
    }
    assert_eq!(breaker.snapshot(Time::MAX).failed, 2);
}

/// Two threads read the clock and took the lock in the other order.
#[test]
fn a_time_a_little_older_does_no_harm() {
    let span = ms(1000);
    let mut breaker = breaker(Policy { window: Window::Time(span), ..policy() });
    for now in [5000, 4990, 5010, 4890] {
        let epoch = pass(&mut breaker, at(now));
        breaker.record(at(now), epoch, Ended::Failed, ms(1), 0);
    }
    assert_eq!(refused(&mut breaker, at(4880)), ms(1010));
    let epoch = probe(&mut breaker, at(5900));
    assert_eq!(refused(&mut breaker, at(5890)), ms(710));
    assert_eq!(breaker.record(at(5880), epoch, Ended::Ok, ms(1), 0), Some(Change::Closed));
}

#[test]
fn by_hand_it_stays_open_until_it_is_closed() {
    let mut breaker = breaker(policy());
    let early = pass(&mut breaker, at(0));
    breaker.open();
    assert_eq!(breaker.record(at(1), early, Ended::Ok, ms(1), 0), None);
    assert_eq!(refused(&mut breaker, at(86_400_000)), policy().cool_down_max);
    breaker.close();
    pass(&mut breaker, at(86_400_000));
    assert_eq!(breaker.snapshot(at(86_400_000)).openings, 0, "it has not opened by itself");
}
