//! The knobs of the door: what stands before a partition's slots.

use std::time::Duration;

use watertight::PartitionSpec;
use watertight::resilience::breaker::{Policy, Window};
use watertight::resilience::deadline::MinRun;

use super::{error, errors, read};

const SECOND: Duration = Duration::from_secs(1);

#[track_caller]
fn assert_same(knobs: &str, expected: &PartitionSpec) {
    let text = format!("[partition.p]\n{knobs}\n");
    let config = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let runtime = config.build().unwrap();
    let seen = runtime.partition("p").unwrap().spec().clone();
    assert_eq!(format!("{seen:?}"), format!("{expected:?}"));
}

fn spec() -> PartitionSpec {
    PartitionSpec::new("p")
}

#[test]
fn every_knob_is_read() {
    assert_same("min_run = \"2s\"", &spec().min_run(MinRun::Fixed(2 * SECOND)));
    assert_same("min_run = \"auto\"", &spec().min_run(MinRun::Auto));
    assert_same("rate = \"20/s\"", &spec().rate("20/s".parse().unwrap()));
    let bursty = spec().rate("9/min".parse().unwrap()).burst(3);
    assert_same("burst = 3\nrate = \"9/min\"", &bursty);
    assert_same("throttle_max = \"0s\"", &spec().throttle_max(Duration::ZERO));
    assert_same("[partition.p.breaker]", &spec().breaker(Policy::default()));
    let policy = Policy {
        window: Window::Count(4),
        minimum_calls: 2,
        failure_rate: 1.0,
        slow_call: SECOND,
        slow_call_rate: 0.25,
        cool_down: 2 * SECOND,
        cool_down_growth: 1.5,
        cool_down_max: 3 * SECOND,
        cool_down_jitter: 0.0,
        probes: 2,
        count_timeouts: false,
        count_refusals: true,
    };
    let knobs = "[partition.p.breaker]\nwindow = 4\nminimum_calls = 2\nfailure_rate = 1\n\
                 slow_call = \"1s\"\nslow_call_rate = 0.25\ncool_down = \"2s\"\n\
                 cool_down_growth = 1.5\ncool_down_max = \"3s\"\ncool_down_jitter = 0\n\
                 probes = 2\ncount_timeouts = false\ncount_refusals = true";
    assert_same(knobs, &spec().breaker(policy));
    let policy = Policy { window: Window::Time(30 * SECOND), ..Policy::default() };
    assert_same("[partition.p.breaker]\nwindow = \"30s\"", &spec().breaker(policy));
    let policy = Policy { window: Window::Count(5), minimum_calls: 5, ..Policy::default() };
    assert_same("[partition.p.breaker]\nwindow = 5", &spec().breaker(policy));
}

#[test]
fn nonsense_is_refused_with_place_key_value_rule_and_fix() {
    for (knobs, said) in [
        ("min_run = \"31s\"", "2:1: partition.p.min_run = \"31s\": must be at most run_limit"),
        ("min_run = \"often\"", "partition.p.min_run = \"often\": must be a span of time"),
        ("rate = \"20\"", "partition.p.rate = \"20\": must be a whole number of calls per s"),
        ("rate = \"0/s\"", "partition.p.rate = \"0/s\": must be at least one call"),
        ("rate = 20", "partition.p.rate = 20: must be a string"),
        ("burst = 2", "partition.p.burst = 2: means nothing without a rate; add `rate`"),
        ("rate = \"1/s\"\nburst = 0", "3:1: partition.p.burst = 0: must be at least 1"),
        ("throttle_max = 5", "partition.p.throttle_max = 5: must be a span of time"),
        ("breaker = true", "partition.p.breaker = true: must be a table; write"),
        ("breaker.probes = 0", "partition.p.breaker.probes = 0: must be 1 to 1000"),
        ("breaker.failure_rate = 1.5", "breaker.failure_rate = 1.5: must be a share from 0 to 1"),
        ("breaker.failure_rate = \"1\"", "breaker.failure_rate = \"1\": must be a number"),
        ("breaker.window = 2000", "breaker.window = 2000: must be 1 to 1024 calls"),
        ("breaker.minimum_calls = 51", "breaker.minimum_calls = 51: must be at most the calls"),
        ("breaker.cool_down = \"2m\"", "breaker.cool_down = \"2m\": must be at most cool_down_max"),
        ("breaker.probe = 1", "partition.p.breaker.probe: is no known key; did you mean `probes`?"),
    ] {
        let refused = error(&format!("[partition.p]\n{knobs}\n"));
        assert!(refused.contains(said), "{refused}");
    }
    let both = errors("[partition.p]\nrate = \"x\"\nmin_run = 1\n");
    assert_eq!(both.len(), 2, "{both:?}");
}
