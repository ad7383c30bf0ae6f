//! Whether a PostgreSQL server under fault is felt next door: the p99 of a partition on another
//! server while each fault is on, against the same before and after it. The faulty partition is kept
//! full of calls all the while. `cargo bench --bench faults`, or with `-- relay` those faults alone
//! whose name holds that.
//!
//! Fails if a p99 is more than 1.25 of its own without the fault, given its spread against itself; or
//! if the faulty partition does not work again afterwards.

#![allow(clippy::print_stdout, reason = "its figures are its product")]

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/support/postgres.rs"]
mod postgres_server;
#[path = "../tests/support/relay.rs"]
mod relay;
mod support;
#[path = "support/tail.rs"]
mod tail;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres_server::Cluster;
use relay::Relay;
use support::{compare, median};
use tail::p99;
use watertight::driver::postgres::Postgres;
use watertight::driver::sql::Query;
use watertight::{PartitionSpec, Runtime, ToolCall};

const CALLS: u32 = 10_000;
const BLOCKS: usize = 15;
const SLOTS: u32 = 4;
const LIMIT: Duration = Duration::from_millis(300);
/// From one call of the faulty partition to the next: connects that fail at once take a processor
/// that both have.
const PAUSE: Duration = Duration::from_millis(50);
const HANG: Duration = Duration::from_secs(60);
const MOST: f64 = 1.25;

fn main() {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let neighbour = Cluster::start(&[]);
    let mut all_hold = true;
    for fault in Fault::ALL {
        let name = fault.name();
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            all_hold &= measure(fault, &neighbour);
        }
    }
    assert!(all_hold, "a bound is broken");
}

/// What is done to the server with calls in flight.
#[derive(Clone, Copy)]
enum Fault {
    /// Its backends are killed, again and again.
    Killed,
    /// Its backends are stopped.
    Stopped,
    /// The postmaster is stopped.
    Postmaster,
    /// It is shut down, and started again.
    Restart,
    /// What lies between passes nothing on.
    Relay,
    /// Others have taken all connections.
    Taken,
}

impl Fault {
    const ALL: [Fault; 6] = [
        Fault::Killed,
        Fault::Stopped,
        Fault::Postmaster,
        Fault::Restart,
        Fault::Relay,
        Fault::Taken,
    ];

    fn name(self) -> &'static str {
        match self {
            Fault::Killed => "backends killed",
            Fault::Stopped => "backends stopped",
            Fault::Postmaster => "postmaster stopped",
            Fault::Restart => "server restarted",
            Fault::Relay => "dead relay",
            Fault::Taken => "connections taken",
        }
    }
}

fn measure(fault: Fault, neighbour: &Cluster) -> bool {
    let mut faulty = Faulty::start(fault);
    let runtime = Arc::new(runtime(&faulty.url, &neighbour.url()));
    let load = Load::start(&runtime);
    let near = || p99(&runtime, "user", CALLS);
    let costs = compare(BLOCKS, near, || {
        faulty.begin();
        let during = near();
        faulty.end();
        works_again(&runtime);
        during
    });
    drop(load);
    let name = fault.name();
    println!("{name}: p99 next door {:.0} us before, {:.0} us after", near(), near());
    let bound = MOST * median(&costs.noise).max(1.0);
    costs.report(&format!("{name}: p99 next door during / before and after"), bound)
}

fn runtime(faulty: &str, near: &str) -> Runtime {
    let orders = PartitionSpec::new("orders").slots(SLOTS).run_limit(LIMIT);
    let users = PartitionSpec::new("users").slots(SLOTS);
    let open = |url: &str, spec: &PartitionSpec| Postgres::new(url).open(&spec.sizing());
    let (far, near) = (open(faulty, &orders).expect("a URL"), open(near, &users).expect("a URL"));
    Runtime::builder()
        .tool("nap", "orders", far.tool(Query::new("select pg_sleep(60)")).expect("a query"))
        .tool("order", "orders", far.tool(Query::new("select 1 as id")).expect("a query"))
        .tool("user", "users", near.tool(Query::new("select 7 as id")).expect("a query"))
        .partition(orders)
        .partition(users)
        .build()
        .expect("a few threads")
}

