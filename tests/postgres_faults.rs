//! PostgreSQL under fault with calls in flight: every call ends in time with the right reason, and
//! the pool goes on without being opened again.
#![cfg(all(feature = "postgres", target_os = "linux"))]

#[path = "support/flight.rs"]
#[expect(dead_code, reason = "other tests open tools of their own")]
mod flight;
#[path = "support/relay.rs"]
mod relay;
#[path = "support/postgres.rs"]
#[expect(dead_code, reason = "nothing here reads the log")]
mod server;
#[path = "support/sql.rs"]
mod sql;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flight::{
    Bench, CALLS, FENCE, InFlight, LIMIT, Stopped, alone, eventually, napping, server_is_idle,
    signal,
};
use postgres::Client;
use relay::Relay;
use server::Cluster;
use sql::AMPLE;
use watertight::outcome::{Executed, FailureReason};

#[test]
fn a_killed_backend_fails_its_own_call_only() {
    let bench = Bench::shared();
    let mut outside = bench.cluster.client();
    let mut calls = bench.in_flight(AMPLE);
    for pid in &napping(&mut outside)[1..] {
        terminate(&mut outside, *pid);
    }
    let over = |calls: &[InFlight]| calls.iter().filter(|call| call.call.is_finished()).count();
    eventually("the killed calls have ended", || over(&calls) == CALLS as usize - 1);
    assert_eq!(napping(&mut outside).len(), 1, "the fourth goes on");
    bench.neighbour_is_well();
    calls.iter().for_each(|call| call.token.cancel());
    let mut reasons: Vec<_> = calls.drain(..).map(|call| call.failure().0).collect();
    reasons.sort_by_key(|reason| reason.as_str());
    let down = FailureReason::ServerDown;
    assert_eq!(reasons, [FailureReason::Cancelled, down, down, down]);
    bench.works();

    // Idle connections that were ended: the next calls do not even notice.
    let ours = "select pid from pg_stat_activity where application_name = 'watertight/sql'";
    for row in outside.query(ours, &[]).unwrap() {
        terminate(&mut outside, row.get(0));
    }
    bench.works();
}

/// Ends a server's process and waits until it is gone: it is only signalled at first, and one that
/// has not noticed yet still takes a query.
fn terminate(outside: &mut Client, pid: i32) {
    let wait_max_ms = i64::try_from(AMPLE.as_millis()).unwrap();
    let gone: bool = outside
        .query_one("select pg_terminate_backend($1, $2)", &[&pid, &wait_max_ms])
        .unwrap()
        .get(0);
    assert!(gone, "it has not gone");
}

#[test]
fn a_crash_of_the_server_ends_all_calls_and_none_after_it() {
    let bench = Bench::own(&["restart_after_crash=on"]);
    let calls = bench.in_flight(AMPLE);
    let victim = napping(&mut bench.cluster.client())[0];
    signal("KILL", victim);
    for call in calls {
        let (reason, executed, took) = call.failure();
        assert_eq!((reason, executed), (FailureReason::ServerDown, Executed::Unknown));
        assert!(took < LIMIT + FENCE, "it took {took:?}");
    }
    eventually("it works again", || match bench.one(LIMIT) {
        Ok(_) => true,
        Err(failure) => {
            assert_eq!(failure.executed, Executed::No, "{failure:?}");
            false
        }
    });
    bench.works();
}

#[test]
fn a_backend_that_is_cancelled_by_someone_else_says_so() {
    let bench = Bench::shared();
    let calls = bench.in_flight(AMPLE);
    let mut outside = bench.cluster.client();
    for pid in napping(&mut outside) {
        outside.execute("select pg_cancel_backend($1)", &[&pid]).unwrap();
    }
    for call in calls {
        assert_eq!(call.failure().0, FailureReason::QueryCancelled);
    }
    bench.works();
}

#[test]
fn stopped_backends_hold_no_call_beyond_its_limit() {
    let bench = Bench::shared();
    let mut outside = bench.cluster.client();
    let calls = bench.in_flight(LIMIT);
    let stopped: Vec<_> = napping(&mut outside).into_iter().map(Stopped::stop).collect();
    assert_eq!(stopped.len(), CALLS as usize);
    bench.neighbour_is_well();
    for call in calls {
        let (reason, executed, _) = call.failure();
        assert_eq!((reason, executed), (FailureReason::Limit, Executed::Unknown));
    }
    bench.works();

    let calls = bench.in_flight(AMPLE);
    let others = napping(&mut outside).into_iter();
    let known = |pid: &i32| !stopped.iter().any(|stopped| stopped.0 == *pid);
    let more: Vec<_> = others.filter(known).map(Stopped::stop).collect();
    for call in calls {
        let cancelled = Instant::now();
        call.token.cancel();
        assert_eq!(call.failure().0, FailureReason::Cancelled);
        assert!(cancelled.elapsed() < FENCE, "it took {:?}", cancelled.elapsed());
    }
    bench.works();
    drop((stopped, more));
    server_is_idle(&mut outside);
}

