//! The door on real sockets: a vendor that throttles is left alone, one that fails has the breaker
//! open, one that only says no has not.
#![cfg(all(feature = "http", feature = "testing"))]

use std::thread;
use std::time::{Duration, Instant};

use watertight::call::Terms;
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

/// A tool a dependency, all of one vendor: `/llm`, `/search`, `/orders`.
fn desk(vendor: &Vendor, partitions: [(&'static str, PartitionSpec); 3]) -> Runtime {
    let mut builder = Runtime::builder();
    let mut known = Vec::new();
    for (tool, spec) in partitions {
        let client = Http::new(vendor.url()).open(&spec.sizing()).unwrap();
        let request = client.tool(Request::get(format!("/{tool}"))).unwrap();
        builder = builder.tool(tool, spec.name(), request);
        if !known.contains(&spec.name().to_owned()) {
            known.push(spec.name().to_owned());
            builder = builder.partition(spec);
        }
    }
    builder.build().unwrap()
}

fn compartment(name: &'static str, slots: u32) -> PartitionSpec {
    let policy = Policy {
        window: Window::Count(3),
        minimum_calls: 3,
        cool_down: Duration::from_millis(300),
        cool_down_growth: 1.0,
        ..Policy::default()
    };
    let spec = PartitionSpec::new(name).slots(slots).queue(0).breaker(policy);
    spec.run_limit(Duration::from_millis(800))
}

fn call(runtime: &Runtime, tool: &str) -> Status {
    runtime.call(ToolCall::new(tool)).status()
}

fn searched(vendor: &Vendor) -> usize {
    vendor.seen().iter().filter(|seen| seen.target == "/search").count()
}

#[test]
fn a_slow_search_costs_the_search_and_one_probe_brings_it_back() {
    let vendor = Vendor::start().unwrap();
    let specs = [("llm", 8), ("search", 3), ("orders", 4)];
    let runtime = desk(&vendor, specs.map(|(name, slots)| (name, compartment(name, slots))));
    vendor.set_path("/search", Behaviour::Hang);
    let hung: Vec<_> = (0..3).map(|_| runtime.submit(ToolCall::new("search"))).collect();
    assert!(vendor.wait_in_flight(3, Duration::from_secs(30)));
    assert_eq!(call(&runtime, "search"), Status::Busy);
    assert_eq!((call(&runtime, "llm"), call(&runtime, "orders")), (Status::Ok, Status::Ok));
    for ticket in hung {
        assert_eq!(ticket.wait().status(), Status::Timeout);
    }

    vendor.set_path("/search", Behaviour::Answer(Reply::default()));
    let before = searched(&vendor);
    let begun = Instant::now();
    while runtime.call(ToolCall::new("search")).status() == Status::CircuitOpen {
        assert_eq!(call(&runtime, "llm"), Status::Ok);
        assert!(begun.elapsed() < Duration::from_secs(30), "no probe is let through");
        thread::park_timeout(Duration::from_millis(5));
    }
    assert!(begun.elapsed() >= Duration::from_millis(200), "it was left alone for its cool-down");
    assert_eq!(searched(&vendor), before + 1, "one probe, and it closes");
    assert_eq!((call(&runtime, "search"), call(&runtime, "orders")), (Status::Ok, Status::Ok));
}

#[test]
fn on_a_shared_pool_a_slow_search_stops_everything() {
    let vendor = Vendor::start().unwrap();
    let tools = ["llm", "search", "orders"];
    let runtime = desk(&vendor, tools.map(|tool| (tool, compartment("shared", 15))));
    assert_eq!((call(&runtime, "llm"), call(&runtime, "orders")), (Status::Ok, Status::Ok));
    vendor.set_path("/search", Behaviour::Hang);
    let hung: Vec<_> = (0..15).map(|_| runtime.submit(ToolCall::new("search"))).collect();
    assert!(vendor.wait_in_flight(15, Duration::from_secs(30)));
    assert_eq!((call(&runtime, "llm"), call(&runtime, "orders")), (Status::Busy, Status::Busy));
    drop(hung);
}

#[test]
fn a_call_has_one_key_and_the_callers_own_is_kept() {
    let vendor = Vendor::start().unwrap();
    let spec = PartitionSpec::new("orders");
    let client = Http::new(vendor.url()).open(&spec.sizing()).unwrap();
    let tool = client.tool(Request::post("/").idempotency_header("Idempotency-Key")).unwrap();
    let runtime = Runtime::builder().partition(spec).tool("order", "orders", tool).build().unwrap();
    assert_eq!(call(&runtime, "order"), Status::Ok);
    assert_eq!(call(&runtime, "order"), Status::Ok);
    let own = Terms::new().idempotency_key("order-7");
    assert!(runtime.call(ToolCall::new("order").terms(own)).is_ok());
    let seen = vendor.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert!(keys[0].len() == 36 && keys[0] != keys[1], "{keys:?}");
    assert_eq!(keys[2], "order-7");
}
