//! Idempotency keys as backends see them: a header, a bound parameter, a variable. One a call, the
//! caller's own if it has one, and none by a call that never had a slot.
#![cfg(feature = "cli")]

#[path = "support/postgres.rs"]
#[expect(dead_code, reason = "other tests stop and restart their server")]
mod server;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use server::Cluster;
use watertight::call::Terms;
use watertight::config::Config;
use watertight::outcome::{CallError, Executed, FailureReason, Status};
use watertight::testing::{Behaviour, Vendor};
use watertight::{Runtime, ToolCall};

/// A runtime of one partition, `orders`, with one tool, `order`.
fn runtime(dir: &Path, driver: &str, tool: &str) -> Runtime {
    let text = format!(
        "[partition.orders.{driver}\n\
         [tool.order]\npartition = \"orders\"\n{tool}\n"
    );
    let name = dir.join("watertight.toml");
    let config = Config::from_str(&text, name.to_str().unwrap());
    config.unwrap_or_else(|error| panic!("{error}")).build().unwrap()
}

fn order(item: &str) -> ToolCall {
    ToolCall::new("order").arg("item", item)
}

/// Makes calls with and without a key of their own, and some that get no slot; `seen` are the keys
/// the backend saw, in order.
#[track_caller]
fn assert_one_key_a_call(runtime: &Runtime, seen: impl Fn() -> Vec<String>) {
    let own = Terms::new().idempotency_key("order-7");
    for call in [order("a"), order("b"), order("c").terms(own)] {
        let outcome = runtime.call(call);
        assert!(outcome.is_ok(), "{:?}", outcome.result.err());
    }
    let keys = seen();
    assert_eq!((keys.len(), keys[2].as_str()), (3, "order-7"), "{keys:?}");
    assert_ne!(keys[0], keys[1]);
    assert!(keys[..2].iter().all(|key| is_uuid_7(key)), "{keys:?}");

    let late = order("d").terms(Terms::new().deadline(Duration::ZERO));
    assert_eq!(runtime.call(late).status(), Status::Timeout);
    runtime.partition("orders").unwrap().open_breaker();
    let refused = runtime.call(order("e").terms(Terms::new().idempotency_key("order-8")));
    assert_eq!(refused.status(), Status::CircuitOpen);
    assert_eq!(seen(), keys, "who had no slot has shown no key");
}

fn is_uuid_7(key: &str) -> bool {
    key.len() == 36 && &key[14..15] == "7"
}

#[test]
fn a_vendor_sees_it_in_a_header() {
    let vendor = Vendor::start().unwrap();
    let driver = format!("http]\nbase_url = \"{}\"", vendor.url());
    let tool = "method = \"POST\"\npath = \"/{item}\"\nidempotency_header = \"Idempotency-Key\"";
    let runtime = runtime(Path::new("."), &driver, tool);
    assert_one_key_a_call(&runtime, || {
        let seen = vendor.seen();
        seen.iter().map(|seen| seen.header("idempotency-key").unwrap().to_owned()).collect()
    });
}

#[test]
fn whoever_had_no_slot_has_shown_no_key() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let driver = format!(
        "http]\nbase_url = \"{}\"\n[partition.orders]\nslots = 1\nqueue = 1\nmax_wait = \"1m\"\n\
         rate = \"1/h\"\nburst = 4",
        vendor.url()
    );
    let tool = "method = \"POST\"\npath = \"/{item}\"\nidempotency_header = \"Idempotency-Key\"";
    let runtime = runtime(Path::new("."), &driver, tool);
    let running = runtime.submit(order("a"));
    assert!(vendor.wait_in_flight(1, Duration::from_secs(60)));
    let short = Terms::new().deadline(Duration::from_millis(1));
    assert_eq!(runtime.call(order("b").terms(short)).status(), Status::Timeout);
    let called_off = runtime.submit(order("c"));
    assert_eq!(runtime.call(order("d")).status(), Status::Busy);
    called_off.cancel();
    assert_eq!(called_off.wait().status(), Status::Cancelled);
    vendor.set(Behaviour::default());
    vendor.release();
    assert!(running.wait().is_ok());
    while runtime.call(order("e")).is_ok() {}
    assert_eq!(runtime.call(order("f")).status(), Status::Throttled);
    let seen = vendor.seen();
    assert_eq!(seen.len(), 4, "the burst: who had no slot did not use it up");
    let keys: HashSet<_> =
        seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
}

