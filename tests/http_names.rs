//! Host names: looked up within a call's limit, once for many calls, by one thread.
#![cfg(all(feature = "http", feature = "testing"))]

#[path = "support/http.rs"]
mod support;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use support::{PLENTY, args, call, sizing, vendor};
use watertight::call::{CancelToken, Run};
use watertight::driver::Tool;
use watertight::driver::http::{Http, Request};
use watertight::outcome::{Executed, FailureReason};
use watertight::testing::{Unanswered, refused_addr};

const LIMIT: Duration = Duration::from_millis(250);

type Found = io::Result<Vec<SocketAddr>>;
type Answer = fn(SocketAddr) -> Found;

/// A tool of `http://vendor.test`, whose address `look_up` says, and how often it was asked.
fn named(
    http: impl FnOnce(Http) -> Http,
    look_up: impl Fn() -> Found + Send + Sync + 'static,
) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let resolver = move |host: &str, port: u16| {
        assert_eq!((host, port), ("vendor.test", 80));
        count.fetch_add(1, Ordering::SeqCst);
        look_up()
    };
    let http = http(Http::new("http://vendor.test").resolver(resolver));
    (http.open(&sizing(4)).unwrap().tool(Request::get("/")).unwrap(), asked)
}

/// A resolver that hangs until the sender is dropped, and then says `found`.
fn hanging(found: SocketAddr) -> (mpsc::SyncSender<()>, impl Fn() -> Found + Send + Sync) {
    let (release, released) = mpsc::sync_channel::<()>(1);
    let released = Mutex::new(released);
    let look_up = move || {
        let _ = released.lock().recv();
        Ok(vec![found])
    };
    (release, look_up)
}

#[test]
fn a_name_is_looked_up_once_for_many_calls() {
    let vendor = vendor();
    let addr = vendor.addr();
    let (tool, asked) = named(|http| http, move || Ok(vec![addr]));
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..5 {
                    call(&tool, &json!({}), PLENTY).unwrap();
                }
            });
        }
    });
    assert_eq!((asked.load(Ordering::SeqCst), vendor.counts().requests), (1, 40));
    assert_eq!(vendor.seen()[0].header("host"), Some("vendor.test"));
}

#[test]
fn the_systems_resolver_is_the_default() {
    let vendor = vendor();
    let url = format!("http://localhost:{}", vendor.addr().port());
    let tool = Http::new(url).open(&sizing(1)).unwrap().tool(Request::get("/")).unwrap();
    assert!(call(&tool, &json!({}), PLENTY).is_ok());
}

#[test]
fn a_name_without_an_address_fails_and_is_asked_for_again() {
    let vendor = vendor();
    let addr = vendor.addr();
    let answers: Mutex<Vec<Answer>> = Mutex::new(vec![
        |addr| Ok(vec![addr]),
        |_| panic!("a resolver's own fault"),
        |_| Ok(Vec::new()),
        |_| Err(io::ErrorKind::NotFound.into()),
    ]);
    let (tool, asked) =
        named(|http| http, move || (answers.lock().pop().expect("asked four times"))(addr));
    for round in 1..=3 {
        let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
        assert_eq!(asked.load(Ordering::SeqCst), round);
    }
    assert!(call(&tool, &json!({}), PLENTY).is_ok());
}

#[test]
fn a_resolver_that_hangs_holds_nobody_past_the_limit() {
    let vendor = vendor();
    for (connect, reason) in [(PLENTY, FailureReason::Limit), (LIMIT / 2, FailureReason::Connect)] {
        let (release, look_up) = hanging(vendor.addr());
        let (tool, asked) = named(|http| http.connect_timeout(connect), look_up);
        for _ in 0..3 {
            let begun = Instant::now();
            let failure = call(&tool, &json!({}), LIMIT).unwrap_err();
            assert_eq!((failure.reason, failure.executed), (reason, Executed::No));
            assert!(begun.elapsed() >= LIMIT.min(connect) && begun.elapsed() < PLENTY / 3);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1, "one thread, whoever waits");
        drop(release);
        assert!(call(&tool, &json!({}), PLENTY).is_ok(), "the late answer serves");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_cancel_ends_the_wait_for_a_name() {
    let vendor = vendor();
    let (release, look_up) = hanging(vendor.addr());
    let (tool, asked) = named(|http| http.connect_timeout(PLENTY), look_up);
    for _ in 0..50 {
        let token = CancelToken::new();
        let mut operation = tool.prepare(&args(&json!({}))).unwrap();
        let run = Run::detached(PLENTY, token.clone());
        let (ended, end) = mpsc::sync_channel(1);
        let waiter = thread::spawn(move || ended.send(operation(&run)).unwrap());
        token.cancel();
        let failure = end.recv_timeout(PLENTY / 3).expect("ends").unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Cancelled, Executed::No));
        waiter.join().unwrap();
    }
    assert!(asked.load(Ordering::SeqCst) <= 1);
    drop(release);
}

#[test]
fn every_address_is_tried() {
    let vendor = vendor();
    let silent = Unanswered::open().unwrap();
    let addrs = vec![refused_addr().unwrap(), silent.addr(), vendor.addr()];
    let (tool, _) =
        named(|http| http.connect_timeout(Duration::from_secs(3)), move || Ok(addrs.clone()));
    assert!(call(&tool, &json!({}), PLENTY).is_ok());
    assert_eq!(vendor.counts().requests, 1);
}
