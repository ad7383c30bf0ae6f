//! A small synchronous harness: it fans a turn out, hands `busy` to the model as an honest result,
//! does the turn's other work first, and retries by the hint. `cargo run --example agent_harness`

#![allow(clippy::print_stdout, reason = "it shows what it does")]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use watertight::call::Terms;
use watertight::driver::Tool;
use watertight::driver::http::{Http, Request};
use watertight::driver::sql::Query;
use watertight::driver::sqlite::Sqlite;
use watertight::outcome::{Outcome, Status};
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{PartitionSpec, Runtime, ToolCall};

/// A call gives up after so many attempts; the harness answers without it.
const ATTEMPTS_MAX: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    // A vendor that takes 300 ms, behind a partition of two slots.
    let vendor = Vendor::start()?;
    vendor.set(Behaviour::Delay(Duration::from_millis(300), Reply::json(r#"{"hits": 3}"#)));
    let runtime = harness(&vendor)?;

    let search = |q: &str| ToolCall::new("search_docs").arg("q", q);
    let ticket = |id: u64| ToolCall::new("read_ticket").arg("id", id);
    let turn = vec![
        search("checkout"),
        search("latency"),
        search("deploys"),
        search("rollback"),
        search("owners"),
        ticket(1),
        ticket(2),
    ];
    take_turn(&runtime, &turn);
    Ok(())
}

fn harness(vendor: &Vendor) -> Result<Runtime, Box<dyn Error>> {
    let search = PartitionSpec::new("search").slots(2).queue(1);
    let tickets = PartitionSpec::new("tickets").slots(2);
    let http = Http::new(vendor.url()).open(&search.sizing())?;
    let search_docs = http.tool(Request::get("/search").query("q", "{q}"))?;
    let database = Sqlite::new("sqlite::memory:").open(&tickets.sizing())?;
    let query = Query::new("select $1 as id, 'slow since 14:03' as title").param("{id}");
    let read_ticket: Arc<dyn Tool> = database.tool(query)?;
    Ok(Runtime::builder()
        .tool("search_docs", "search", search_docs)
        .tool("read_ticket", "tickets", read_ticket)
        .partition(search)
        .partition(tickets)
        .build()?)
}

/// One turn: everything at once, then what was told to come back, when it was told to.
fn take_turn(runtime: &Runtime, calls: &[ToolCall]) {
    let began = Instant::now();
    let mut again: VecDeque<(Instant, ToolCall)> = VecDeque::new();
    for (index, outcome) in runtime.turn(calls.iter().cloned()) {
        report(began, &calls[index], 1, &outcome);
        if let Some(after) = retry(&outcome, 1) {
            again.push_back((Instant::now() + after, calls[index].clone()));
        }
    }
    for attempt in 2..=ATTEMPTS_MAX {
        for (due, call) in std::mem::take(&mut again) {
            wait_until(due);
            let terms = Terms::new().attempt(attempt);
            let outcome = runtime.call(call.clone().terms(terms));
            report(began, &call, attempt, &outcome);
            if let Some(after) = retry(&outcome, attempt) {
                again.push_back((Instant::now() + after, call));
            }
        }
    }
    println!("the turn took {:?}", began.elapsed());
}

/// Only what was certainly not executed, and only when it says when.
fn retry(outcome: &Outcome<Value>, attempt: u32) -> Option<Duration> {
    let may = outcome.status() == Status::Busy && attempt < ATTEMPTS_MAX;
    outcome.retry_after().filter(|_| may)
}

fn wait_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

/// What the model reads.
fn report(began: Instant, call: &ToolCall, attempt: u32, outcome: &Outcome<Value>) {
    let at = began.elapsed().as_millis();
    let said = match &outcome.result {
        Ok(result) => result.to_string(),
        Err(_) => outcome.detail().unwrap_or_default(),
    };
    println!("{at:>5} ms  {} (attempt {attempt}): {said}", call.tool());
}
