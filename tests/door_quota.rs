//! Quotas on real sockets: a vendor that says that no calls are left is left alone until there are
//! more, and one that takes few at once sees no more than the stated rate.
#![cfg(all(feature = "http", feature = "testing"))]

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use watertight::driver::http::{Http, Request};
use watertight::outcome::{Executed, Outcome, Status};
use watertight::resilience::breaker::{self, State, Window};
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{PartitionSpec, Runtime, ToolCall};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HANG: Duration = Duration::from_secs(60);
const REMAINING: &str = "X-RateLimit-Remaining";
const RESET: &str = "X-RateLimit-Reset";

fn runtime(http: Http, spec: PartitionSpec) -> Runtime {
    let client = http.open(&spec.sizing()).unwrap();
    let tool = client.tool(Request::get("/")).unwrap();
    Runtime::builder().partition(spec).tool("search", "search", tool).build().unwrap()
}

fn spec() -> PartitionSpec {
    let window = Window::Count(4);
    let policy = breaker::Policy { window, minimum_calls: 4, ..breaker::Policy::default() };
    PartitionSpec::new("search").slots(2).breaker(policy)
}

/// A partition that reads the two headers.
fn reading(vendor: &Vendor) -> Runtime {
    runtime(Http::new(vendor.url()).quota_headers(REMAINING, RESET), spec())
}

fn call(runtime: &Runtime) -> Outcome<Value> {
    runtime.call(ToolCall::new("search"))
}

fn breaker(runtime: &Runtime) -> breaker::Snapshot {
    runtime.partition("search").unwrap().snapshot().breaker.unwrap()
}

fn left(reply: Reply, remaining: &str, reset: &str) -> Behaviour {
    Behaviour::Answer(reply.header(REMAINING, remaining).header(RESET, reset))
}

#[test]
fn nothing_reaches_a_vendor_between_its_last_answer_and_the_reset() {
    let vendor = Vendor::start().unwrap();
    let runtime = reading(&vendor);
    let reset = Duration::from_millis(400);
    vendor.set(left(Reply::default(), "1", "60"));
    assert!(call(&runtime).is_ok());
    vendor.set(left(Reply::default(), "0", "0.4"));
    let begun = Instant::now();
    assert!(call(&runtime).is_ok(), "the last one is an answer like any other");
    vendor.set(Behaviour::default());
    loop {
        let outcome = call(&runtime);
        if outcome.is_ok() {
            break;
        }
        assert_eq!((outcome.status(), outcome.executed()), (Status::Throttled, Executed::No));
        assert_eq!(outcome.result.as_ref().unwrap_err().reason(), "backend");
        let hint = outcome.retry_after().unwrap();
        assert!(hint <= reset, "{hint:?}");
        assert!(begun.elapsed() < HANG, "it never opens");
        thread::park_timeout(hint / 4);
    }
    assert!(begun.elapsed() >= reset, "{:?}", begun.elapsed());
    assert_eq!(vendor.counts().requests, 3);
    let seen = breaker(&runtime);
    assert_eq!((seen.state, seen.calls, seen.failed), (State::Closed, 3, 0));
}

/// The hint of the call after `behaviour`; the vendor must not see it.
fn hint_after(http: impl Fn(Http) -> Http, behaviour: Behaviour) -> Option<Duration> {
    let vendor = Vendor::start().unwrap();
    let spec = spec().throttle_max(10 * MINUTE);
    let runtime = runtime(http(Http::new(vendor.url())), spec);
    vendor.set(behaviour);
    call(&runtime);
    vendor.set(Behaviour::default());
    let next = call(&runtime);
    assert_eq!(vendor.counts().requests, 1 + u64::from(next.is_ok()));
    next.retry_after()
}

#[track_caller]
fn assert_about(hint: Option<Duration>, expected: Duration, what: &str) {
    let hint = hint.unwrap_or_else(|| panic!("{what}: the door is open"));
    assert!(hint <= expected && hint > expected - 20 * SECOND, "{what}: {hint:?}");
}

#[test]
fn resets_are_read_as_vendors_write_them() {
    let in_a_minute = SystemTime::now() + MINUTE;
    let since = in_a_minute.duration_since(UNIX_EPOCH).unwrap();
    let pair = |http: Http| http.quota_headers(REMAINING, RESET);
    for reset in [
        "60".to_owned(),
        "1m0s".to_owned(),
        since.as_secs().to_string(),
        since.as_millis().to_string(),
        httpdate::fmt_http_date(in_a_minute),
    ] {
        assert_about(hint_after(pair, left(Reply::default(), "0", &reset)), MINUTE, &reset);
    }
    for (remaining, reset) in [("1", "60"), ("0", "0"), ("0", "soon"), ("none", "60")] {
        assert_eq!(hint_after(pair, left(Reply::default(), remaining, reset)), None, "{remaining}");
    }
    assert_eq!(hint_after(|http| http, left(Reply::default(), "0", "60")), None, "not asked for");
    let a_day = left(Reply::default(), "0", "86400");
    assert_about(hint_after(pair, a_day), 10 * MINUTE, "capped by throttle_max");
}

