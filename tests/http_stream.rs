//! Streams: read while they come, and ended by whatever limit comes first.
#![cfg(all(feature = "http", feature = "testing"))]

#[path = "support/http.rs"]
mod support;

use std::io::{ErrorKind, Read};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{PLENTY, args, call, client, sizing, vendor};
use watertight::call::{CancelToken, Run};
use watertight::driver::http::{Event, Events, Http, Request, Stream, StreamLimits};
use watertight::outcome::{Executed, Failure, FailureReason};
use watertight::testing::{Behaviour, Framing, Reply, Vendor};

const LIMIT: Duration = Duration::from_millis(250);

fn long() -> StreamLimits {
    StreamLimits { silence_max: PLENTY * 2, idle_max: PLENTY * 2, ..StreamLimits::default() }
}

fn open(vendor: &Vendor, limits: StreamLimits, run: &Run) -> Result<Stream, Failure> {
    let tool = client(vendor).streaming(Request::get("/"), limits).unwrap();
    tool.prepare(&args(&json!({}))).unwrap().open(run)
}

fn run(limit: Duration) -> Run {
    Run::detached(limit, CancelToken::new())
}

/// Half of a body of 2,000 bytes, and then nothing.
fn half() -> Behaviour {
    Behaviour::HangBody { framing: Framing::Chunked, reply: Reply::text("x".repeat(2000)) }
}

/// Reads to the end; how it ended.
fn drain(stream: &mut Stream) -> Result<usize, Failure> {
    let (mut block, mut total) = ([0; 1000], 0);
    loop {
        match stream.receive(&mut block)? {
            0 => return Ok(total),
            count => total += count,
        }
    }
}

fn assert_gone(vendor: &Vendor) {
    assert!(vendor.wait(PLENTY, |counts| counts.connections == 0), "{:?}", vendor.counts());
}

#[test]
fn events_come_while_the_backend_still_works() {
    let vendor = vendor();
    // As long as each other, so that the first is the half that comes at once.
    let (first, rest) = ("id: 1\ndata: {\"a\":1}\n\n", "id: 2\ndata: two\n\ndata");
    assert_eq!(first.len(), rest.len());
    let reply = Reply::status(200).body("text/event-stream", format!("{first}{rest}"));
    vendor.set(Behaviour::HangBody { framing: Framing::Chunked, reply });
    let stream = open(&vendor, long(), &run(PLENTY)).unwrap();
    assert_eq!((stream.status(), stream.header("content-type")), (200, Some("text/event-stream")));
    let mut events = Events::new(stream);
    let event =
        |data: &str, id: &str| Event { event: "message".into(), data: data.into(), id: id.into() };
    assert_eq!(events.next().unwrap().unwrap(), event("{\"a\":1}", "1"));
    assert_eq!(vendor.counts().in_flight, 1, "the answer is still being written");
    vendor.release();
    assert_eq!(events.next().unwrap().unwrap(), event("two", "2"));
    assert!(events.next().is_none() && events.next().is_none());
}

#[test]
fn a_silent_backend_is_given_up() {
    let vendor = vendor();
    for behaviour in [half(), Behaviour::Hang] {
        vendor.set(behaviour);
        let limits = StreamLimits { silence_max: LIMIT, ..long() };
        let begun = Instant::now();
        let failure = open(&vendor, limits, &run(PLENTY))
            .and_then(|mut stream| drain(&mut stream))
            .unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::Unknown));
        assert!(failure.message.contains("silent"), "{}", failure.message);
        assert!(begun.elapsed() >= LIMIT && begun.elapsed() < PLENTY / 3);
        assert_gone(&vendor);
    }
}

#[test]
fn the_run_limit_bounds_the_whole() {
    let vendor = vendor();
    let every = Duration::from_millis(20);
    vendor.set(Behaviour::DripBody { every, reply: Reply::text("x".repeat(2000)) });
    let begun = Instant::now();
    let mut stream = open(&vendor, long(), &run(LIMIT)).unwrap();
    let failure = drain(&mut stream).unwrap_err();
    assert_eq!(failure.reason, FailureReason::Limit);
    assert!(begun.elapsed() >= LIMIT && begun.elapsed() < PLENTY / 3);
    assert_gone(&vendor);
    assert_eq!(drain(&mut stream).unwrap_err().message, failure.message, "the same again");
}

#[test]
fn a_stream_that_nobody_reads_is_closed() {
    let vendor = vendor();
    for behaviour in [half(), Behaviour::EndlessBody] {
        for (limits, limit, words) in [
            (StreamLimits { idle_max: LIMIT, ..long() }, PLENTY * 2, "nobody has read"),
            (long(), LIMIT, "ended at its limit"),
        ] {
            vendor.set(behaviour.clone());
            let begun = Instant::now();
            let mut stream = open(&vendor, limits, &run(limit)).unwrap();
            stream.receive(&mut [0; 10]).unwrap();
            assert_gone(&vendor);
            assert!(begun.elapsed() >= LIMIT && begun.elapsed() < PLENTY / 2);
            let failure = drain(&mut stream).unwrap_err();
            assert_eq!(failure.reason, FailureReason::Limit);
            assert!(failure.message.contains(words), "{}", failure.message);
        }
    }
}

