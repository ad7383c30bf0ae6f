//! The door on real sockets: a vendor that throttles is left alone, one that fails has the breaker
//! open, one that only says no has not.
#![cfg(all(feature = "http", feature = "testing"))]

use std::time::Duration;

use watertight::driver::http::{Http, Request};
use watertight::outcome::Status;
use watertight::resilience::breaker::{Policy, State, Window};
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{PartitionSpec, Runtime, ToolCall};

fn runtime(vendor: &Vendor, spec: PartitionSpec) -> Runtime {
    let client = Http::new(vendor.url()).open(&spec.sizing()).unwrap();
    let tool = client.tool(Request::get("/")).unwrap();
    Runtime::builder().partition(spec).tool("search", "search", tool).build().unwrap()
}

fn spec() -> PartitionSpec {
    let policy = Policy {
        window: Window::Count(4),
        minimum_calls: 4,
        cool_down: Duration::from_secs(60),
        ..Policy::default()
    };
    PartitionSpec::new("search").slots(2).breaker(policy)
}

fn status(runtime: &Runtime) -> Status {
    runtime.call(ToolCall::new("search")).status()
}

fn breaker(runtime: &Runtime) -> State {
    runtime.partition("search").unwrap().snapshot().breaker.unwrap().state
}

#[test]
fn a_vendor_that_asks_for_a_pause_gets_it() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(429).header("Retry-After", "86400")));
    let runtime = runtime(&vendor, spec());
    let first = runtime.call(ToolCall::new("search"));
    assert_eq!(first.status(), Status::Throttled);
    assert_eq!(first.retry_after(), Some(Duration::from_secs(60)), "not for a day");
    for _ in 0..50 {
        let refused = runtime.call(ToolCall::new("search"));
        assert_eq!(refused.status(), Status::Throttled);
        assert!(refused.retry_after().unwrap() <= Duration::from_secs(60));
    }
    assert_eq!(vendor.counts().requests, 1, "the vendor has its peace");
    assert_eq!(breaker(&runtime), State::Closed);
}

#[test]
fn ten_throttled_answers_leave_the_breaker_alone() {
    let vendor = Vendor::start().unwrap();
    let runtime = runtime(&vendor, spec().throttle_max(Duration::ZERO));
    vendor.set(Behaviour::Answer(Reply::status(429)));
    for _ in 0..10 {
        assert_eq!(status(&runtime), Status::Throttled);
    }
    assert_eq!((vendor.counts().requests, breaker(&runtime)), (10, State::Closed));
}

#[test]
fn failures_of_the_vendor_open_the_breaker_and_refusals_do_not() {
    let vendor = Vendor::start().unwrap();
    let runtime = runtime(&vendor, spec());
    vendor.set(Behaviour::Answer(Reply::status(404)));
    for _ in 0..10 {
        assert_eq!(status(&runtime), Status::Failed);
    }
    assert_eq!(breaker(&runtime), State::Closed);
    vendor.set(Behaviour::Answer(Reply::status(500)));
    while breaker(&runtime) == State::Closed {
        assert_eq!(status(&runtime), Status::Failed);
    }
    let seen = vendor.counts().requests;
    assert!(seen <= 14, "the window is four calls: {seen}");
    assert_eq!(status(&runtime), Status::CircuitOpen);
    assert_eq!(vendor.counts().requests, seen);

    vendor.set(Behaviour::Answer(Reply::default()));
    runtime.partition("search").unwrap().close_breaker();
    assert_eq!(status(&runtime), Status::Ok);
}
