//! What a driver costs on the calling thread, beside the bare library with the same settings in the
//! same run; and, apart from that, what the hand-off to its partition adds.
//! `cargo bench --bench drivers`, or with `-- SELECT` those alone whose name holds that.
//!
//! Decoding is left out on both sides, and rows are read one by one, as who bounds them must. Fails
//! if a driver costs more than 1.05 of its library, given the library's spread against itself. What
//! the shim of a child process adds is printed only.

#![allow(clippy::print_stdout, reason = "its figures are its product")]

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/support/postgres.rs"]
mod postgres_server;
mod support;

use std::hint::black_box;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::fallible_iterator::FallibleIterator;
use postgres_server::Cluster;
use r2d2_postgres::PostgresConnectionManager;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use support::{compare, median};
use ureq::Agent;
use watertight::call::{CancelToken, Run};
use watertight::driver::http::{Http, Request};
use watertight::driver::postgres::Postgres;
use watertight::driver::process::{Command, Process, Shim};
use watertight::driver::sql::Query;
use watertight::driver::{Args, Sizing, Tool};
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{PartitionSpec, Runtime, ToolCall};

/// How many blocks, of how many calls. Children are slow, and something else often gets between two
/// of them.
const REQUESTS: (usize, u32) = (25, 500);
const CHILDREN: (usize, u32) = (101, 20);
const BOUND: f64 = 1.05;
const LIMIT: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(5);
const BODY_MAX: u64 = 1024 * 1024;
const SQL: &str = "select 7 as id, 'api' as name";
const PROGRAM: &str = "/bin/true";

fn main() {
    stay_on_one_processor();
    let vendor = Vendor::start().expect("a loopback port");
    vendor.set(Behaviour::Answer(Reply::json(r#"{"id": 7}"#)));
    let cluster = Cluster::start(&[]);
    let shim = Shim::At(PathBuf::from(env!("CARGO_BIN_EXE_watertight-shim")));

    let mut hold = true;
    let tool = http(&vendor);
    hold &= measure("HTTP GET / ureq", &tool, REQUESTS, bare_http(&vendor), true);
    let tool = postgresql(&cluster);
    hold &= measure("SELECT / r2d2", &tool, REQUESTS, bare_select(&cluster), true);
    let tool = process(Shim::Off);
    hold &= measure("child / std", &tool, CHILDREN, bare_child, true);
    measure("child with a shim / std", &process(shim), CHILDREN, bare_child, false);
    assert!(hold, "a bound is broken");
}

/// This process and the servers that it starts: where the scheduler puts a server makes more of a
/// difference than any driver, and it stays so for a whole run.
fn stay_on_one_processor() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).expect("it runs there already");
}

/// Whether the command line asks for `what`, by a part of its name or by none.
fn is_wanted(what: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| what.contains(&word))
}

fn sizing() -> Sizing {
    spec().sizing()
}

fn spec() -> PartitionSpec {
    PartitionSpec::new("bench").slots(1).run_limit(LIMIT)
}

fn http(vendor: &Vendor) -> Arc<dyn Tool> {
    let client = Http::new(vendor.url())
        .connect_timeout(CONNECT)
        .body_max(BODY_MAX)
        .open(&sizing())
        .expect("a base URL");
    client.tool(Request::get("/item")).expect("a request")
}

fn bare_http(vendor: &Vendor) -> impl FnMut() + use<> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .accept_encoding("identity")
        .max_idle_connections(1)
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .build()
        .into();
    let url = format!("{}/item", vendor.url());
    move || {
        let request = agent.get(&url).config().timeout_global(Some(LIMIT)).build();
        let mut response = request.call().expect("the vendor answers");
        let body = response.body_mut().with_config().limit(BODY_MAX);
        black_box(body.read_to_vec().expect("a body"));
    }
}

fn postgresql(cluster: &Cluster) -> Arc<dyn Tool> {
    let db = Postgres::new(cluster.url()).open(&sizing()).expect("a URL");
    db.tool(Query::new(SQL)).expect("a query")
}

fn bare_select(cluster: &Cluster) -> impl FnMut() + use<> {
    let mut config: postgres::Config = cluster.url().parse().expect("a URL");
    config.connect_timeout(CONNECT);
    let millis = LIMIT.as_millis();
    config
        .options(&format!("-c statement_timeout={millis} -c client_connection_check_interval=500"));
    let pool = r2d2::Pool::builder()
        .max_size(1)
        .test_on_check_out(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .build(PostgresConnectionManager::new(config, postgres::NoTls))
        .expect("the server runs");
    let prepared = pool.get().expect("a connection").prepare(SQL);
    let statement = prepared.expect("a query");
    move || {
        let mut client = pool.get_timeout(LIMIT).expect("a connection");
        let params: [&str; 0] = [];
        let mut rows = client.query_raw(&statement, params).expect("it runs");
        let mut kept = Vec::new();
        while let Some(row) = rows.next().expect("a row") {
            kept.push(row);
        }
        black_box(kept);
    }
}

fn process(shim: Shim) -> Arc<dyn Tool> {
    let launcher = Process::new().shim(shim).open(&sizing());
    let command = Command::new([PROGRAM]);
    let launcher = launcher.expect("a launcher");
    launcher.tool(command).expect("a command")
}

fn bare_child() {
    let mut command = std::process::Command::new(PROGRAM);
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success());
}

/// Prints the driver's cost, and the hand-off's on top of it; whether the driver's is within its
/// bound, if it has one.
fn measure(
    what: &str,
    tool: &Arc<dyn Tool>,
    (blocks, calls): (usize, u32),
    mut bare: impl FnMut(),
    bounded: bool,
) -> bool {
    if !is_wanted(what) {
        return true;
    }
    let here = || {
        let mut operation = tool.prepare(&Args::new()).expect("no arguments");
        let run = Run::detached(LIMIT, CancelToken::new());
        drop(black_box(operation(&run).expect("it works")));
    };
    let costs = compare(blocks, || micros(calls, &mut bare), || micros(calls, here));
    let runtime = Runtime::builder()
        .partition(spec())
        .tool("tool", "bench", Arc::clone(tool))
        .build()
        .expect("a thread");
    let offered = || assert!(runtime.call(ToolCall::new("tool")).is_ok());
    let mut handed = Vec::new();
    for _ in 0..blocks {
        let alone = micros(calls, here);
        handed.push(micros(calls, offered) - alone);
    }
    println!(
        "{what}: bare {:.1} us, driver {:.1} us; the hand-off, with decoding, {:+.1} us",
        micros(calls, &mut bare),
        micros(calls, here),
        median(&handed)
    );
    let bound = BOUND * median(&costs.noise).max(1.0);
    let most = if bounded { bound } else { f64::INFINITY };
    costs.report(what, most)
}

/// Microseconds a call.
fn micros(calls: u32, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}
