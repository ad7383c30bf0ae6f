//! Whether a saturated neighbour is felt: the p99 of a fast tool while the partition next door is
//! full of hung calls, against the same alone; and, as the control, both in one shared pool.
//! `cargo bench --bench isolation`

#![allow(clippy::print_stdout, reason = "its figures are its product")]

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/support/postgres.rs"]
mod postgres_server;
mod support;
#[path = "support/tail.rs"]
mod tail;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{compare, median, upper_bound};
use tail::p99;
use watertight::driver::Tool;
use watertight::driver::http::{Http, Request};
use watertight::driver::postgres::Postgres;
use watertight::driver::sql::Query;
use watertight::driver::sqlite::Sqlite;
use watertight::telemetry::Latency;
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{PartitionSpec, Runtime, Ticket, ToolCall};

const CALLS: u32 = 20_000;
const BLOCKS: usize = 15;
const SLOTS: u32 = 4;
const SHARED_CALLS: u32 = 60;
const HANG: Duration = Duration::from_millis(400);
const SQL: &str = "select 7 as id, 'api' as name";

fn main() {
    let cluster = postgres_server::Cluster::shared();
    let vendor = Vendor::start().expect("a loopback port");
    vendor.set(Behaviour::Hang);
    vendor.set_path("/fast", Behaviour::Answer(Reply::json(r#"{"id": 7}"#)));
    let mut all_hold = true;
    for name in ["sqlite", "postgresql", "http"] {
        let fast = |spec: &PartitionSpec| fast_tool(name, spec, &vendor, &cluster.url());
        all_hold &= measure(name, &fast, &vendor);
    }
    assert!(all_hold, "a bound is broken");
}

fn fast_tool(name: &str, spec: &PartitionSpec, vendor: &Vendor, url: &str) -> Arc<dyn Tool> {
    let sizing = spec.sizing();
    match name {
        "sqlite" => {
            { Sqlite::new("sqlite::memory:").open(&sizing).expect("memory").tool(Query::new(SQL)) }
                .expect("a query")
        }
        "postgresql" => {
            Postgres::new(url).open(&sizing).expect("a url").tool(Query::new(SQL)).expect("a query")
        }
        _ => Http::new(vendor.url())
            .open(&sizing)
            .expect("a url")
            .tool(Request::get("/fast"))
            .expect("a request"),
    }
}

/// A runtime with a fast tool and a slow one, behind two walls or in one pool of both's slots.
fn harness(
    fast: &dyn Fn(&PartitionSpec) -> Arc<dyn Tool>,
    vendor: &Vendor,
    walls: bool,
) -> Runtime {
    let slow_home = if walls { "slow" } else { "fast" };
    let slots = if walls { SLOTS } else { 2 * SLOTS };
    let spec = PartitionSpec::new("fast").slots(slots).max_wait(Duration::from_secs(60));
    let slow_spec = PartitionSpec::new("slow").slots(SLOTS);
    let slow_sizing = if walls { slow_spec.sizing() } else { spec.sizing() };
    let http = Http::new(vendor.url()).open(&slow_sizing).expect("a url");
    Runtime::builder()
        .tool("fast", "fast", fast(&spec))
        .tool("slow", slow_home, http.tool(Request::get("/slow")).expect("a request"))
        .partition(spec)
        .partition(slow_spec)
        .build()
        .expect("a few threads")
}

fn measure(name: &str, fast: &dyn Fn(&PartitionSpec) -> Arc<dyn Tool>, vendor: &Vendor) -> bool {
    let walled = harness(fast, vendor, true);
    let neighbour = harness(fast, vendor, true);
    let _held = saturate(&neighbour, vendor);
    let mut last = (0.0, 0.0);
    let comparison = compare(
        BLOCKS,
        || {
            last.0 = p99(&walled, "fast", CALLS);
            last.0
        },
        || {
            last.1 = p99(&neighbour, "fast", CALLS);
            last.1
        },
    );
    println!("{name}: p99 of the last block alone {:.1} us, beside it {:.1} us", last.0, last.1);
    let noise = median(&comparison.noise);
    let holds =
        comparison.report(&format!("{name}: p99 beside a hung neighbour / alone"), 1.25 * noise);

    let shared = shared_pool(fast, vendor);
    let ratio = shared / last.0;
    println!("{name}: p99 in one shared pool {shared:.0} us, {ratio:.0} times worse (bound 20)");
    holds && ratio >= 20.0 && upper_bound(&comparison.ratios).is_finite()
}

/// Fills the slow partition of `runtime` with calls that hang.
fn saturate(runtime: &Runtime, vendor: &Vendor) -> Vec<Ticket<Value>> {
    let tickets = (0..SLOTS).map(|_| runtime.submit(ToolCall::new("slow"))).collect();
    assert!(vendor.wait_in_flight(SLOTS as usize, Duration::from_secs(10)), "the calls hang");
    tickets
}

/// The same p99 when slow calls keep coming into the pool that the fast ones use.
fn shared_pool(fast: &dyn Fn(&PartitionSpec) -> Arc<dyn Tool>, vendor: &Vendor) -> f64 {
    vendor.set_path("/slow", Behaviour::Delay(HANG, Reply::text("late")));
    let runtime = harness(fast, vendor, false);
    let mut latency = Latency::new();
    for _ in 0..SHARED_CALLS / 10 {
        let slow: Vec<_> = (0..2 * SLOTS).map(|_| runtime.submit(ToolCall::new("slow"))).collect();
        for _ in 0..10 {
            let start = Instant::now();
            let _ = runtime.call(ToolCall::new("fast"));
            latency.record(start.elapsed());
        }
        slow.into_iter().for_each(Ticket::detach);
    }
    vendor.set_path("/slow", Behaviour::Hang);
    latency.quantile(0.99).as_secs_f64() * 1e6
}
