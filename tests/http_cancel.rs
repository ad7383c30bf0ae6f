//! A cancel ends a request whatever it is blocked in, and touches nothing else.
#![cfg(all(feature = "http", feature = "testing"))]

#[path = "support/http.rs"]
mod support;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{PLENTY, args, client, sizing, vendor};
use watertight::call::{CancelToken, Run};
use watertight::driver::Response;
use watertight::driver::http::{Client, Http, Request};
use watertight::outcome::{Executed, Failure, FailureReason};
use watertight::testing::{Behaviour, Framing, Reply, Unanswered};

/// Calls `request`, cancels it when `begun` says so, and says how it ended and how soon.
fn cancel(
    client: &Client,
    request: Request,
    given: &Value,
    begun: impl FnOnce(),
) -> (Result<Value, Failure>, Duration) {
    let token = CancelToken::new();
    let mut operation = client.tool(request).unwrap().prepare(&args(given)).unwrap();
    let run = Run::detached(PLENTY * 2, token.clone());
    let (ended, end) = mpsc::sync_channel(1);
    let worker = thread::spawn(move || {
        let result = operation(&run).and_then(Response::decode);
        ended.send((result, Instant::now())).unwrap();
    });
    begun();
    let cancelled = Instant::now();
    token.cancel();
    let (result, at) = end.recv_timeout(PLENTY).expect("the cancel ends it");
    worker.join().unwrap();
    (result, at.saturating_duration_since(cancelled))
}

fn assert_cancelled(result: Result<Value, Failure>, executed: Executed, what: &str) {
    let failure = result.expect_err(what);
    assert_eq!(failure.reason, FailureReason::Cancelled, "{what}: {}", failure.message);
    assert_eq!(failure.executed, executed, "{what}");
}

#[test]
fn a_cancel_ends_every_wait_for_an_answer() {
    let drip = Duration::from_millis(20);
    let half = Reply::text("x".repeat(1000));
    for behaviour in [
        Behaviour::Hang,
        Behaviour::DripHead { every: drip, reply: half.clone() },
        Behaviour::DripBody { every: drip, reply: half.clone() },
        Behaviour::HangBody { framing: Framing::ContentLength, reply: half.clone() },
        Behaviour::HangBody { framing: Framing::UntilClose, reply: half.clone() },
        Behaviour::HangBody { framing: Framing::UntilClose, reply: half.with_status(500) },
        Behaviour::EndlessBody,
    ] {
        let vendor = vendor();
        let client = Http::new(vendor.url()).body_max(u64::MAX).open(&sizing(1)).unwrap();
        let what = format!("{behaviour:?}");
        // The second time it is a connection from the pool.
        for round in 1..=2 {
            vendor.set(Behaviour::default());
            let warm = client.tool(Request::get("/")).unwrap();
            assert!(support::call(&warm, &json!({}), PLENTY).is_ok());
            vendor.set(behaviour.clone());
            let in_flight = || assert!(vendor.wait_in_flight(1, PLENTY));
            let (result, took) = cancel(&client, Request::get("/"), &json!({}), in_flight);
            assert_cancelled(result, Executed::Unknown, &what);
            assert!(took < PLENTY / 6, "{what}: {took:?}");
            assert!(vendor.wait(PLENTY, |counts| counts.connections == 0), "{what}: round {round}");
        }
    }
}

#[test]
fn a_cancel_ends_the_sending_of_a_body() {
    let vendor = vendor();
    vendor.set(Behaviour::NeverRead);
    let given = json!({"a": "x".repeat(8 * 1024 * 1024)});
    let accepted = || assert!(vendor.wait(PLENTY, |counts| counts.accepted == 1));
    let request = Request::post("/").body(json!("{a}"));
    let (result, took) = cancel(&client(&vendor), request, &given, accepted);
    let failure = result.unwrap_err();
    assert_eq!(failure.reason, FailureReason::Cancelled);
    assert!(took < PLENTY / 6, "{took:?}");
}

#[test]
fn a_cancel_ends_a_handshake_and_a_connection_in_the_making() {
    let vendor = vendor();
    vendor.set(Behaviour::NeverRead);
    let tls = Http::new(vendor.url().replace("http:", "https:")).connect_timeout(PLENTY * 2);
    let tls = tls.open(&sizing(1)).unwrap();
    let accepted = || assert!(vendor.wait(PLENTY, |counts| counts.accepted == 1));
    let (result, took) = cancel(&tls, Request::get("/"), &json!({}), accepted);
    assert_cancelled(result, Executed::No, "handshake");
    assert!(took < PLENTY / 6, "{took:?}");

    let silent = Unanswered::open().unwrap();
    let client = Http::new(format!("http://{}", silent.addr())).connect_timeout(PLENTY * 2);
    let client = client.open(&sizing(1)).unwrap();
    for _ in 0..20 {
        let (result, took) = cancel(&client, Request::get("/"), &json!({}), || ());
        assert_cancelled(result, Executed::No, "connect");
        assert!(took < PLENTY / 6, "{took:?}");
    }
}

#[test]
fn a_call_cancelled_before_it_begins_sends_nothing() {
    let vendor = vendor();
    let client = client(&vendor);
    let token = CancelToken::new();
    token.cancel();
    let mut operation = client.tool(Request::get("/")).unwrap().prepare(&args(&json!({}))).unwrap();
    let failure = operation(&Run::detached(PLENTY, token)).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Cancelled, Executed::No));
    assert_eq!(vendor.counts().requests, 0);
}

/// A cancel that comes when its request has just ended must not hit the next one on that
/// connection.
#[test]
fn a_late_cancel_never_hits_the_next_request() {
    const ROUNDS: u32 = 1000;
    let vendor = vendor();
    let client = Http::new(vendor.url()).open(&sizing(1)).unwrap();
    let tool = client.tool(Request::get("/")).unwrap();
    let (tokens, given) = mpsc::sync_channel::<(CancelToken, Duration)>(0);
    let canceller = thread::spawn(move || {
        for (token, after) in given {
            let begun = Instant::now();
            while begun.elapsed() < after {
                std::hint::spin_loop();
            }
            token.cancel();
        }
    });
    let mut typical = Duration::from_micros(100);
    let (mut cancelled, mut finished) = (0, 0);
    for round in 0..ROUNDS {
        let token = CancelToken::new();
        // Around the end of the request: from half to one and a half of what one takes.
        tokens.send((token.clone(), typical / 2 + typical * (round % 64) / 64)).unwrap();
        let begun = Instant::now();
        let mut first = tool.prepare(&args(&json!({}))).unwrap();
        match first(&Run::detached(PLENTY, token)) {
            Ok(_) => {
                finished += 1;
                // Follows the median, which a few slow ones do not move.
                let longer = begun.elapsed() > typical;
                typical = if longer { typical * 21 / 20 } else { typical * 19 / 20 };
            }
            Err(failure) => {
                assert_eq!(failure.reason, FailureReason::Cancelled, "{}", failure.message);
                cancelled += 1;
            }
        }
        let next = support::call(&tool, &json!({}), PLENTY);
        assert!(next.is_ok(), "round {round}: {next:?}");
    }
    drop(tokens);
    canceller.join().unwrap();
    assert!(cancelled > ROUNDS / 100 && finished > ROUNDS / 100, "{cancelled} {finished}");
    assert!(vendor.counts().accepted <= u64::from(cancelled) + 1, "one connection a cancel");
}
