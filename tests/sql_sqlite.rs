//! SQL tools on SQLite: values, errors, bounds.
#![cfg(feature = "sqlite")]

#[path = "support/sql.rs"]
mod sql;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sql::{call, sizing};
use watertight::driver::Tool;
use watertight::driver::sql::Query;
use watertight::driver::sqlite::{Database, Sqlite};
use watertight::outcome::{Executed, FailureReason};

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
fn values_keep_their_types() {
    let db = memory(1);
    let echo = tool(&db, "select $1 as v, typeof($1) as t", &["{v}"]);
    for (value, back, kind) in [
        (json!(null), json!(null), "null"),
        (json!(true), json!(1), "integer"),
        (json!(-7), json!(-7), "integer"),
        (json!(i64::MIN), json!(i64::MIN), "integer"),
        (json!(1.5), json!(1.5), "real"),
        (json!("$2 '; drop"), json!("$2 '; drop"), "text"),
        (json!([1, "a"]), json!("[1,\"a\"]"), "text"),
        (json!({"a": null}), json!("{\"a\":null}"), "text"),
    ] {
        let rows = call(&echo, &json!({ "v": value })).unwrap();
        assert_eq!(rows, json!([{"v": back, "t": kind}]), "{value}");
    }
    let blob = tool(&db, "select x'00ff41' as b, 9e999 as f, -9e999 as g", &[]);
    let rows = call(&blob, &json!({})).unwrap();
    assert_eq!(rows, json!([{"b": "\\x00ff41", "f": "Infinity", "g": "-Infinity"}]));

    let failure = call(&echo, &json!({ "v": u64::MAX })).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::InvalidCall, Executed::No));
    assert!(failure.message.contains("argument `v`"), "{}", failure.message);

    let bad = tool(&db, "select cast(x'ff' as text) as t", &[]);
    let failure = call(&bad, &json!({})).unwrap_err();
    assert_eq!(failure.reason, FailureReason::Decode);
    assert!(failure.message.contains("column `t`"), "{}", failure.message);
}

#[test]
fn placeholders_mean_the_same_as_on_postgres() {
    let db = memory(1);
    let params = ["{a}", "{b}", "{c}", "{d}", "{e}", "{f}", "{g}", "{h}", "{i}", "{j}-{a}"];
    let ten = tool(
        &db,
        "select $10 as j, $1 as a, $1 || $2 as ab, \
                    $3 || $4 || $5 || $6 || $7 || $8 || $9 as rest",
        &params,
    );
    let given: Value = ("abcdefghij".chars().map(|c| (c.to_string(), json!(c.to_string()))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let rows = call(&ten, &given).unwrap();
    assert_eq!(rows, json!([{"j": "j-a", "a": "a", "ab": "ab", "rest": "cdefghi"}]));
}

#[test]
fn statements_without_rows_say_how_many_they_changed() {
    let db = memory(2);
    let change = |sql: &str| call(&tool(&db, sql, &[]), &json!({})).unwrap();
    assert_eq!(change("create table t (id integer primary key, n)"), json!({"rows_affected": 0}));
    assert_eq!(change("insert into t (n) values (1), (2), (3)"), json!({"rows_affected": 3}));
    assert_eq!(change("update t set n = 0 where id > 1"), json!({"rows_affected": 2}));
    assert_eq!(change("create index i on t (n)"), json!({"rows_affected": 0}));
    assert_eq!(change("delete from t where id = 1 returning id"), json!([{"id": 1}]));
    assert_eq!(change("select id from t where n = 9"), json!([]));
}

#[test]
fn what_cannot_be_a_tool_is_refused_when_it_is_built() {
    let db = memory(1);
    for (sql, params, key, rule) in [
        ("select $1, $2", 1, "params", "the statement has `$2` and there are 1 params"),
        ("select $2", 2, "params", "no `$1` in the statement"),
        ("select 1", 1, "params", "no `$1` in the statement"),
        ("select 1; select 2", 0, "sql", "more than one statement"),
        ("select ?", 0, "sql", "placeholder of another style"),
        ("begin", 0, "sql", "transaction of its own"),
        (" -- nothing\n", 0, "sql", "there is no statement"),
    ] {
        let query = (0..params).fold(Query::new(sql), |query, _| query.param("{x}"));
        let error = db.tool(query).map(|_| ()).unwrap_err();
        assert_eq!(error.key(), key, "{sql}");
        assert!(error.rule().contains(rule), "{sql}: {error}");
    }
    assert_eq!(Sqlite::new("sqlite:").open(&sizing(1)).unwrap_err().key(), "url");
    assert_eq!(Sqlite::new("a.db").open(&sizing(0)).unwrap_err().key(), "connections");
    let both = Sqlite::new("a.db").read_only(true).create(true).open(&sizing(1));
    assert_eq!(both.unwrap_err().key(), "create");
}

#[test]
fn errors_of_the_query_say_whether_it_ran() {
    let db = memory(1);
    call(&tool(&db, "create table t (id integer primary key)", &[]), &json!({})).unwrap();
    let insert = tool(&db, "insert into t values ($1)", &["{id}"]);
    call(&insert, &json!({"id": 1})).unwrap();
    let failure = call(&insert, &json!({"id": 1})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::QueryFailed, Executed::Yes));
    let failure = call(&tool(&db, "select * from nowhere", &[]), &json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::QueryFailed, Executed::No));
    assert!(failure.message.contains("nowhere"), "{}", failure.message);
    let failure = call(&tool(&db, "select 1 as a, 2 as a", &[]), &json!({})).unwrap_err();
    assert!(failure.message.contains("two columns are called `a`"), "{}", failure.message);
}