#[test]
fn of_several_quotas_the_one_that_is_used_up_longest_counts() {
    let both = |http: Http| {
        let http = http.quota_headers("Left-Requests", "Reset-Requests");
        http.quota_headers("Left-Tokens", "Reset-Tokens")
    };
    let requests = Reply::default().header("Left-Requests", "0").header("Reset-Requests", "30");
    let tokens = |left| requests.clone().header("Left-Tokens", left).header("Reset-Tokens", "60");
    assert_about(hint_after(both, Behaviour::Answer(tokens("0"))), MINUTE, "tokens");
    assert_about(hint_after(both, Behaviour::Answer(tokens("7"))), MINUTE / 2, "requests");
    let draft = Reply::default().header("RateLimit", "\"hour\";r=9;t=600, \"minute\";r=0;t=60");
    let one = |http: Http| http.quota_header("RateLimit");
    assert_about(hint_after(one, Behaviour::Answer(draft)), MINUTE, "the draft");
}

#[test]
fn a_refusal_that_says_when_comes_first() {
    let vendor = Vendor::start().unwrap();
    let runtime = reading(&vendor);
    let refusal = || Reply::status(429);
    vendor.set(left(refusal().header("Retry-After", "7"), "0", "60"));
    let outcome = call(&runtime);
    assert_eq!((outcome.status(), outcome.retry_after()), (Status::Throttled, Some(7 * SECOND)));
    assert!(call(&runtime).retry_after().unwrap() <= 7 * SECOND);
    runtime.partition("search").unwrap().close_breaker();

    vendor.set(left(refusal(), "0", "60"));
    let outcome = call(&runtime);
    assert_eq!((outcome.status(), outcome.retry_after()), (Status::Throttled, Some(MINUTE)));
    assert_about(call(&runtime).retry_after(), MINUTE, "as the first was told");
    runtime.partition("search").unwrap().close_breaker();

    vendor.set(left(Reply::status(403), "0", "60"));
    assert_eq!(call(&runtime).status(), Status::Failed, "a no is a no");
    assert_eq!(call(&runtime).status(), Status::Throttled);
    assert_eq!((vendor.counts().requests, breaker(&runtime).failed), (3, 0));
}

/// It takes two at once, the partition has twelve slots and a stated rate.
#[test]
fn a_vendor_that_refuses_above_two_in_flight_sees_the_stated_rate() {
    const PER_SECOND: f64 = 20.0;
    const BURST: f64 = 12.0;
    let vendor = Vendor::start().unwrap();
    let (delay, over) = (Duration::from_millis(300), Reply::status(429).header("Retry-After", "1"));
    vendor.set(Behaviour::AtMost { in_flight: 2, delay, reply: Reply::default(), over });
    let spec = spec().slots(12).queue(0).rate("20/s".parse().unwrap()).burst(12);
    let spec = spec.throttle_max(Duration::from_millis(100));
    let runtime = runtime(Http::new(vendor.url()), spec);
    let begun = Instant::now();
    let mut tickets: Vec<_> = (0..12).map(|_| runtime.submit(ToolCall::new("search"))).collect();
    let (mut refused, mut seen) = (0, 0);
    while refused < 10 || begun.elapsed() < SECOND {
        assert!(begun.elapsed() < HANG, "only {refused} were refused");
        for ticket in std::mem::take(&mut tickets) {
            let outcome = ticket.wait();
            refused += u32::from(
                outcome.status() == Status::Throttled && outcome.timing.ran > Duration::ZERO,
            );
        }
        tickets.extend((0..12).map(|_| runtime.submit(ToolCall::new("search"))));
        thread::park_timeout(Duration::from_millis(10));
        seen = vendor.counts().requests;
        let allowed = BURST + PER_SECOND * begun.elapsed().as_secs_f64();
        assert!(seen as f64 <= allowed, "{seen} of {allowed}");
    }
    assert!(seen > 12, "it is called again after the pause");
    let breaker = breaker(&runtime);
    assert_eq!((breaker.state, breaker.failed), (State::Closed, 0), "{refused} were refused");
}
