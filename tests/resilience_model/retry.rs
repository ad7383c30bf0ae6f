//! What is retried, and when.

use std::time::Duration;

use watertight::outcome::{
    BusyReason, CallError, CancelledBy, Evidence, Executed, Failure, FailureReason, ThrottledBy,
    TimeoutClock,
};
use watertight::resilience::budget::{self, Budget};
use watertight::resilience::retry::{Attempt, Kinds, Policy, Retry, Why};
use watertight::time::Time;

use crate::ms;

const EXECUTED: [Executed; 3] = [Executed::Yes, Executed::No, Executed::Unknown];
const HINT: Duration = ms(250);

fn budget(floor: u32) -> Budget {
    let policy = budget::Policy { ratio: 0.0, floor, window: ms(1000) };
    Budget::new(policy).expect("sensible")
}

fn everything() -> Kinds {
    Kinds::parse(["busy", "circuit_open", "throttled", "timeout", "panicked", "failed"])
        .expect("words")
}

/// Errors of every status, for each value of `executed` that they can have.
fn errors() -> Vec<CallError> {
    let mut errors = vec![
        CallError::Busy { reason: BusyReason::SlotsFull, retry_after: Some(HINT) },
        CallError::Busy { reason: BusyReason::Displaced, retry_after: Some(HINT) },
        CallError::CircuitOpen { retry_after: HINT },
        CallError::Panicked { message: String::new() },
    ];
    for executed in EXECUTED {
        let evidence = Evidence::default;
        let by = ThrottledBy::Backend;
        errors.push(CallError::Throttled { by, executed, retry_after: HINT });
        for clock in [TimeoutClock::Run, TimeoutClock::Deadline] {
            errors.push(CallError::Timeout { clock, executed, evidence: evidence() });
        }
        for reason in [FailureReason::Connect, FailureReason::Error, FailureReason::HttpStatus] {
            errors.push(CallError::Failed(Failure::new(reason, "").executed(executed)));
        }
    }
    errors
}

/// Ends that are in no set, whatever they say of `executed`.
fn hopeless() -> Vec<CallError> {
    let failed = |reason| CallError::Failed(Failure::new(reason, "").executed(Executed::No));
    let cancelled =
        |by| CallError::Cancelled { by, executed: Executed::No, evidence: Evidence::default() };
    vec![
        CallError::Busy { reason: BusyReason::Reentrant, retry_after: None },
        cancelled(CancelledBy::Caller),
        cancelled(CancelledBy::Shutdown),
        failed(FailureReason::InvalidCall),
        failed(FailureReason::UnknownTool),
        failed(FailureReason::UnknownPartition),
        failed(FailureReason::Closed),
        failed(FailureReason::Decode),
    ]
}

fn decide(policy: &Policy, attempt: Attempt<'_>) -> Retry {
    policy.decide(Time::ZERO, attempt, &mut budget(1), 0)
}

#[test]
fn what_may_have_run_is_repeated_only_if_that_does_no_harm() {
    let policy = Policy { on: everything(), ..Policy::default() };
    for error in errors() {
        for (idempotent, repeatable) in [(false, false), (false, true), (true, false)] {
            let policy = Policy { idempotent, ..policy };
            let attempt = Attempt { repeatable, ..Attempt::new(1, &error) };
            let safe = idempotent || repeatable || error.executed() == Executed::No;
            match decide(&policy, attempt) {
                Retry::After(_) => assert!(safe, "{error:?}"),
                Retry::No(why) => assert!(!safe && why == Why::MayHaveRun, "{error:?}: {why:?}"),
            }
        }
    }
}

#[test]
fn what_cannot_go_better_is_never_retried() {
    let policy = Policy { on: everything(), ..Policy::default() };
    for error in hopeless() {
        let attempt = Attempt { repeatable: true, ..Attempt::new(1, &error) };
        assert_eq!(decide(&policy, attempt), Retry::No(Why::NotChosen), "{error:?}");
    }
}

#[test]
fn only_what_was_chosen_is_retried() {
    for word in ["busy", "circuit_open", "throttled", "timeout", "panicked", "connect", "error"] {
        let on = Kinds::parse([word]).expect("a word");
        assert_eq!(on.to_string(), word);
        let policy = Policy { on, ..Policy::default() };
        for error in errors() {
            let chosen = error.status().as_str() == word || error.reason() == word;
            let attempt = Attempt { repeatable: true, ..Attempt::new(1, &error) };
            match decide(&policy, attempt) {
                Retry::After(_) => assert!(chosen, "{word}: {error:?}"),
                Retry::No(why) => assert!(!chosen && why == Why::NotChosen, "{word}: {error:?}"),
            }
        }
    }
    let nothing = Kinds::parse([]).expect("no words");
    assert!(errors().iter().all(|error| !nothing.contains(error)));
}

#[test]
fn every_word_stands_for_itself_and_failed_for_all_reasons() {
    let all = everything().to_string();
    for word in all.split(", ") {
        assert_eq!(Kinds::parse([word]).expect("a word").to_string(), word);
    }
    assert_eq!(Kinds::parse(all.split(", ")).expect("words"), everything());
    let failed = Kinds::parse(["failed"]).expect("a word").to_string();
    assert!(failed.starts_with("error, connect, ") && !failed.contains("busy"), "{failed}");
    let default = Kinds::default().to_string();
    assert_eq!(default, "busy, throttled, timeout, connect, pool_exhausted, server_down");
    for word in ["cancelled", "ok", "invalid_call", "unknown_tool", "closed", "decode", "Busy", ""]
    {
        let refused = Kinds::parse(["busy", word]).expect_err(word);
        assert_eq!((refused.key, refused.value.as_str()), ("on", word));
        assert!(refused.rule.contains(&all), "{refused}");
    }
}