const INSERT: &str = r#"
sql = "insert into orders (item, key) values ($1, $2) on conflict (key) do nothing"
params = ["{item}"]
idempotency_param = 2
"#;

#[test]
fn sqlite_sees_it_as_a_parameter() {
    let dir = tempfile::tempdir().unwrap();
    let file = rusqlite::Connection::open(dir.path().join("orders.db")).unwrap();
    file.execute_batch("create table orders (item text, key text unique)").unwrap();
    let runtime_on_it = || runtime(dir.path(), "sql]\nurl = \"sqlite:orders.db\"", INSERT);
    assert_one_key_a_call(&runtime_on_it(), || {
        let mut rows = file.prepare("select key from orders order by rowid").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    });
    let again = order("c").terms(Terms::new().idempotency_key("order-7"));
    assert_eq!(runtime_on_it().call(again).ok(), Some(json!({"rows_affected": 0})), "it was done");
}

#[test]
fn postgres_sees_it_as_a_parameter() {
    let cluster = Cluster::shared();
    cluster.execute("create table orders (at serial, item text, key text unique)");
    let driver = format!("sql]\nurl = \"{}\"", cluster.url());
    let runtime_of = |tool| runtime(Path::new("."), &driver, tool);
    assert_one_key_a_call(&runtime_of(INSERT), || {
        let rows = cluster.client().query("select key from orders order by at", &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    });
    let again = order("c").terms(Terms::new().idempotency_key("order-7"));
    assert_eq!(runtime_of(INSERT).call(again).ok(), Some(json!({"rows_affected": 0})));

    let typed = "sql = \"select $2::uuid as key, $1 as item\"\nparams = [\"{item}\"]\n\
                 idempotency_param = 2";
    let typed = runtime_of(typed);
    assert!(typed.call(order("a")).is_ok(), "a minted one is a uuid");
    let own = order("a").terms(Terms::new().idempotency_key("order-7"));
    let CallError::Failed(failure) = typed.call(own).result.unwrap_err() else { panic!() };
    assert_eq!((failure.reason, failure.executed), (FailureReason::InvalidCall, Executed::No));
    assert_eq!(failure.message, "the idempotency key is no valid uuid");
}

#[test]
fn a_program_sees_it_as_a_variable() {
    for shim in ["off", env!("CARGO_BIN_EXE_watertight-shim")] {
        let dir = tempfile::tempdir().unwrap();
        let driver = format!("process]\nshim = \"{shim}\"\nenv_allow = [\"ORDER_*\"]");
        let tool = "command = [\"sh\", \"-c\", 'echo \"$ORDER_KEY\" >> seen', \"{item}\"]\n\
                    idempotency_env = \"ORDER_KEY\"";
        let runtime = runtime(dir.path(), &driver, tool);
        assert_one_key_a_call(&runtime, || {
            let seen = std::fs::read_to_string(dir.path().join("seen")).unwrap();
            seen.lines().map(str::to_owned).collect()
        });
        runtime.partition("orders").unwrap().close_breaker();
        let bad = order("a").terms(Terms::new().idempotency_key("a\0b"));
        let CallError::Failed(failure) = runtime.call(bad).result.unwrap_err() else { panic!() };
        assert_eq!((failure.reason, failure.executed), (FailureReason::InvalidCall, Executed::No));
    }
}

/// An argument cannot pass itself off as the key.
#[test]
fn an_argument_is_not_the_key() {
    let tool = "sql = \"select $1 as item, $2 as key\"\nparams = [\"{item}\"]\n\
                idempotency_param = 2";
    let runtime = runtime(Path::new("."), "sql]\nurl = \"sqlite::memory:\"", tool);
    let call = order("a").arg("idempotency_key", "mine");
    let CallError::Failed(failure) = runtime.call(call).result.unwrap_err() else { panic!() };
    assert_eq!(failure.reason, FailureReason::InvalidCall);
    assert!(failure.message.contains("unknown argument `idempotency_key`"), "{}", failure.message);
}
