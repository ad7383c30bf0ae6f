//! Calls on SQLite end at their limit and on cancel, waits for locks as well.
#![cfg(feature = "sqlite")]

#[path = "support/sql.rs"]
mod sql;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use sql::{AMPLE, call, call_within, sizing};
use watertight::call::CancelToken;
use watertight::driver::Tool;
use watertight::driver::sql::Query;
use watertight::driver::sqlite::{Database, Sqlite};
use watertight::outcome::{Executed, FailureReason};

/// Counts for minutes unless it is ended.
const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) \
                       select count(*) from n where i > $1";

fn memory(connections: u32) -> Database {
    Sqlite::new("sqlite::memory:").open(&sizing(connections)).unwrap()
}

fn tool(db: &Database, sql: &str, params: &[&str]) -> Arc<dyn Tool> {
    let query = params.iter().fold(Query::new(sql), |query, param| query.param(*param));
    db.tool(query).unwrap()
}

fn file(dir: &Path, schema: &str) -> String {
    let path = dir.join("tickets.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(schema).unwrap();
    format!("sqlite:{}", path.display())
}

#[test]
fn a_query_ends_at_its_limit_and_its_connection_goes_on() {
    let db = memory(1);
    let endless = tool(&db, ENDLESS, &["{i}"]);
    for _ in 0..20 {
        let started = Instant::now();
        let limit = Duration::from_millis(50);
        let failure =
            call_within(&endless, &json!({"i": 0}), limit, &CancelToken::new()).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::Unknown));
        assert!(started.elapsed() >= limit && started.elapsed() < limit + Duration::from_secs(1));
        let one = call(&tool(&db, "select 1 as one", &[]), &json!({})).unwrap();
        assert_eq!(one, json!([{"one": 1}]));
    }
    let over = call_within(&endless, &json!({"i": 0}), Duration::ZERO, &CancelToken::new());
    assert_ne!(over.unwrap_err().executed, Executed::Yes);
}

#[test]
fn a_cancel_ends_the_query_and_never_the_next_one() {
    let db = memory(1);
    let endless = tool(&db, ENDLESS, &["{i}"]);
    let quick = tool(
        &db,
        "with recursive n(i) as (select 1 union all select i + 1 from n \
                      where i < 20000) select count(*) as c from n",
        &[],
    );
    for _ in 0..50 {
        let token = CancelToken::new();
        let (endless, in_call) = (Arc::clone(&endless), token.clone());
        let running = std::thread::spawn(move || {
            call_within(&endless, &json!({"i": 0}), AMPLE, &in_call).unwrap_err()
        });
        token.cancel();
        assert_eq!(running.join().unwrap().reason, FailureReason::Cancelled);
        assert_eq!(call(&quick, &json!({})).unwrap(), json!([{"c": 20000}]));
    }
}

#[test]
fn a_wait_for_a_lock_ends_at_the_limit_on_cancel_or_with_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let url = file(dir.path(), "create table t (id)");
    let other = rusqlite::Connection::open(dir.path().join("tickets.db")).unwrap();
    let db = Sqlite::new(url).open(&sizing(1)).unwrap();
    let insert = tool(&db, "insert into t values (1)", &[]);

    other.execute_batch("begin exclusive").unwrap();
    let limit = Duration::from_millis(100);
    let failure = call_within(&insert, &json!({}), limit, &CancelToken::new()).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::No));
    assert!(failure.message.contains("lock"), "{}", failure.message);

    let token = CancelToken::new();
    let (send, ended) = mpsc::channel();
    let (again, in_call) = (Arc::clone(&insert), token.clone());
    std::thread::spawn(move || send.send(call_within(&again, &json!({}), AMPLE, &in_call)));
    assert!(ended.recv_timeout(Duration::from_millis(30)).is_err(), "it waits for the lock");
    token.cancel();
    let failure = ended.recv_timeout(AMPLE).expect("the cancel ends the wait").unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Cancelled, Executed::No));

    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || send.send(call(&insert, &json!({}))));
    assert!(ended.recv_timeout(Duration::from_millis(30)).is_err(), "it waits for the lock");
    other.execute_batch("commit").unwrap();
    let changed = ended.recv_timeout(AMPLE).expect("the lock came free").unwrap();
    assert_eq!(changed, json!({"rows_affected": 1}));
}
