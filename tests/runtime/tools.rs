//! Configured tools: what is wrong with a call is said before it takes a slot, and decoding is on
//! the caller's thread, when the slot is free.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use watertight::call::{Run, Terms};
use watertight::driver::{Args, Operation, Response, Tool};
use watertight::outcome::{CallError, Executed, Failure, FailureReason, Outcome, Status};
use watertight::{Partition, PartitionSpec, Runtime, ToolCall, Turn};

use crate::support::{assert_whole, ends, held};

/// A tool that a test writes in place.
struct Custom<F>(F);

impl<F> Tool for Custom<F>
where
    F: Fn(&Args) -> Result<Operation, Failure> + Send + Sync + 'static,
{
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        (self.0)(args)
    }
}

fn tool(
    prepare: impl Fn(&Args) -> Result<Operation, Failure> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(Custom(prepare))
}

/// Decodes to the name of the thread that does it.
fn where_decoded(_: &Args) -> Result<Operation, Failure> {
    Ok(Box::new(|_: &Run| Ok(Response::new(|| Ok(json!(thread::current().name()))))))
}

fn runtime(tools: impl IntoIterator<Item = (&'static str, Arc<dyn Tool>)>) -> (Runtime, Partition) {
    let spec = PartitionSpec::new("search").slots(1).queue(0);
    let mut builder = Runtime::builder().partition(spec);
    for (name, tool) in tools {
        builder = builder.tool(name, "search", tool);
    }
    let runtime = builder.build().unwrap();
    let search = runtime.partition("search").unwrap().clone();
    (runtime, search)
}

#[track_caller]
fn failure(outcome: Outcome<Value>) -> Failure {
    match outcome.result {
        Err(CallError::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_tools_and_bad_arguments_take_no_slot() {
    let picky = tool(|args| match args.get("q") {
        Some(_) => where_decoded(args),
        None => {
            let failure = Failure::new(FailureReason::InvalidCall, "argument `q` is missing");
            Err(failure.executed(Executed::No))
        }
    });
    let (runtime, search) = runtime([("search_docs", picky)]);
    let outcome = runtime.call(ToolCall::new("serch_docs"));
    assert_eq!((&*outcome.partition, outcome.tool.as_deref()), ("", Some("serch_docs")));
    let unknown = failure(outcome);
    assert_eq!(unknown.reason, FailureReason::UnknownTool);
    assert_eq!(unknown.executed, Executed::No);
    assert!(unknown.message.contains("serch_docs"));

    let outcome = runtime.call(ToolCall::new("search_docs"));
    assert_eq!(&*outcome.partition, "search");
    let invalid = failure(outcome);
    assert_eq!(invalid.reason, FailureReason::InvalidCall);
    assert_eq!(invalid.executed, Executed::No);
    assert_eq!(search.snapshot().offered, 0);
    assert!(runtime.call(ToolCall::new("search_docs").arg("q", "x")).is_ok());
}

#[test]
fn decoding_is_on_the_callers_thread_and_holds_no_slot() {
    let (runtime, search) = runtime([("where", tool(where_decoded))]);
    let here = thread::current().name().unwrap().to_owned();
    let outcome = runtime.call(ToolCall::new("where"));
    assert_eq!(outcome.tool.as_deref(), Some("where"));
    assert_eq!(outcome.ok(), Some(json!(here)));
    assert_eq!(search.snapshot().counts.ok, 1);

    let full = search.clone();
    let busy_decoder = tool(move |_| {
        let full = full.clone();
        Ok(Box::new(move |_: &Run| {
            let full = full.clone();
            Ok(Response::new(move || Ok(json!(full.call(|_| Ok(())).is_ok()))))
        }))
    });
    let (runtime, _) = self::runtime([("nested", busy_decoder)]);
    let outcome = ends("a call while decoding", move || runtime.call(ToolCall::new("nested")));
    assert_eq!(outcome.ok(), Some(json!(true)));
}

#[test]
fn a_decoder_that_fails_or_panics() {
    let decodes = |decode: fn() -> Result<Value, Failure>| {
        tool(move |_| Ok(Box::new(move |_: &Run| Ok(Response::new(decode)))))
    };
    let (runtime, search) = runtime([
        ("fails", decodes(|| Err(Failure::new(FailureReason::Decode, "not JSON")))),
        ("panics", decodes(|| resume_unwind(Box::new("a decoder")))),
    ]);
    let failed = failure(runtime.call(ToolCall::new("fails")));
    assert_eq!((failed.reason, failed.executed), (FailureReason::Decode, Executed::Yes));
    let outcome = runtime.call(ToolCall::new("panics"));
    assert_eq!(outcome.status(), Status::Panicked);
    assert_whole(&search);
}

#[test]
fn a_tool_that_panics_over_its_arguments() {
    let (runtime, search) = runtime([("panics", tool(|_| resume_unwind(Box::new("a tool"))))]);
    let outcome = runtime.call(ToolCall::new("panics"));
    assert_eq!(outcome.status(), Status::Panicked);
    assert_eq!(&*outcome.partition, "search");
    assert_eq!(search.snapshot().offered, 0);
}

#[test]
fn a_turn_of_tools() {
    let (held, body) = held();
    let body = std::sync::Mutex::new(Some(body));
    let holds = tool(move |_| {
        let mut body = body.lock().unwrap().take();
        Ok(Box::new(move |run: &Run| {
            body.take().expect("it is called once")(run)?;
            Ok(Response::new(|| Ok(json!("held"))))
        }))
    });
    let (runtime, _search) = runtime([("holds", holds)]);
    let calls = ["holds", "nowhere", "holds"].map(|name| {
        let terms = Terms::new().tenant("s-7");
        ToolCall::new(name).terms(terms)
    });
    let mut turn: Turn<Value> = runtime.turn(calls);
    let (index, outcome) = turn.next().unwrap();
    assert_eq!((index, outcome.status()), (1, Status::Failed));
    let (index, outcome) = turn.next().unwrap();
    assert_eq!((index, outcome.status()), (2, Status::Busy));
    held.wait_begun();
    held.release();
    let (index, outcome) = turn.next().unwrap();
    assert_eq!((index, outcome.ok()), (0, Some(json!("held"))));
}

#[test]
fn tools_and_partitions_that_do_not_fit() {
    let builder = || Runtime::builder().partition(PartitionSpec::new("search"));
    let nowhere = builder().tool("t", "serch", tool(where_decoded)).build();
    let error = nowhere.unwrap_err();
    assert_eq!((error.error.key, &*error.error.value), ("partition", "\"serch\""));
    let twice =
        builder().tool("t", "search", tool(where_decoded)).tool("t", "search", tool(where_decoded));
    let error = twice.build().unwrap_err();
    assert_eq!((error.error.key, &*error.error.value), ("tool", "\"t\""));

    let (runtime, _) = runtime([("b", tool(where_decoded)), ("a", tool(where_decoded))]);
    assert_eq!(runtime.tools(), ["a", "b"]);
    assert_eq!(runtime.partition_for("a", &Args::new()).unwrap().name(), "search");
    assert!(runtime.partition_for("c", &Args::new()).is_none());
}
