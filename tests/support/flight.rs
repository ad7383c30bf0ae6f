//! Calls on a real PostgreSQL server, and what one can do to it meanwhile.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use postgres::Client;
use serde_json::{Value, json};
use watertight::call::CancelToken;
use watertight::driver::postgres::{Database, Postgres};
use watertight::driver::sql::Query;
use watertight::driver::{Sizing, Tool};
use watertight::outcome::{Executed, Failure, FailureReason};

use crate::server::Cluster;
use crate::sql::{AMPLE, call, call_within, sizing};

/// Looks until `done` says so; panics with `what` if it has not within [`AMPLE`].
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < AMPLE, "not within {AMPLE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

pub(crate) const LIMIT: Duration = Duration::from_millis(1500);
/// A call must have ended this much after its limit, on a machine that others use as well.
pub(crate) const FENCE: Duration = Duration::from_secs(1);
pub(crate) const CALLS: u32 = 4;

/// One test at a time: they measure time, and count threads and descriptors.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Bench {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) db: Database,
    pub(crate) sleep: Arc<dyn Tool>,
    pub(crate) one: Arc<dyn Tool>,
    /// The same in another partition, on the server that tests share.
    near: (Arc<dyn Tool>, Arc<Cluster>),
    /// Given back last.
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    /// On a server that other tests use as well, one after the other.
    pub(crate) fn shared() -> Bench {
        let cluster = Cluster::shared();
        let alone = alone();
        let url = cluster.url();
        Bench::on(cluster, &url, AMPLE, alone)
    }

    /// On a server of its own.
    pub(crate) fn own(settings: &[&str]) -> Bench {
        let alone = alone();
        let cluster = Arc::new(Cluster::start(settings));
        let url = cluster.url();
        Bench::on(cluster, &url, AMPLE, alone)
    }

    pub(crate) fn on(
        cluster: Arc<Cluster>,
        url: &str,
        run_limit: Duration,
        alone: MutexGuard<'static, ()>,
    ) -> Bench {
        let sizing = Sizing { run_limit, ..sizing(CALLS) };
        let db = Postgres::new(url).open(&sizing).unwrap();
        let tool = |sql: &str| db.tool(Query::new(sql)).unwrap();
        let (sleep, one) = (tool("select 'napping' as nap, pg_sleep(60)"), tool("select 1 as one"));
        let shared = Cluster::shared();
        let near = Sizing { partition: "near".into(), ..self::sizing(CALLS) };
        let near = Postgres::new(shared.url()).open(&near).unwrap();
        let near = (near.tool(Query::new("select 1 as one")).unwrap(), shared);
        Bench { cluster, sleep, one, near, db, _alone: alone }
    }

    /// Calls that sleep for a minute, all of them running on the server when this returns.
    pub(crate) fn in_flight(&self, limit: Duration) -> Vec<InFlight> {
        let mut outside = self.cluster.client();
        let running = asleep(&mut outside) + i64::from(CALLS);
        let calls = (0..CALLS).map(|_| InFlight::start(&self.sleep, limit)).collect();
        eventually("all calls are running", || asleep(&mut outside) == running);
        calls
    }

    pub(crate) fn one(&self, limit: Duration) -> Result<Value, Failure> {
        call_within(&self.one, &json!({}), limit, &CancelToken::new())
    }

    /// Another partition feels nothing: no call of it takes half as long as one that is held here.
    /// `cargo bench --bench faults` has the figures.
    pub(crate) fn neighbour_is_well(&self) {
        for _ in 0..100 {
            let started = Instant::now();
            let rows = call_within(&self.near.0, &json!({}), LIMIT, &CancelToken::new());
            assert_eq!(rows.unwrap(), json!([{"one": 1}]));
            assert!(started.elapsed() < LIMIT / 2, "it took {:?}", started.elapsed());
        }
    }

    pub(crate) fn server(&mut self) -> &mut Cluster {
        Arc::get_mut(&mut self.cluster).expect("its own")
    }

    pub(crate) fn works(&self) {
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let one = Arc::clone(&self.one);
                spawn(move || call(&one, &json!({})))
            })
            .collect();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap(), json!([{"one": 1}]));
        }
    }
}

pub(crate) struct InFlight {
    pub(crate) token: CancelToken,
    pub(crate) started: Instant,
    pub(crate) limit: Duration,
    pub(crate) call: JoinHandle<(Result<Value, Failure>, Instant)>,
}

impl InFlight {
    pub(crate) fn start(tool: &Arc<dyn Tool>, limit: Duration) -> InFlight {
        let (tool, token) = (Arc::clone(tool), CancelToken::new());
        let in_call = token.clone();
        let started = Instant::now();
        let call = spawn(move || (call_within(&tool, &json!({}), limit, &in_call), Instant::now()));
        InFlight { token, started, limit, call }
    }

    /// Its failure, and how long it took; not longer than it may.
    pub(crate) fn failure(self) -> (FailureReason, Executed, Duration) {
        let (result, ended) = self.call.join().expect("a call does not panic");
        let took = ended - self.started;
        assert!(took < self.limit + FENCE, "it took {took:?} with a limit of {:?}", self.limit);
        let failure = result.expect_err("nobody sleeps to the end");
        (failure.reason, failure.executed, took)
    }
}

/// How many calls of ours are executed: one that is being prepared is active as well.
fn asleep(outside: &mut Client) -> i64 {
    let sql = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' \
               and query like '%napping%' and application_name = 'watertight/sql'";
    outside.query_one(sql, &[]).unwrap().get(0)
}

/// The servers' processes that run a call of ours.
pub(crate) fn napping(outside: &mut Client) -> Vec<i32> {
    let rows = outside.query(
        "select pid from pg_stat_activity where state = 'active' and query like '%napping%' \
         and pid <> pg_backend_pid() and application_name = 'watertight/sql'",
        &[],
    );
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Within two seconds nothing of ours runs on the server.
pub(crate) fn server_is_idle(outside: &mut Client) {
    let started = Instant::now();
    eventually("nothing of ours runs", || napping(outside).is_empty());
    assert!(started.elapsed() < Duration::from_secs(2), "it took {:?}", started.elapsed());
}

pub(crate) fn signal(name: &str, pid: i32) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

/// A stopped process of the server; it goes on when this is dropped.
pub(crate) struct Stopped(pub(crate) i32);

impl Stopped {
    pub(crate) fn stop(pid: i32) -> Stopped {
        signal("STOP", pid);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    /// It may be gone by now; and a panic in here would hide another.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.0.to_string()]).output();
    }
}
