//! PostgreSQL's types to JSON and back, by a real server.
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
fn values_come_back_with_their_types() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    cluster.execute(
        "create type mood as enum ('sad', 'ok'); create domain age as int check (value > 0)",
    );
    for (sql, value) in [
        ("null::text", json!(null)),
        ("true", json!(true)),
        ("(-7)::int2", json!(-7)),
        ("2147483647", json!(2_147_483_647)),
        ("9223372036854775807", json!(i64::MAX)),
        ("4294967295::oid", json!(u32::MAX)),
        ("0.1::float4", json!(0.1)),
        ("1e300::float8", json!(1e300)),
        ("'NaN'::float8", json!("NaN")),
        ("'-Infinity'::float4", json!("-Infinity")),
        ("'a''b'::varchar", json!("a'b")),
        ("'ab'::char(4)", json!("ab  ")),
        ("'x'::\"char\"", json!("x")),
        ("'{\"a\": [1, 2.5, null]}'::jsonb", json!({"a": [1, 2.5, null]})),
        ("'[1]'::json", json!([1])),
        ("'\\x00ff'::bytea", json!("\\x00ff")),
        ("'ok'::mood", json!("ok")),
        ("7::age", json!(7)),
        ("'2024-02-29'::date", json!("2024-02-29")),
        ("'2024-02-29 23:59:59.5'::timestamp", json!("2024-02-29T23:59:59.5")),
        ("'2024-02-29 23:59:59+02'::timestamptz", json!("2024-02-29T21:59:59Z")),
        ("'infinity'::timestamptz", json!("infinity")),
        ("'0044-03-15 BC'::date", json!("-0043-03-15")),
        ("'10:00:00.25'::time", json!("10:00:00.25")),
        ("'10:00:00-03:30'::timetz", json!("10:00:00-03:30")),
        ("'1 year 2 months -3 days 04:05:06'::interval", json!("P1Y2M-3DT4H5M6S")),
        ("'10.0.0.1'::inet", json!("10.0.0.1")),
        ("'10.0.0.0/8'::cidr", json!("10.0.0.0/8")),
        ("'::1'::inet", json!("::1")),
        ("'08:00:2b:01:02:03'::macaddr", json!("08:00:2b:01:02:03")),
        ("b'10110'", json!("10110")),
        ("array[[1,2],[3,null]]", json!([[1, 2], [3, null]])),
        ("array[]::text[]", json!([])),
        ("array['ok']::mood[]", json!(["ok"])),
        ("pg_sleep(0)", json!(null)),
        (
            "'6f1b4d52-43a5-4d2c-9d1e-0f5a0c6a0d11'::uuid",
            json!("6f1b4d52-43a5-4d2c-9d1e-0f5a0c6a0d11"),
        ),
    ] {
        assert_eq!(select(&db, &format!("select {sql} as v")), json!([{ "v": value }]), "{sql}");
    }
}

#[test]
fn every_numeric_reads_as_the_server_writes_it() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    let rows = select(
        &db,
        "select n, n::text as t from (
            select (s * m / power(10::numeric, e))::numeric as n
            from (values (1), (-1)) as a(s),
                 (values (0::numeric), (1), (9), (10000), (99999999), (12345678901234567890.000100))
                 as b(m),
                 generate_series(-9, 9) as e
            union all select v::numeric from unnest(array['NaN', 'Infinity', '-Infinity', '0.000',
                 '1e-20', '-0.00001', '1000000000000.00', '5e130']) as v
         ) as x",
    );
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 200);
    for row in rows {
        assert_eq!(row["n"], row["t"]);
    }
}

#[test]
fn dates_read_as_the_server_writes_them() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    let rows = select(
        &db,
        "select d, to_char(d, 'YYYY-MM-DD') as t, d::timestamp as ts
         from (select date '0001-01-01' + 73 * i as d from generate_series(0, 49000) as i) as x
         where d < date '9999-12-31' and extract(day from d) in (1, 28, 29, 30, 31)",
    );
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 4000);
    for row in rows {
        assert_eq!(row["d"], row["t"]);
        assert_eq!(row["ts"], json!(format!("{}T00:00:00", row["t"].as_str().unwrap())));
    }
}

