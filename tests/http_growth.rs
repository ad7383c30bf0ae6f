//! Nothing grows over a thousand requests that hang and are ended: alone in its process, since it
//! counts what the process has.
#![cfg(all(feature = "http", feature = "testing", target_os = "linux"))]

#[path = "support/http.rs"]
mod support;

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use support::{PLENTY, args, client, vendor};
use watertight::call::{CancelToken, Run};
use watertight::driver::http::{Request, StreamLimits};
use watertight::outcome::FailureReason;
use watertight::testing::{Behaviour, Framing, Reply, Vendor};

/// Descriptors, threads and resident KiB of this process.
fn held() -> (usize, usize, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| -> usize {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (fs::read_dir("/proc/self/fd").unwrap().count(), field("Threads:"), field("VmRSS:"))
}

/// Streams dropped half-way and cancelled while nobody reads them.
fn streams(vendor: &Vendor) {
    let reply = Reply::text("x".repeat(2000));
    vendor.set(Behaviour::HangBody { framing: Framing::Chunked, reply });
    let tool = client(vendor).streaming(Request::get("/"), StreamLimits::default()).unwrap();
    let opening = tool.prepare(&args(&json!({}))).unwrap();
    for round in 0..200 {
        let token = CancelToken::new();
        let mut stream = opening.open(&Run::detached(PLENTY, token.clone())).unwrap();
        stream.receive(&mut [0; 10]).unwrap();
        if round % 2 == 0 {
            token.cancel();
        } else {
            drop(stream);
        }
        assert!(vendor.wait(PLENTY, |counts| counts.connections == 0));
    }
}

#[test]
fn a_thousand_hung_requests_leave_nothing_behind() {
    let vendor = vendor();
    vendor.set(Behaviour::Hang);
    let tool = client(&vendor).tool(Request::get("/")).unwrap();
    let (runs, given) = mpsc::sync_channel::<Run>(0);
    let (ended, ends) = mpsc::sync_channel(1);
    let worker = thread::spawn(move || {
        for run in given {
            let mut operation = tool.prepare(&args(&json!({}))).unwrap();
            ended.send(operation(&run).unwrap_err().reason).unwrap();
        }
    });
    let mut before = None;
    for round in 0..1000 {
        let token = CancelToken::new();
        let by_limit = round % 10 == 0;
        let limit = if by_limit { Duration::from_millis(10) } else { PLENTY };
        runs.send(Run::detached(limit, token.clone())).unwrap();
        if !by_limit {
            assert!(vendor.wait_in_flight(1, PLENTY));
            token.cancel();
        }
        let reason = ends.recv_timeout(PLENTY).expect("ends");
        let expected = if by_limit { FailureReason::Limit } else { FailureReason::Cancelled };
        assert_eq!(reason, expected);
        assert!(vendor.wait(PLENTY, |counts| counts.connections == 0));
        if round == 100 {
            before = Some(held());
        }
    }
    streams(&vendor);
    let (before, after) = (before.unwrap(), held());
    // The vendor counts a connection as gone just before its thread is.
    assert!(after.0 <= before.0, "descriptors: {before:?} {after:?}");
    assert!(after.1 <= before.1 + 2, "threads: {before:?} {after:?}");
    assert!(after.2 <= before.2 + 8 * 1024, "resident KiB: {before:?} {after:?}");
    drop(runs);
    worker.join().unwrap();
}