#[test]
fn a_missing_file_is_an_error_until_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("new.db").display());
    let db = Sqlite::new(&url).open(&sizing(1)).unwrap();
    let one = tool(&db, "select 1 as one", &[]);
    let failure = call(&one, &json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
    assert!(!dir.path().join("new.db").exists(), "nothing was created");

    let created = Sqlite::new(&url).create(true).open(&sizing(1)).unwrap();
    call(&tool(&created, "create table t (id)", &[]), &json!({})).unwrap();
    assert_eq!(call(&one, &json!({})).unwrap(), json!([{"one": 1}]), "found once it is there");

    let garbage = dir.path().join("garbage.db");
    std::fs::write(&garbage, vec![b'x'; 4096]).unwrap();
    let db = Sqlite::new(garbage.display().to_string()).open(&sizing(1)).unwrap();
    let failure = call(&tool(&db, "select * from t", &[]), &json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
}

#[test]
fn a_read_only_database_takes_no_write() {
    let dir = tempfile::tempdir().unwrap();
    let url = file(dir.path(), "create table t (id); insert into t values (1)");
    let db = Sqlite::new(url).read_only(true).open(&sizing(1)).unwrap();
    let failure = call(&tool(&db, "insert into t values (2)", &[]), &json!({})).unwrap_err();
    assert_eq!(failure.reason, FailureReason::QueryFailed);
    assert_eq!(call(&tool(&db, "select id from t", &[]), &json!({})).unwrap(), json!([{"id": 1}]));
}

#[test]
fn results_are_bounded_by_rows_and_bytes() {
    let db = memory(1);
    let series = "with recursive n(i) as (select 1 union all select i + 1 from n where i < $1) \
                  select i, zeroblob($2) as b from n";
    let query = |query: Query| db.tool(query.param("{rows}").param("{bytes}")).unwrap();
    let few = query(Query::new(series).max_rows(10));
    assert_eq!(call(&few, &json!({"rows": 10, "bytes": 0})).unwrap().as_array().unwrap().len(), 10);
    let failure = call(&few, &json!({"rows": 11, "bytes": 0})).unwrap_err();
    assert_eq!(failure.reason, FailureReason::TooLarge);
    assert!(failure.message.contains("more than 10 rows"), "{}", failure.message);

    let small = query(Query::new(series).max_bytes(1000));
    let failure = call(&small, &json!({"rows": 1_000_000_000, "bytes": 100})).unwrap_err();
    assert_eq!(failure.reason, FailureReason::TooLarge, "and it did not read them all");
    assert!(failure.message.contains("more than 1000 bytes"), "{}", failure.message);
    assert!(call(&small, &json!({"rows": 9, "bytes": 80})).is_ok(), "the connection goes on");
}

#[test]
fn the_connections_of_a_database_in_memory_share_it_and_others_do_not() {
    let (db, other) = (memory(8), memory(1));
    call(&tool(&db, "create table t (id)", &[]), &json!({})).unwrap();
    let insert = tool(&db, "insert into t values ($1)", &["{id}"]);
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let insert = &insert;
            scope.spawn(move || {
                for n in 0..50 {
                    call(insert, &json!({"id": worker * 100 + n})).unwrap();
                }
            });
        }
    });
    let count = call(&tool(&db, "select count(*) as c from t", &[]), &json!({})).unwrap();
    assert_eq!(count, json!([{"c": 400}]));
    assert!(call(&tool(&other, "select * from t", &[]), &json!({})).is_err());
}

#[test]
fn a_statement_survives_a_change_of_its_table() {
    let db = memory(1);
    let change = |sql: &str| call(&tool(&db, sql, &[]), &json!({})).unwrap();
    change("create table shape (a)");
    change("insert into shape values (1)");
    let all = tool(&db, "select * from shape", &[]);
    assert_eq!(call(&all, &json!({})).unwrap(), json!([{"a": 1}]));
    change("alter table shape add column b default 'x'");
    assert_eq!(call(&all, &json!({})).unwrap(), json!([{"a": 1, "b": "x"}]));
    change("alter table shape drop column a");
    assert_eq!(call(&all, &json!({})).unwrap(), json!([{"b": "x"}]));
}
