//! Calls on PostgreSQL end at their limit and on cancel, on the server as well, and leave nothing
//! behind.
#![cfg(all(feature = "postgres", feature = "testing", target_os = "linux"))]

#[path = "support/flight.rs"]
#[expect(dead_code, reason = "other tests do worse to their server")]
mod flight;
#[path = "support/postgres.rs"]
#[expect(dead_code, reason = "other tests stop and restart their server")]
mod server;
#[path = "support/sql.rs"]
mod sql;

use std::sync::Arc;
use std::thread::spawn;
use std::time::{Duration, Instant};

use flight::{Bench, CALLS, FENCE, InFlight, LIMIT, alone, eventually, server_is_idle};
use serde_json::json;
use server::Cluster;
use sql::{AMPLE, call_within, sizing};
use watertight::call::CancelToken;
use watertight::driver::postgres::Postgres;
use watertight::driver::sql::Query;
use watertight::outcome::{Executed, FailureReason};
use watertight::testing::Unanswered;

#[test]
fn a_call_that_is_too_long_ends_on_the_server_too() {
    let bench = Bench::shared();
    for call in bench.in_flight(LIMIT) {
        let (reason, executed, took) = call.failure();
        assert_eq!((reason, executed), (FailureReason::Limit, Executed::Unknown));
        assert!(took >= LIMIT);
    }
    server_is_idle(&mut bench.cluster.client());
    bench.works();
}

#[test]
fn a_cancel_ends_the_call_at_once_and_on_the_server_too() {
    let bench = Bench::shared();
    for call in bench.in_flight(AMPLE) {
        let cancelled = Instant::now();
        call.token.cancel();
        let (reason, executed, _) = call.failure();
        assert_eq!((reason, executed), (FailureReason::Cancelled, Executed::Unknown));
        assert!(cancelled.elapsed() < FENCE, "it took {:?}", cancelled.elapsed());
    }
    server_is_idle(&mut bench.cluster.client());
    bench.works();
}

#[test]
fn a_pool_with_fewer_seats_than_callers_says_so_at_the_limit() {
    let bench = Bench::shared();
    let calls = bench.in_flight(AMPLE);
    let (reason, executed, took) = InFlight::start(&bench.one, Duration::from_millis(50)).failure();
    assert_eq!((reason, executed), (FailureReason::PoolExhausted, Executed::No));
    assert!(took < FENCE, "it took {took:?}");
    for call in calls {
        call.token.cancel();
        assert_eq!(call.failure().0, FailureReason::Cancelled);
    }
}

#[test]
fn a_cancel_never_hits_the_next_call_and_nothing_grows() {
    let bench = Bench::shared();
    let nap = bench.db.tool(Query::new("select pg_sleep(0.002)::text as v")).unwrap();
    let round = |rounds: u32| {
        for n in 0..rounds {
            let token = CancelToken::new();
            let (tool, in_call) = (Arc::clone(&nap), token.clone());
            let call = spawn(move || call_within(&tool, &json!({}), AMPLE, &in_call));
            for _ in 0..(n % 40) * 2000 {
                std::hint::spin_loop();
            }
            token.cancel();
            match call.join().unwrap() {
                Ok(rows) => assert_eq!(rows, json!([{"v": ""}])),
                Err(failure) => assert_eq!(failure.reason, FailureReason::Cancelled, "{failure:?}"),
            }
            assert_eq!(bench.one(AMPLE).unwrap(), json!([{"one": 1}]), "round {n}");
        }
    };
    round(30);
    let before = footprint();
    round(200);
    let after = footprint();
    assert!(after.0 <= before.0 + 2 && after.1 <= before.1, "{before:?} became {after:?}");
    server_is_idle(&mut bench.cluster.client());
    let backends =
        "select count(*) from pg_stat_activity where application_name = 'watertight/sql'";
    let count: i64 = bench.cluster.client().query_one(backends, &[]).unwrap().get(0);
    assert!(count <= i64::from(CALLS), "{count} connections");

    let threads = footprint().1;
    drop(nap);
    drop(bench);
    eventually("its threads end with it", || footprint().1 <= threads - 3);
}

#[test]
fn nothing_is_begun_when_the_limit_is_over_or_the_call_is_cancelled() {
    let bench = Bench::shared();
    let insert = bench.db.tool(Query::new("create table begun (n int)")).unwrap();
    let over = call_within(&insert, &json!({}), Duration::ZERO, &CancelToken::new()).unwrap_err();
    assert_eq!((over.reason, over.executed), (FailureReason::Limit, Executed::No));
    let token = CancelToken::new();
    token.cancel();
    let cancelled = call_within(&insert, &json!({}), AMPLE, &token).unwrap_err();
    assert_eq!((cancelled.reason, cancelled.executed), (FailureReason::Cancelled, Executed::No));
    assert!(bench.cluster.client().execute("select * from begun", &[]).is_err());
}

#[test]
fn a_unix_socket_is_ended_by_request() {
    let alone = alone();
    let mut cluster = Cluster::start(&[]);
    let folder = cluster.data();
    cluster.restart_with(&[&format!("unix_socket_directories={}", folder.display())]);
    let host = folder.display().to_string().replace('/', "%2F");
    let url = format!("postgres://postgres@{host}:{}/postgres", cluster.port());
    let bench = Bench::on(Arc::new(cluster), &url, AMPLE, alone);
    for call in bench.in_flight(LIMIT) {
        assert_eq!(call.failure().0, FailureReason::Limit);
    }
    bench.works();
}

/// Descriptors and threads of this process.
fn footprint() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn a_connect_that_nobody_answers_is_called_off_and_leaves_a_bounded_rest() {
    let _alone = alone();
    let server = Unanswered::open().unwrap();
    let url = format!("postgres://agent@{}/db?connect_timeout=3", server.addr());
    let db = Postgres::new(url).open(&sizing(CALLS)).unwrap();
    let one = db.tool(Query::new("select 1")).unwrap();
    for left_behind in 1..=CALLS as usize {
        let call = InFlight::start(&one, AMPLE);
        eventually("it connects", || connecting() == left_behind);
        let cancelled = Instant::now();
        call.token.cancel();
        let (reason, executed, _) = call.failure();
        assert_eq!((reason, executed), (FailureReason::Cancelled, Executed::No));
        assert!(cancelled.elapsed() < FENCE, "it took {:?}", cancelled.elapsed());
    }
    let (reason, executed, _) = InFlight::start(&one, Duration::from_millis(200)).failure();
    assert_eq!((reason, executed), (FailureReason::Limit, Executed::No));
    assert!(connecting() <= CALLS as usize, "as many as there are connections");
    eventually("nothing is left", || connecting() == 0);
}

/// Threads that connect.
fn connecting() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "sql-connect").count()
}