#[test]
fn arguments_are_bound_by_the_servers_types() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    cluster.execute("create type size as enum ('s', 'm')");
    for (ty, value, back) in [
        ("int2", json!(-32768), json!(-32768)),
        ("int8", json!(i64::MIN), json!(i64::MIN)),
        ("float4", json!(0.1), json!(0.1)),
        ("float8", json!(7), json!(7.0)),
        ("numeric", json!("0.10"), json!("0.10")),
        ("numeric", json!(2.5), json!("2.5")),
        ("bool", json!(false), json!(false)),
        ("text", json!("$1 '; drop table t; --"), json!("$1 '; drop table t; --")),
        ("varchar", json!(""), json!("")),
        (
            "uuid",
            json!("6F1B4D52-43a5-4d2c-9d1e-0f5a0c6a0d11"),
            json!("6f1b4d52-43a5-4d2c-9d1e-0f5a0c6a0d11"),
        ),
        ("jsonb", json!({"a": "b"}), json!({"a": "b"})),
        ("json", json!("text"), json!("text")),
        ("timestamptz", json!("2024-02-29T12:00:00Z"), json!("2024-02-29T12:00:00Z")),
        ("date", json!("2024-02-29"), json!("2024-02-29")),
        ("interval", json!("P1DT2H"), json!("P1DT2H")),
        ("bytea", json!("\\x00ff"), json!("\\x00ff")),
        ("inet", json!("10.0.0.1"), json!("10.0.0.1")),
        ("size", json!("m"), json!("m")),
        ("int4[]", json!([1, null, 3]), json!([1, null, 3])),
        ("text[]", json!(["a,b", "{\"\\", ""]), json!(["a,b", "{\"\\", ""])),
        ("int4[]", json!([[1], [2]]), json!([[1], [2]])),
        ("jsonb[]", json!([{"a": 1}, [2], "x"]), json!([{"a": 1}, [2], "x"])),
        ("int4", json!(null), json!(null)),
        ("jsonb", json!(null), json!(null)),
    ] {
        let echo = tool(&db, &format!("select $1::{ty} as v"), &["{v}"]);
        let rows = call(&echo, &json!({ "v": value })).unwrap();
        assert_eq!(rows, json!([{ "v": back }]), "{ty} {value}");
    }
    let params = ["{a}", "{b}", "{c}", "{d}", "{e}", "{f}", "{g}", "{h}", "{i}", "{j}-{a}"];
    let ten = tool(
        &db,
        "select $10 as j, $1 as a, $1 || $2 as ab, \
                    $3 || $4 || $5 || $6 || $7 || $8 || $9 as rest",
        &params,
    );
    let given = ("abcdefghij".chars().map(|c| (c.to_string(), json!(c.to_string()))))
        .collect::<serde_json::Map<_, _>>();
    let rows = call(&ten, &given.into()).unwrap();
    assert_eq!(rows, json!([{"j": "j-a", "a": "a", "ab": "ab", "rest": "cdefghi"}]));
}

#[test]
fn a_wrong_argument_is_named_and_nothing_is_executed() {
    let cluster = Cluster::shared();
    let db = open(&cluster, 1);
    cluster.execute("create table touched (n int)");
    for (ty, value) in [
        ("int4", json!("secret-1")),
        ("int4", json!(3_000_000_000_i64)),
        ("text", json!(1)),
        ("bool", json!("secret-1")),
        ("timestamptz", json!("secret-1")),
        ("uuid", json!("secret-1")),
        ("inet", json!("secret-1")),
        ("int4[]", json!({"secret-1": 1})),
        ("int4[]", json!([[1, 2], [3]])),
    ] {
        let sql = format!("insert into touched values (1) returning $2::{ty} as v, $1::text as w");
        let insert = tool(&db, &sql, &["{w}", "{when}"]);
        let failure = call(&insert, &json!({"w": "fine", "when": value})).unwrap_err();
        assert_eq!(failure.reason, FailureReason::InvalidCall, "{ty}: {}", failure.message);
        assert_eq!(failure.executed, Executed::No, "{ty}");
        assert!(failure.message.contains("argument `when`"), "{ty}: {}", failure.message);
        assert!(!failure.message.contains("secret-1"), "{ty}: {}", failure.message);
    }
    assert_eq!(select(&db, "select count(*) as n from touched"), json!([{"n": 0}]));
}