#[test]
fn attempts_are_counted_with_the_first() {
    let error = CallError::CircuitOpen { retry_after: HINT };
    for attempts in 1..=100 {
        let policy = Policy { attempts, on: everything(), ..Policy::default() };
        let tried = (1..=101).find(|number| {
            decide(&policy, Attempt::new(*number, &error)) == Retry::No(Why::Attempts)
        });
        assert_eq!(tried, Some(attempts));
    }
}

#[test]
fn the_wait_doubles_up_to_its_cap_and_is_drawn_from_zero() {
    let policy = Policy {
        attempts: 100,
        backoff: ms(100),
        backoff_max: ms(3000),
        on: everything(),
        idempotent: false,
    };
    let error = CallError::Failed(Failure::new(FailureReason::Connect, "").executed(Executed::No));
    for number in 1..100 {
        let longest = ms(3000).min(ms(100) * 2_u32.pow((number - 1).min(10)));
        for (random, wait) in [(0, Duration::ZERO), (1 << 63, longest / 2), (u64::MAX, longest)] {
            let attempt = Attempt::new(number, &error);
            let decided = policy.decide(Time::ZERO, attempt, &mut budget(1), random);
            let Retry::After(got) = decided else { panic!("{decided:?}") };
            assert!(got <= wait && got + Duration::from_nanos(2) > wait, "{number}: {got:?}");
        }
    }
}

#[test]
fn draws_are_uniform() {
    let policy = Policy { on: everything(), ..Policy::default() };
    let error = CallError::Failed(Failure::new(FailureReason::Connect, "").executed(Executed::No));
    let mut random = fastrand::Rng::with_seed(1403);
    let mut tenths = [0_u32; 10];
    for _ in 0..100_000 {
        let bits = random.u64(..);
        let Retry::After(wait) =
            policy.decide(Time::ZERO, Attempt::new(1, &error), &mut budget(1), bits)
        else {
            panic!("no retry")
        };
        tenths[(wait.as_micros() / 10_000) as usize] += 1;
    }
    assert!(tenths.iter().all(|count| (9_500..10_500).contains(count)), "{tenths:?}");
}

#[test]
fn nobody_comes_before_the_hint_and_not_all_on_it() {
    let policy = Policy { on: everything(), ..Policy::default() };
    for error in errors() {
        let attempt = Attempt { repeatable: true, ..Attempt::new(1, &error) };
        let asked = error.retry_after().unwrap_or_default();
        for (random, more) in [(0, Duration::ZERO), (1 << 63, ms(50))] {
            let decided = policy.decide(Time::ZERO, attempt, &mut budget(1), random);
            assert_eq!(decided, Retry::After(asked + more), "{error:?}");
        }
    }
}

#[test]
fn the_wait_and_a_useful_run_fit_into_the_deadline() {
    let policy = Policy { on: everything(), ..Policy::default() };
    let error = CallError::CircuitOpen { retry_after: HINT };
    for (left, min_run, fits) in [
        (0, 0, false),
        (250, 0, false),
        (251, 0, true),
        (300, 50, false),
        (301, 50, true),
        (86_400_000, 0, true),
    ] {
        let attempt =
            Attempt { left: Some(ms(left)), min_run: ms(min_run), ..Attempt::new(1, &error) };
        let expected = if fits { Retry::After(HINT) } else { Retry::No(Why::Deadline) };
        assert_eq!(decide(&policy, attempt), expected, "{left} ms left");
    }
    let attempt =
        Attempt { left: Some(Duration::MAX), min_run: Duration::MAX, ..Attempt::new(1, &error) };
    assert_eq!(decide(&policy, attempt), Retry::No(Why::Deadline));
}

#[test]
fn a_no_takes_no_room_in_the_budget_and_a_yes_takes_one() {
    let policy = Policy { on: everything(), ..Policy::default() };
    let error = CallError::CircuitOpen { retry_after: HINT };
    let mut budget = budget(2);
    let first = Attempt::new(1, &error);
    for no in [Attempt::new(3, &error), Attempt { left: Some(ms(1)), ..first }] {
        assert!(matches!(policy.decide(Time::ZERO, no, &mut budget, 0), Retry::No(_)));
    }
    assert_eq!(budget.sleeping(), 0);
    let decided: Vec<_> =
        (0..3).map(|_| policy.decide(Time::ZERO, first, &mut budget, 0)).collect();
    assert_eq!(decided, [Retry::After(HINT), Retry::After(HINT), Retry::No(Why::Budget)]);
    assert_eq!(budget.sleeping(), 2);
}

#[test]
fn a_pause_that_nobody_sits_out_is_not_slept() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let policy = Policy { on: everything(), ..Policy::default() };
    let decided = [HOUR, HOUR + ms(1), Duration::MAX].map(|asked| {
        let failure = Failure::new(FailureReason::HttpStatus, "").executed(Executed::No);
        let error = CallError::Failed(failure.retry_after(asked));
        decide(&policy, Attempt::new(1, &error))
    });
    let too_long = Retry::No(Why::TooLong);
    assert_eq!(decided, [Retry::After(HOUR), too_long, too_long]);
}
