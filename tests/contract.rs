//! The contract, against real loopback backends: a search vendor that hangs just under its limit
//! must not be felt by the database next door. Each test has its twin without the wall.
#![cfg(all(feature = "http", feature = "postgres", feature = "sqlite", feature = "testing"))]

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod support {
    pub(crate) mod postgres;
}

use std::sync::Arc;
use std::time::Duration;

use watertight::driver::Tool;
use watertight::driver::http::{Http, Request};
use watertight::driver::postgres::Postgres;
use watertight::driver::sql::Query;
use watertight::driver::sqlite::Sqlite;
use watertight::outcome::{Executed, Status};
use watertight::testing::{Behaviour, NotIsolated, Slow, Vendor, assert_isolated, check_isolated};
use watertight::{PartitionSpec, Runtime, ToolCall};

const SEARCH_SLOTS: u32 = 4;
const FENCE: Duration = Duration::from_millis(250);
const SECRET: &str = "s3cr3t-t0ken";
const DEPLOYMENTS: &str = "select 7 as id, 'api' as name limit $1";

/// Where `list_deployments` lives: behind its own wall, or in the search partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wall {
    Stands,
    Removed,
}

/// The database behind `list_deployments`.
#[derive(Clone, Copy)]
enum Sql<'a> {
    Postgres(&'a str),
    Sqlite,
}

fn search_spec() -> PartitionSpec {
    PartitionSpec::new("search").slots(SEARCH_SLOTS).run_limit(Duration::from_secs(29))
}

fn search_tool(vendor: &Vendor, spec: &PartitionSpec) -> Arc<dyn Tool> {
    let http = Http::new(vendor.url()).header("Authorization", format!("Bearer {SECRET}"));
    let search = http.open(&spec.sizing()).unwrap();
    search.tool(Request::get("/search").query("q", "{q}")).unwrap()
}

fn harness(vendor: &Vendor, sql: Sql<'_>, wall: Wall) -> Runtime {
    let search = search_spec();
    let database = PartitionSpec::new("database").slots(4);
    let query = Query::new(DEPLOYMENTS).param("{limit}");
    let deployments = match sql {
        Sql::Postgres(url) => Postgres::new(url).open(&database.sizing()).unwrap().tool(query),
        Sql::Sqlite => Sqlite::new("sqlite::memory:").open(&database.sizing()).unwrap().tool(query),
    };
    let home = if wall == Wall::Stands { "database" } else { "search" };
    Runtime::builder()
        .tool("search_docs", "search", search_tool(vendor, &search))
        .tool("list_deployments", home, deployments.unwrap())
        .partition(search)
        .partition(database)
        .build()
        .unwrap()
}

fn search_docs() -> ToolCall {
    ToolCall::new("search_docs").arg("q", "x")
}

fn list_deployments() -> ToolCall {
    ToolCall::new("list_deployments").arg("limit", 10)
}

fn hung_vendor() -> Vendor {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    vendor
}

fn the_wall_stands(sql: Sql<'_>) {
    let vendor = hung_vendor();
    let runtime = harness(&vendor, sql, Wall::Stands);
    assert!(runtime.call(list_deployments()).is_ok(), "the database answers before it matters");
    let slow = Slow::new(search_docs()).in_flight_max(|| vendor.counts().in_flight_max);
    let isolated = assert_isolated(&runtime, &slow, list_deployments(), FENCE);
    assert_eq!(isolated.in_flight_max, SEARCH_SLOTS as usize);
    let rows = isolated.outcome.ok().unwrap();
    assert!(rows.to_string().contains("api"), "{rows}");
}

fn without_the_wall_it_is_red(sql: Sql<'_>) {
    let vendor = hung_vendor();
    let runtime = harness(&vendor, sql, Wall::Removed);
    assert!(runtime.call(list_deployments()).is_ok(), "the tool itself is healthy");
    let slow = Slow::new(search_docs()).in_flight_max(|| vendor.counts().in_flight_max);
    let broken = check_isolated(&runtime, &slow, list_deployments(), FENCE).unwrap_err();
    let NotIsolated::Starved { outcome, .. } = broken else { panic!("{broken}") };
    assert_eq!(outcome.status(), Status::Busy);
}

