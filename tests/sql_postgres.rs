//! SQL tools on PostgreSQL: results, errors, bounds. A real server.
#![cfg(feature = "postgres")]

#[path = "support/postgres.rs"]
#[expect(dead_code, reason = "other tests stop and restart their server")]
mod server;
#[path = "support/sql.rs"]
mod sql;

use std::sync::Arc;

use serde_json::{Value, json};
use server::Cluster;
use sql::{call, sizing};
use watertight::driver::Tool;
use watertight::driver::postgres::{Database, Postgres};
use watertight::driver::sql::Query;
use watertight::outcome::{Executed, FailureReason};

fn open(cluster: &Cluster, connections: u32) -> Database {
    Postgres::new(cluster.url()).open(&sizing(connections)).unwrap()
}

fn tool(db: &Database, sql: &str, params: &[&str]) -> Arc<dyn Tool> {
    let query = params.iter().fold(Query::new(sql), |query, param| query.param(*param));
    db.tool(query).unwrap()
}

fn select(db: &Database, sql: &str) -> Value {
    call(&tool(db, sql, &[]), &json!({})).unwrap()
}

#[test]
fn statements_without_rows_say_how_many_they_changed() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 2);
    assert_eq!(select(&db, "create table changed (id int, n int)"), json!({"rows_affected": 0}));
    assert_eq!(
        select(&db, "insert into changed values (1, 1), (2, 2), (3, 3)"),
        json!({"rows_affected": 3})
    );
    assert_eq!(select(&db, "update changed set n = 0 where id > 1"), json!({"rows_affected": 2}));
    assert_eq!(
        select(&db, "delete from changed where id = 1 returning id, n"),
        json!([{"id": 1, "n": 1}])
    );
    assert_eq!(select(&db, "select id from changed where n = 9"), json!([]));
}

#[test]
fn errors_have_their_reason_and_say_whether_the_query_ran() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    let failure = |sql: &str| call(&tool(&db, sql, &[]), &json!({})).unwrap_err();

    let missing = failure("select * from nowhere");
    assert_eq!((missing.reason, missing.executed), (FailureReason::QueryFailed, Executed::No));
    assert!(missing.message.contains("nowhere") && missing.message.contains("42P01"));

    let division = failure("select 1 / (n - 1) as v from generate_series(1, 2) as n");
    assert_eq!((division.reason, division.executed), (FailureReason::QueryFailed, Executed::Yes));

    let point = failure("select point(1, 2) as p");
    assert_eq!((point.reason, point.executed), (FailureReason::QueryFailed, Executed::No));
    assert!(point.message.contains("`p` is of type point"), "{}", point.message);
    assert_eq!(select(&db, "select point(1, 2)::text as p"), json!([{"p": "(1,2)"}]));

    let twice = failure("select 1 as a, 2 as a");
    assert!(twice.message.contains("two columns are called `a`"), "{}", twice.message);

    let other = failure("select pg_cancel_backend(pg_backend_pid())::text as v from pg_sleep(0)");
    assert_eq!(other.reason, FailureReason::QueryCancelled, "{}", other.message);
    let killed = failure("select pg_terminate_backend(pg_backend_pid()) as v");
    assert_eq!(killed.reason, FailureReason::ServerDown);
    assert_eq!(killed.executed, Executed::Unknown);
    assert_eq!(select(&db, "select 1 as one"), json!([{"one": 1}]), "a new connection");
}

#[test]
fn results_are_bounded_by_rows_and_bytes() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    let series = "select generate_series(1, $1) as i, repeat('x', $2) as b";
    let query = |query: Query| db.tool(query.param("{rows}").param("{bytes}")).unwrap();
    let few = query(Query::new(series).max_rows(10));
    assert_eq!(call(&few, &json!({"rows": 10, "bytes": 0})).unwrap().as_array().unwrap().len(), 10);
    let failure = call(&few, &json!({"rows": 11, "bytes": 0})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::TooLarge, Executed::Yes));

    let small = query(Query::new(series).max_bytes(100_000));
    let failure = call(&small, &json!({"rows": 2_000_000_000, "bytes": 100})).unwrap_err();
    assert_eq!(failure.reason, FailureReason::TooLarge, "and it did not read them all");
    assert!(failure.message.contains("more than 100000 bytes"), "{}", failure.message);
    assert!(call(&small, &json!({"rows": 9, "bytes": 80})).is_ok(), "the seat goes on");
}

#[test]
fn a_statement_survives_a_change_of_its_table() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    cluster.execute("create table shape (a int); insert into shape values (1)");
    let all = tool(&db, "select * from shape", &[]);
    assert_eq!(call(&all, &json!({})).unwrap(), json!([{"a": 1}]));
    cluster.execute("alter table shape add column b text default 'x'");
    assert_eq!(call(&all, &json!({})).unwrap(), json!([{"a": 1, "b": "x"}]));
    cluster.execute("alter table shape alter column a type text");
    assert_eq!(call(&all, &json!({})).unwrap(), json!([{"a": "1", "b": "x"}]));
}

#[test]
fn what_cannot_be_opened_or_be_a_tool_is_refused_when_it_is_built() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    for (sql, key, rule) in [
        ("select $1", "params", "the statement has `$1` and there are 0 params"),
        ("select 1; select 2", "sql", "more than one statement"),
        ("copy t to stdout", "sql", "`COPY` is refused"),
        ("listen x", "sql", "`LISTEN` is refused"),
        ("set statement_timeout = 0", "sql", "`SET` is refused"),
    ] {
        let error = db.tool(Query::new(sql)).map(|_| ()).unwrap_err();
        assert_eq!(error.key(), key, "{sql}");
        assert!(error.rule().contains(rule), "{sql}: {error}");
    }
    for url in [
        "postgres://u:hunter2@host:notaport/db",
        "postgres://u:hunter2@host/db?hunter2=1",
        "mysql://u:hunter2@host/db",
        "hunter2",
    ] {
        let db = Postgres::new(url);
        assert!(!format!("{db:?}").contains("hunter2"));
        let error = db.open(&sizing(1)).unwrap_err();
        assert_eq!(error.key(), "url");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn opening_needs_no_server_and_the_first_call_says_what_is_wrong() {
    let cluster = Cluster::shared();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = format!("postgres://u:hunter2@{free}/db");
    let no_such = format!("postgres://postgres:hunter2@127.0.0.1:{}/nowhere", cluster.port());
    for url in [refused, no_such] {
        let db = Postgres::new(url).open(&sizing(1)).unwrap();
        assert!(!format!("{db:?}").contains("hunter2"));
        let failure = call(&tool(&db, "select 1 as one", &[]), &json!({})).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
        assert!(!failure.message.contains("hunter2"), "{}", failure.message);
    }
}

#[test]
fn the_first_server_that_answers_is_used() {
    let cluster = Cluster::shared();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hosts = format!("nobody.invalid,{free},localhost:{}", cluster.port());
    let db = Postgres::new(format!("postgres://postgres@{hosts}/postgres"));
    assert_eq!(select(&db.open(&sizing(1)).unwrap(), "select 1 as one"), json!([{"one": 1}]));
}
