//! Every knob at zero, at its most and beyond: what it means, or what the error says.

use std::time::Duration;

use watertight::resilience::breaker::{self, Admit, Breaker, Change, Ended, Window};
use watertight::resilience::budget::{self, Budget};
use watertight::resilience::deadline::{Deadline, MinRun};
use watertight::resilience::rate::{Per, Rate, RateLimit};
use watertight::resilience::{PolicyError, retry};

use crate::{at, ms};

const DAY: Duration = Duration::from_secs(86_400);
const NANO: Duration = Duration::from_nanos(1);

/// Asserts that `result` is refused for `key`, and that every part of the error says something.
fn refused<T: std::fmt::Debug>(result: Result<T, PolicyError>, key: &str, value: &str) {
    let error = result.expect_err(key);
    assert_eq!((error.key, error.value.as_str()), (key, value), "{error}");
    assert!(error.rule.starts_with("must be ") && error.fix.len() > 10, "{error}");
    let text = error.to_string();
    assert_eq!(text, format!("{key} = {value}: {}; {}", error.rule, error.fix));
}

fn breaker(change: impl FnOnce(&mut breaker::Policy)) -> Result<Breaker, PolicyError> {
    let mut policy = breaker::Policy::default();
    change(&mut policy);
    assert_eq!(policy.check().err(), Breaker::new(policy).err());
    Breaker::new(policy)
}