/// Waits until the faulty partition serves a call without having been opened again.
fn works_again(runtime: &Runtime) {
    let start = Instant::now();
    while !runtime.call(ToolCall::new("order")).is_ok() {
        assert!(start.elapsed() < HANG, "it does not work again");
        thread::sleep(PAUSE / 10);
    }
}

/// Keeps all but one slot of the faulty partition in use until it is dropped.
struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(runtime: &Arc<Runtime>) -> Load {
        let over = Arc::new(AtomicBool::new(false));
        let threads = (1..SLOTS).map(|_| {
            let (runtime, over) = (Arc::clone(runtime), Arc::clone(&over));
            thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let _ = runtime.call(ToolCall::new("nap"));
                    thread::sleep(PAUSE);
                }
            })
        });
        Load { threads: threads.collect(), over }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("it does not panic");
        }
    }
}

/// A server, and what is being done to it.
struct Faulty {
    fault: Fault,
    cluster: Cluster,
    relay: Option<Relay>,
    url: String,
    stopped: Vec<i32>,
    taken: Vec<Client>,
    killer: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Faulty {
    fn start(fault: Fault) -> Faulty {
        let settings: &[&str] = match fault {
            Fault::Taken => &["max_connections=8", "superuser_reserved_connections=0"],
            _ => &[],
        };
        let cluster = Cluster::start(settings);
        let relay = matches!(fault, Fault::Relay).then(|| Relay::to(cluster.port()));
        let port = relay.as_ref().map_or(cluster.port(), Relay::port);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        Faulty { fault, cluster, relay, url, stopped: Vec::new(), taken: Vec::new(), killer: None }
    }

    fn begin(&mut self) {
        match self.fault {
            Fault::Killed => self.killer = Some(kill_backends(self.cluster.client())),
            Fault::Stopped => self.stop(backends(&mut self.cluster.client())),
            Fault::Postmaster => self.stop(vec![self.cluster.postmaster()]),
            Fault::Restart => self.cluster.stop(),
            Fault::Relay => self.relay.iter().for_each(Relay::die),
            Fault::Taken => self.take_connections(),
        }
    }

    fn end(&mut self) {
        if let Some((over, killer)) = self.killer.take() {
            over.store(true, Ordering::SeqCst);
            killer.join().expect("it does not panic");
        }
        self.stopped.drain(..).for_each(|pid| signal("CONT", pid));
        self.taken.clear();
        match self.fault {
            Fault::Restart => self.cluster.restart(),
            Fault::Relay => self.relay.iter().for_each(Relay::revive),
            _ => {}
        }
    }

    fn stop(&mut self, pids: Vec<i32>) {
        pids.iter().for_each(|pid| signal("STOP", *pid));
        self.stopped = pids;
    }

    /// Ends the partition's connections and takes every one there is.
    fn take_connections(&mut self) {
        let mut first = self.cluster.client();
        first.execute(END_OURS, &[]).expect("a superuser may");
        self.taken.push(first);
        let config: postgres::Config = self.cluster.url().parse().expect("a URL");
        while let Ok(more) = config.connect(postgres::NoTls) {
            self.taken.push(more);
        }
    }
}

const END_OURS: &str = "select pg_terminate_backend(pid) from pg_stat_activity \
                        where application_name = 'watertight/orders'";

fn kill_backends(mut outside: Client) -> (Arc<AtomicBool>, JoinHandle<()>) {
    let over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    let killer = thread::spawn(move || {
        while !until.load(Ordering::SeqCst) {
            outside.execute(END_OURS, &[]).expect("a superuser may");
            thread::sleep(PAUSE);
        }
    });
    (over, killer)
}

fn backends(outside: &mut Client) -> Vec<i32> {
    let ours = "select pid from pg_stat_activity where application_name = 'watertight/orders'";
    outside.query(ours, &[]).expect("it answers").iter().map(|row| row.get(0)).collect()
}

/// To a process of the cluster's own. One that has ended meanwhile needs none.
fn signal(name: &str, pid: i32) {
    let _ = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
}