#[test]
fn an_idle_connection_whose_backend_is_stopped_is_replaced() {
    let bench = Bench::shared();
    bench.works();
    let mut outside = bench.cluster.client();
    let idle = outside
        .query("select pid from pg_stat_activity where application_name = 'watertight/sql'", &[])
        .unwrap();
    assert!(!idle.is_empty());
    let stopped: Vec<_> = idle.iter().map(|row| Stopped::stop(row.get(0))).collect();
    // A connection that served a call just now is not tested: its call ends at the limit.
    let since = Instant::now();
    eventually("the connections are no longer fresh", || {
        since.elapsed() > Duration::from_millis(600)
    });
    bench.works();
    drop(stopped);
}

#[test]
fn a_stopped_postmaster_holds_no_call_beyond_its_limit() {
    let bench = Bench::own(&[]);
    let mut outside = bench.cluster.client();
    let mut calls = bench.in_flight(LIMIT);
    let postmaster = Stopped::stop(bench.cluster.postmaster());
    bench.neighbour_is_well();
    let last = calls.pop().unwrap();
    last.token.cancel();
    assert_eq!(last.failure().0, FailureReason::Cancelled);
    for call in calls {
        assert_eq!(call.failure().0, FailureReason::Limit);
    }
    server_is_idle(&mut outside);
    // Nobody answers a new connection.
    for _ in 0..3 {
        let call = InFlight::start(&bench.one, LIMIT);
        let (reason, executed, _) = call.failure();
        assert_eq!((reason, executed), (FailureReason::Limit, Executed::No));
    }
    let call = InFlight::start(&bench.one, AMPLE);
    call.token.cancel();
    let (reason, executed, took) = call.failure();
    assert_eq!((reason, executed), (FailureReason::Cancelled, Executed::No));
    assert!(took < FENCE, "it took {took:?}");
    drop(postmaster);
    bench.works();
}

#[test]
fn a_restart_of_the_server_needs_none_of_the_pool() {
    let mut bench = Bench::own(&[]);
    let calls = bench.in_flight(AMPLE);
    bench.server().stop();
    bench.neighbour_is_well();
    for call in calls {
        let (reason, executed, took) = call.failure();
        assert_eq!((reason, executed), (FailureReason::ServerDown, Executed::Unknown));
        assert!(took < LIMIT + FENCE, "it took {took:?}");
    }
    let refused = InFlight::start(&bench.one, AMPLE);
    let (reason, executed, took) = refused.failure();
    assert_eq!((reason, executed), (FailureReason::Connect, Executed::No));
    assert!(took < FENCE, "it took {took:?}");
    bench.server().restart();
    bench.works();
    // Idle connections over a restart.
    bench.server().restart();
    bench.works();
}

#[test]
fn a_dead_relay_holds_no_call_beyond_its_limit() {
    let alone = alone();
    let cluster = Arc::new(Cluster::start(&[]));
    let relay = Relay::to(cluster.port());
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", relay.port());
    let bench = Bench::on(cluster, &url, Duration::from_secs(3), alone);
    let mut outside = bench.cluster.client();
    let mut calls = bench.in_flight(LIMIT);
    relay.die();
    bench.neighbour_is_well();
    let last = calls.pop().unwrap();
    last.token.cancel();
    assert_eq!(last.failure().0, FailureReason::Cancelled);
    for call in calls {
        let (reason, executed, _) = call.failure();
        assert_eq!((reason, executed), (FailureReason::Limit, Executed::Unknown));
    }
    for _ in 0..2 {
        let (reason, executed, _) = InFlight::start(&bench.one, LIMIT).failure();
        assert_eq!((reason, executed), (FailureReason::Limit, Executed::No));
    }
    // The server cannot hear of it: its own statement_timeout ends the queries.
    eventually("nothing of ours runs", || napping(&mut outside).is_empty());
    relay.revive();
    bench.works();
}

#[test]
fn connections_that_others_have_taken_are_said_to_be_so() {
    let bench = Bench::own(&["max_connections=6", "superuser_reserved_connections=0"]);
    let others: Vec<_> = (0..6).map(|_| bench.cluster.client()).collect();
    let (reason, executed, took) = InFlight::start(&bench.one, AMPLE).failure();
    assert_eq!((reason, executed), (FailureReason::PoolExhausted, Executed::No));
    assert!(took < FENCE, "it took {took:?}");
    bench.neighbour_is_well();
    drop(others);
    eventually("the server has let them go", || bench.one(LIMIT).is_ok());
}