#[test]
fn a_hung_search_is_not_felt_on_postgresql() {
    let cluster = support::postgres::Cluster::shared();
    the_wall_stands(Sql::Postgres(&cluster.url()));
}

#[test]
fn without_the_wall_a_hung_search_starves_postgresql() {
    let cluster = support::postgres::Cluster::shared();
    without_the_wall_it_is_red(Sql::Postgres(&cluster.url()));
}

#[test]
fn a_hung_search_is_not_felt_on_sqlite() {
    the_wall_stands(Sql::Sqlite);
}

#[test]
fn without_the_wall_a_hung_search_starves_sqlite() {
    without_the_wall_it_is_red(Sql::Sqlite);
}

#[test]
#[should_panic(expected = "not isolated")]
fn the_assertion_itself_goes_red() {
    let vendor = hung_vendor();
    let runtime = harness(&vendor, Sql::Sqlite, Wall::Removed);
    assert_isolated(&runtime, &Slow::new(search_docs()), list_deployments(), FENCE);
}

#[test]
fn an_unsaturated_neighbour_shows_nothing() {
    let vendor = hung_vendor();
    let runtime = harness(&vendor, Sql::Sqlite, Wall::Stands);
    let too_few = Slow::new(search_docs()).calls(1);
    vendor.set(Behaviour::Answer(watertight::testing::Reply::text("at once")));
    let broken = check_isolated(&runtime, &too_few, list_deployments(), FENCE).unwrap_err();
    assert!(matches!(broken, NotIsolated::NotSaturated { .. }), "{broken}");
}

#[test]
fn a_busy_result_is_honest_and_keeps_secrets() {
    let vendor = hung_vendor();
    let runtime = harness(&vendor, Sql::Sqlite, Wall::Stands);
    let held: Vec<_> = (0..SEARCH_SLOTS).map(|_| runtime.submit(search_docs())).collect();
    assert!(vendor.wait_in_flight(SEARCH_SLOTS as usize, Duration::from_secs(10)));

    let busy = runtime.call(search_docs());
    assert_eq!(busy.status(), Status::Busy);
    assert_eq!(busy.executed(), Executed::No);
    let hint = busy.retry_after().expect("a busy result says when to come back");
    assert!((Duration::from_millis(1)..=Duration::from_secs(30)).contains(&hint), "{hint:?}");

    let json = busy.to_json();
    assert_eq!(json["reason"], "slots_full");
    assert!(json["retry_after_ms"].as_u64().is_some_and(|ms| ms >= 1));
    let detail = json["detail"].as_str().unwrap();
    for said in ["other tools are unaffected", "Nothing was started", "retry this same call"] {
        assert!(detail.contains(said), "{detail}");
    }
    let all = json.to_string();
    for never in [SECRET, "Bearer", "panicked", "stack", ".rs:"] {
        assert!(!all.contains(never), "{all}");
    }
    drop(held);
}

#[test]
fn a_hung_partition_drains_at_its_limit_and_goes_on() {
    let vendor = hung_vendor();
    let spec = search_spec().run_limit(Duration::from_millis(300));
    let tool = search_tool(&vendor, &spec);
    let builder = Runtime::builder().tool("search_docs", "search", tool).partition(spec);
    let runtime = builder.build().unwrap();
    let calls = (0..SEARCH_SLOTS).map(|_| search_docs());
    for (_, outcome) in runtime.turn(calls) {
        assert_eq!(outcome.status(), Status::Timeout, "{outcome:?}");
        assert_eq!(outcome.to_json()["clock"], "run");
    }
    vendor.set(Behaviour::Answer(watertight::testing::Reply::text("well again")));
    let next = runtime.call(search_docs());
    assert!(next.is_ok(), "{next:?}");
    let gauges = runtime.snapshot().partition("search").unwrap().gauges;
    assert_eq!((gauges.free, gauges.running, gauges.overdue), (SEARCH_SLOTS, 0, 0));
}