#[test]
fn breaker_knobs_out_of_range_are_refused() {
    for (value, text) in [(-0.1, "-0.1"), (1.1, "1.1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        refused(breaker(|s| s.failure_rate = value), "failure_rate", text);
        refused(breaker(|s| s.slow_call_rate = value), "slow_call_rate", text);
        refused(breaker(|s| s.cool_down_jitter = value), "cool_down_jitter", text);
    }
    refused(breaker(|s| s.window = Window::Count(0)), "window", "0");
    refused(breaker(|s| s.window = Window::Count(1025)), "window", "1025");
    refused(breaker(|s| s.window = Window::Time(ms(9))), "window", "9ms");
    refused(breaker(|s| s.window = Window::Time(DAY + NANO)), "window", "86400.000000001s");
    refused(breaker(|s| s.minimum_calls = 51), "minimum_calls", "51");
    refused(breaker(|s| s.slow_call = DAY + NANO), "slow_call", "86400.000000001s");
    refused(breaker(|s| s.cool_down = ms(60_001)), "cool_down", "60.001s");
    refused(breaker(|s| s.cool_down_max = DAY + NANO), "cool_down_max", "86400.000000001s");
    for (value, text) in [(0.99, "0.99"), (0.0, "0"), (10.1, "10.1"), (f64::NAN, "NaN")] {
        refused(breaker(|s| s.cool_down_growth = value), "cool_down_growth", text);
    }
    refused(breaker(|s| s.probes = 0), "probes", "0");
    refused(breaker(|s| s.probes = 1001), "probes", "1001");
}

#[test]
fn breaker_knobs_at_their_most_are_taken() {
    breaker(|s| s.window = Window::Count(1024)).expect("window");
    breaker(|s| s.window = Window::Time(DAY)).expect("window");
    breaker(|s| s.minimum_calls = 50).expect("minimum_calls");
    breaker(|s| s.slow_call = DAY).expect("slow_call");
    breaker(|s| (s.cool_down, s.cool_down_max) = (DAY, DAY)).expect("cool_down");
    breaker(|s| (s.cool_down_growth, s.cool_down_jitter) = (10.0, 1.0)).expect("growth");
    breaker(|s| s.probes = 1000).expect("probes");
    breaker(|_| {}).expect("defaults");
    let never = |s: &mut breaker::Policy| {
        (s.window, s.minimum_calls) = (Window::Time(DAY), u32::MAX);
    };
    breaker(never).expect("a window of time may never be judged");
}

/// Lets `calls` failing calls through at once; how many failed before it opened.
fn failures_until_open(mut breaker: Breaker, calls: usize) -> Option<usize> {
    (1..=calls).find(|_| {
        let Admit::Pass(epoch) = breaker.admit(at(0), ms(1)) else { panic!("it is closed") };
        let change = breaker.record(at(0), epoch, Ended::Failed, DAY, 0);
        matches!(change, Some(Change::Opened { .. }))
    })
}

#[test]
fn breaker_knobs_at_zero_mean_what_they_say() {
    let opens = |change: fn(&mut breaker::Policy)| {
        failures_until_open(breaker(change).expect("sensible"), 200)
    };
    assert_eq!(opens(|_| {}), Some(10));
    assert_eq!(opens(|s| s.minimum_calls = 0), Some(1));
    assert_eq!(opens(|s| s.minimum_calls = 1), Some(1));
    assert_eq!(opens(|s| s.failure_rate = 0.0), None);
    assert_eq!(opens(|s| (s.failure_rate, s.slow_call) = (0.0, ms(1))), Some(10));
    let rateless = |s: &mut breaker::Policy| {
        (s.failure_rate, s.slow_call, s.slow_call_rate) = (0.0, ms(1), 0.0);
    };
    assert_eq!(opens(rateless), None);
    assert_eq!(opens(|s| s.failure_rate = 1.0), Some(10));
    assert_eq!(opens(|s| s.failure_rate = 1e-9), Some(10), "little is not nothing");
    assert_eq!(opens(|s| (s.window, s.minimum_calls) = (Window::Count(1), 1)), Some(1));
    let widest = |s: &mut breaker::Policy| {
        (s.window, s.minimum_calls) = (Window::Count(1024), 150);
    };
    assert_eq!(opens(widest), Some(150));
}

/// The next call is the probe; with all the jitter there is, too.
#[test]
fn no_cool_down_probes_at_once() {
    let none = |s: &mut breaker::Policy| (s.cool_down, s.cool_down_max) = (ms(0), ms(0));
    let all_jitter = |s: &mut breaker::Policy| s.cool_down_jitter = 1.0;
    for breaker in [breaker(none), breaker(all_jitter)] {
        let mut breaker = breaker.expect("sensible");
        for _ in 0..10 {
            let Admit::Pass(epoch) = breaker.admit(at(0), ms(1)) else { panic!("it is closed") };
            breaker.record(at(0), epoch, Ended::Failed, ms(1), u64::MAX);
        }
        assert!(matches!(breaker.admit(at(1), ms(1)), Admit::Probe(_)));
    }
}

#[test]
fn budget_knobs_out_of_range_are_refused() {
    let refuse = |change: fn(&mut budget::Policy), key, value| {
        let mut policy = budget::Policy::default();
        change(&mut policy);
        refused(policy.check(), key, value);
        refused(Budget::new(policy), key, value);
    };
    refuse(|s| s.ratio = -0.2, "ratio", "-0.2");
    refuse(|s| s.ratio = 10.5, "ratio", "10.5");
    refuse(|s| s.ratio = f64::NAN, "ratio", "NaN");
    refuse(|s| s.floor = 1_000_001, "floor", "1000001");
    refuse(|s| s.window = ms(999), "window", "999ms");
    refuse(|s| s.window = Duration::ZERO, "window", "0ns");
    refuse(|s| s.window = Duration::from_secs(3601), "window", "3601s");
}

#[test]
fn budget_knobs_at_their_ends_mean_what_they_say() {
    let balance = |ratio, floor, seconds| {
        let window = Duration::from_secs(seconds);
        let policy = budget::Policy { ratio, floor, window };
        let mut budget = Budget::new(policy).expect("sensible");
        budget.first_attempt(at(0));
        budget.balance(at(0))
    };
    assert_eq!(balance(0.0, 0, 10), 0, "no retries at all");
    assert_eq!(balance(10.0, 0, 3600), 10);
    assert_eq!(balance(0.0, 1, 1), 1);
    assert_eq!(balance(0.0, 1_000_000, 3600), 3_600_000_000);
    let budget::Policy { ratio, floor, .. } = budget::Policy::default();
    assert_eq!(balance(ratio, floor, 10), 10);
}

#[test]
fn retry_knobs_out_of_range_are_refused() {
    let retry = |change: fn(&mut retry::Policy)| {
        let mut policy = retry::Policy::default();
        change(&mut policy);
        policy.check()
    };
    refused(retry(|s| s.attempts = 0), "attempts", "0");
    refused(retry(|s| s.attempts = 101), "attempts", "101");
    refused(retry(|s| s.backoff = ms(10_001)), "backoff", "10.001s");
    refused(retry(|s| s.backoff_max = Duration::from_secs(3601)), "backoff_max", "3601s");
    retry(|s| s.attempts = 100).expect("attempts");
    retry(|s| (s.backoff, s.backoff_max) = (ms(0), ms(0))).expect("no back-off");
    retry(|s| (s.backoff, s.backoff_max) = (ms(3_600_000), ms(3_600_000))).expect("an hour");
}

#[test]
fn a_useful_run_is_within_the_run_limit() {
    let door = |run| Deadline::new(MinRun::Fixed(run), ms(5000));
    refused(door(ms(5001)), "min_run", "5.001s");
    door(ms(5000)).expect("all of it");
    door(ms(0)).expect("nothing");
    Deadline::new(MinRun::Auto, ms(0)).expect("learned");
}

#[test]
fn rates_are_read_or_refused() {
    for (text, millis) in
        [("20/s", 50), (" 60 / min ", 1000), ("5/h", 720_000), ("1/d", 86_400_000), ("1000/s", 1)]
    {
        assert_eq!(text.parse::<Rate>().expect(text).interval(), ms(millis));
    }
    for (text, fix) in [
        ("20", "per what"),
        ("", "per what"),
        ("20 s", "per what"),
        ("20/m", "s, min, h or d"),
        ("20/", "s, min, h or d"),
        ("20/s/s", "s, min, h or d"),
        ("0.5/s", "longer unit"),
        ("-1/s", "longer unit"),
        ("/s", "longer unit"),
        ("many/s", "longer unit"),
        ("4294967296/s", "longer unit"),
    ] {
        let error = text.parse::<Rate>().expect_err(text);
        assert!(error.fix.contains(fix), "{error}");
        refused(Err::<(), _>(error), "rate", text);
    }
    refused("0/s".parse::<Rate>(), "rate", "0/s");
    refused("1000001/s".parse::<Rate>(), "rate", "1000001/s");
    assert_eq!("1000000/s".parse::<Rate>().expect("most").interval(), Duration::from_micros(1));

    let rate = Rate::new(u32::MAX, Per::Day).expect("not more than a million a second");
    refused(RateLimit::new(rate, 0), "burst", "0");
    let mut limit = RateLimit::new(rate, u32::MAX).expect("any burst");
    assert!((0..1000).all(|_| limit.admit(at(0)).is_ok()));
}