#[test]
fn a_consumer_that_reads_now_and_then_is_not_idle() {
    let vendor = vendor();
    vendor.set(Behaviour::EndlessBody);
    let limits = StreamLimits { idle_max: PLENTY / 3, ..long() };
    let mut stream = open(&vendor, limits, &run(PLENTY)).unwrap();
    for _ in 0..100 {
        assert!(stream.receive(&mut [0; 10]).unwrap() > 0);
    }
    drop(stream);
    assert_gone(&vendor);
}

#[test]
fn a_cancel_ends_a_stream_whether_or_not_it_is_read() {
    let vendor = vendor();
    vendor.set(half());
    let token = CancelToken::new();
    let mut idle = open(&vendor, long(), &Run::detached(PLENTY, token.clone())).unwrap();
    token.cancel();
    assert_gone(&vendor);
    assert_eq!(drain(&mut idle).unwrap_err().reason, FailureReason::Cancelled);

    let token = CancelToken::new();
    let mut read = open(&vendor, long(), &Run::detached(PLENTY, token.clone())).unwrap();
    let (sender, half_read) = mpsc::sync_channel(1);
    let reader = thread::spawn(move || {
        read.receive(&mut [0; 1000]).unwrap();
        sender.send(()).unwrap();
        drain(&mut read)
    });
    half_read.recv_timeout(PLENTY).unwrap();
    token.cancel();
    assert_eq!(reader.join().unwrap().unwrap_err().reason, FailureReason::Cancelled);
    assert_gone(&vendor);

    vendor.set(Behaviour::Hang);
    let token = CancelToken::new();
    let run = Run::detached(PLENTY, token.clone());
    thread::scope(|scope| {
        let opening = scope.spawn(|| open(&vendor, long(), &run));
        assert!(vendor.wait_in_flight(1, PLENTY));
        token.cancel();
        assert_eq!(opening.join().unwrap().unwrap_err().reason, FailureReason::Cancelled);
    });
}

#[test]
fn a_whole_stream_gives_its_connection_back_and_a_late_cancel_does_not_touch_it() {
    let vendor = vendor();
    vendor.set(Behaviour::Framed(Framing::Chunked, Reply::text("all of it")));
    let client = client(&vendor);
    let streaming = client.streaming(Request::get("/"), long()).unwrap();
    let plain = client.tool(Request::get("/")).unwrap();
    let opening = streaming.prepare(&args(&json!({}))).unwrap();
    for _ in 0..10 {
        let token = CancelToken::new();
        let mut stream = opening.open(&Run::detached(PLENTY, token.clone())).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "all of it");
        token.cancel();
        assert!(call(&plain, &json!({}), PLENTY).is_ok());
        assert_eq!(stream.receive(&mut [0; 10]).unwrap(), 0, "the end stays the end");
    }
    assert_eq!(vendor.counts().accepted, 1);
}

#[test]
fn a_stream_that_breaks_or_is_too_long_fails_for_good() {
    let vendor = vendor();
    let reply = Reply::text("x".repeat(2000));
    let few = StreamLimits { bytes_max: 1500, ..long() };
    for (behaviour, limits, reason) in [
        (
            Behaviour::Reset { framing: Framing::UntilClose, reply: reply.clone() },
            long(),
            FailureReason::HttpProtocol,
        ),
        (
            Behaviour::CutBody { framing: Framing::Chunked, reply: reply.clone() },
            long(),
            FailureReason::HttpProtocol,
        ),
        (Behaviour::Answer(reply.clone()), few, FailureReason::TooLarge),
    ] {
        vendor.set(behaviour);
        let mut stream = open(&vendor, limits, &run(PLENTY)).unwrap();
        assert_eq!(drain(&mut stream).unwrap_err().reason, reason);
        assert_eq!(drain(&mut stream).unwrap_err().reason, reason);
        let error = stream.read(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_gone(&vendor);
    }
    vendor.set(Behaviour::Answer(reply.with_status(500)));
    let failure = open(&vendor, long(), &run(PLENTY)).unwrap_err();
    assert_eq!(failure.reason, FailureReason::HttpStatus);
}

#[test]
fn limits_of_no_time_are_refused() {
    let client = Http::new("http://127.0.0.1").open(&sizing(1)).unwrap();
    for (limits, key) in [
        (StreamLimits { silence_max: Duration::ZERO, ..long() }, "`silence_max`"),
        (StreamLimits { idle_max: Duration::ZERO, ..long() }, "`idle_max`"),
    ] {
        let error = client.streaming(Request::get("/"), limits).unwrap_err();
        assert!(error.starts_with(key), "{error}");
    }
}
