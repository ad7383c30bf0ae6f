//! HTTP tools against a backend that misbehaves: each call ends on time with the right reason, the
//! backend sees the end of it, and the next call works.
#![cfg(all(feature = "http", feature = "testing"))]

#[path = "support/http.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{PLENTY, call, client, sizing, vendor};
use watertight::driver::http::{Http, Request};
use watertight::outcome::{Executed, Failure, FailureReason};
use watertight::testing::{Behaviour, Framing, Reply, Unanswered, Vendor};

const LIMIT: Duration = Duration::from_millis(250);

fn text(length: usize) -> Reply {
    Reply::text("x".repeat(length))
}

/// One `GET` with a limit of `limit`; how it failed, and how long that took.
fn fail(vendor: &Vendor, behaviour: &Behaviour, limit: Duration) -> (Failure, Duration) {
    vendor.set(behaviour.clone());
    let tool = client(vendor).tool(Request::get("/x")).unwrap();
    let begun = Instant::now();
    let failure = call(&tool, &json!({}), limit).expect_err("misbehaves");
    let took = begun.elapsed();
    assert!(
        vendor.wait(PLENTY, |counts| counts.connections == 0 && counts.in_flight == 0),
        "{behaviour:?}: the backend does not see the end: {:?}",
        vendor.counts()
    );
    vendor.set(Behaviour::Answer(Reply::text("fine")));
    assert_eq!(call(&tool, &json!({}), PLENTY).unwrap()["body"], "fine");
    (failure, took)
}

#[test]
fn whatever_lasts_ends_at_the_limit() {
    let drip = Duration::from_millis(20);
    for behaviour in [
        Behaviour::Hang,
        Behaviour::DripHead { every: drip, reply: text(10) },
        Behaviour::HangBody { framing: Framing::ContentLength, reply: text(1000) },
        Behaviour::HangBody { framing: Framing::Chunked, reply: text(1000) },
        Behaviour::HangBody { framing: Framing::UntilClose, reply: text(1000) },
        Behaviour::DripBody { every: drip, reply: text(1000) },
        Behaviour::Delay(PLENTY, text(10)),
    ] {
        let (failure, took) = fail(&vendor(), &behaviour, LIMIT);
        assert_eq!(failure.reason, FailureReason::Limit, "{behaviour:?}: {}", failure.message);
        assert_eq!(failure.executed, Executed::Unknown);
        assert!(took >= LIMIT && took < LIMIT + PLENTY / 6, "{behaviour:?}: {took:?}");
    }
}

#[test]
fn whatever_breaks_is_no_result() {
    for behaviour in [
        Behaviour::Reset { framing: Framing::ContentLength, reply: text(1000) },
        Behaviour::Reset { framing: Framing::Chunked, reply: text(1000) },
        Behaviour::Reset { framing: Framing::UntilClose, reply: text(1000) },
        Behaviour::CutBody { framing: Framing::ContentLength, reply: text(1000) },
        Behaviour::CutBody { framing: Framing::Chunked, reply: text(1000) },
        Behaviour::Garbage,
        Behaviour::Close,
    ] {
        let (failure, took) = fail(&vendor(), &behaviour, PLENTY);
        assert_eq!(failure.reason, FailureReason::HttpProtocol, "{behaviour:?}");
        assert_eq!(failure.executed, Executed::Unknown, "{}", failure.message);
        assert!(took < PLENTY / 2, "{behaviour:?}: {took:?}");
    }
}

#[test]
fn whatever_is_endless_is_cut_at_its_cap() {
    for (behaviour, named) in [
        (Behaviour::EndlessBody, "body exceeds 1048576 bytes"),
        (Behaviour::Answer(text(1024 * 1024 + 1)), "body exceeds 1048576 bytes"),
        (
            Behaviour::Framed(Framing::UntilClose, text(2 * 1024 * 1024)),
            "body exceeds 1048576 bytes",
        ),
        (Behaviour::HugeHead(100_000), "head of the answer exceeds"),
    ] {
        let (failure, _) = fail(&vendor(), &behaviour, PLENTY);
        assert_eq!(failure.reason, FailureReason::TooLarge);
        assert!(failure.message.contains(named), "{}", failure.message);
        assert_eq!(failure.executed, Executed::Yes);
    }
    let vendor = vendor();
    vendor.set(Behaviour::Answer(text(1024 * 1024)));
    let tool = client(&vendor).tool(Request::get("/")).unwrap();
    let result = call(&tool, &json!({}), PLENTY).unwrap();
    assert_eq!(result["body"].as_str().unwrap().len(), 1024 * 1024, "the cap itself is fine");
}

#[test]
fn a_body_ends_by_its_own_framing() {
    let vendor = vendor();
    let tool = client(&vendor).tool(Request::get("/")).unwrap();
    for framing in [Framing::ContentLength, Framing::Chunked, Framing::UntilClose] {
        vendor.set(Behaviour::Framed(framing, Reply::text("all of it")));
        for _ in 0..3 {
            assert_eq!(call(&tool, &json!({}), PLENTY).unwrap()["body"], "all of it");
        }
    }
    assert_eq!(vendor.counts().accepted, 3, "the connection is kept where it can be");
}

#[test]
fn a_connection_closed_behind_an_answer_is_not_used_again() {
    let vendor = vendor();
    vendor.set(Behaviour::AnswerThenClose(Reply::default()));
    let tool = client(&vendor).tool(Request::post("/").body(json!({}))).unwrap();
    for _ in 0..20 {
        assert_eq!(call(&tool, &json!({}), PLENTY).unwrap()["status"], 200);
        assert!(vendor.wait(PLENTY, |counts| counts.connections == 0));
    }
    assert_eq!(vendor.counts().accepted, 20);
}

#[test]
fn a_redirect_loop_ends() {
    let vendor = vendor();
    vendor.set(Behaviour::RedirectLoop);
    let follows = client(&vendor);
    let failure = call(&follows.tool(Request::get("/")).unwrap(), &json!({}), PLENTY).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Redirect, Executed::Yes));
    assert_eq!(vendor.counts().requests, 6, "the request and five redirects");
    let stays = Http::new(vendor.url()).redirects(0).open(&sizing(1)).unwrap();
    let failure = call(&stays.tool(Request::get("/")).unwrap(), &json!({}), PLENTY).unwrap_err();
    assert_eq!(failure.reason, FailureReason::HttpStatus);
    let accepts = stays.tool(Request::get("/").accept([302]).keep_header("Location")).unwrap();
    let result = call(&accepts, &json!({}), PLENTY).unwrap();
    assert_eq!((&result["status"], &result["headers"]["location"]), (&json!(302), &json!("/")));
}

#[test]
fn redirects_stay_within_the_origin_and_keep_its_credential() {
    let (home, other) = (vendor(), vendor());
    let to = |location: String| Behaviour::Answer(Reply::status(302).header("Location", location));
    home.set_path("/near", to("/there?a=b".to_owned()));
    home.set_path("/same", to(format!("{}/there", home.url())));
    home.set_path("/far", to(format!("{}/there", other.url())));
    home.set_path("/odd", to("ftp://127.0.0.1/there".to_owned()));
    home.set_path("/repeat", Behaviour::Answer(Reply::status(307).header("Location", "/there")));
    let client = Http::new(home.url())
        .header("Authorization", "Bearer s3cret-token")
        .header("X-Api-Key", "s3cret-key")
        .open(&sizing(1))
        .unwrap();
    for path in ["/near", "/same"] {
        let tool = client.tool(Request::get(path)).unwrap();
        assert_eq!(call(&tool, &json!({}), PLENTY).unwrap()["body"], "ok");
        let arrived = home.seen().pop().unwrap();
        assert_eq!(arrived.path(), "/there");
        assert_eq!(arrived.header("authorization"), Some("Bearer s3cret-token"));
    }
    for request in
        [Request::get("/far"), Request::get("/odd"), Request::post("/repeat").body(json!(1))]
    {
        let tool = client.tool(request).unwrap();
        let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
        assert_eq!(failure.reason, FailureReason::Redirect, "{}", failure.message);
    }
    assert_eq!(other.counts().accepted, 0);
}

#[test]
fn a_backend_that_never_reads_ends_at_the_limit() {
    let vendor = vendor();
    vendor.set(Behaviour::NeverRead);
    let client = client(&vendor);
    let large = json!("x".repeat(8 * 1024 * 1024));
    for (request, given) in [
        (Request::get("/"), json!({})),
        (Request::post("/").body(json!("{a}")), json!({"a": large})),
    ] {
        let tool = client.tool(request).unwrap();
        let begun = Instant::now();
        let failure = call(&tool, &given, LIMIT).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::Unknown));
        assert!(begun.elapsed() >= LIMIT && begun.elapsed() < PLENTY / 3);
    }
}

#[test]
fn a_handshake_that_hangs_ends_at_the_limit_or_sooner() {
    let vendor = vendor();
    vendor.set(Behaviour::NeverRead);
    let url = vendor.url().replace("http:", "https:");
    for (connect, reason) in [(PLENTY, FailureReason::Limit), (LIMIT / 2, FailureReason::Connect)] {
        let client = Http::new(&url).connect_timeout(connect).open(&sizing(1)).unwrap();
        let tool = client.tool(Request::get("/")).unwrap();
        let begun = Instant::now();
        let failure = call(&tool, &json!({}), LIMIT).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (reason, Executed::No));
        assert!(begun.elapsed() >= LIMIT.min(connect) && begun.elapsed() < PLENTY / 3);
    }
}

#[test]
fn a_connection_that_is_never_answered_ends_at_the_limit_or_sooner() {
    let silent = Unanswered::open().unwrap();
    let url = format!("http://{}", silent.addr());
    for (connect, reason) in [(PLENTY, FailureReason::Limit), (LIMIT / 2, FailureReason::Connect)] {
        let client = Http::new(&url).connect_timeout(connect).open(&sizing(1)).unwrap();
        let tool = client.tool(Request::get("/")).unwrap();
        let begun = Instant::now();
        let failure = call(&tool, &json!({}), LIMIT).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (reason, Executed::No));
        // The system counts whole milliseconds while it connects.
        let least = LIMIT.min(connect) - Duration::from_millis(2);
        assert!(begun.elapsed() >= least && begun.elapsed() < PLENTY / 3);
    }
}

#[test]
fn a_refusal_shows_status_and_body_but_no_credential() {
    let vendor = vendor();
    let client = Http::new(vendor.url())
        .header("Authorization", "Bearer s3cret-token")
        .open(&sizing(1))
        .unwrap();
    let tool = client.tool(Request::get("/")).unwrap();
    let echo = format!("no Bearer s3cret-token, s3cret-token {}", "é".repeat(5000));
    vendor.set(Behaviour::Answer(
        Reply::text(echo).with_status(403).header("X-Debug", "Bearer s3cret-token"),
    ));
    let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::HttpStatus, Executed::Yes));
    let shown = failure.evidence.value().unwrap();
    assert_eq!(shown["status"], 403);
    let body = shown["body"].as_str().unwrap();
    assert!(body.starts_with("no [redacted], [redacted] éé") && body.ends_with('…'));
    assert!(body.chars().count() <= 2001);
    assert!(!format!("{failure:?} {client:?}").contains("s3cret"));
}

#[test]
fn a_refusal_stands_although_its_body_never_ends() {
    for behaviour in [
        Behaviour::HangBody {
            framing: Framing::ContentLength,
            reply: Reply::text("half of it").with_status(500),
        },
        Behaviour::Reset {
            framing: Framing::ContentLength,
            reply: Reply::text("half of it").with_status(500),
        },
    ] {
        let vendor = vendor();
        vendor.set(behaviour);
        let tool = client(&vendor).tool(Request::get("/")).unwrap();
        let failure = call(&tool, &json!({}), LIMIT).unwrap_err();
        assert_eq!(failure.reason, FailureReason::HttpStatus);
        assert_eq!(failure.evidence.value().unwrap()["body"], "half ");
    }
}

#[test]
fn accepted_statuses_are_the_tools_own() {
    let vendor = vendor();
    vendor.set(Behaviour::Answer(Reply::json("null").with_status(404)));
    let tool = client(&vendor).tool(Request::get("/").accept([200, 404])).unwrap();
    let result = call(&tool, &json!({}), PLENTY).unwrap();
    assert_eq!((&result["status"], &result["body"]), (&json!(404), &Value::Null));
    vendor.set(Behaviour::Answer(Reply::status(204)));
    let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
    assert_eq!(failure.reason, FailureReason::HttpStatus);
}

#[test]
fn a_backend_that_asks_for_a_pause_is_heard() {
    let vendor = vendor();
    let tool = client(&vendor).tool(Request::get("/")).unwrap();
    let soon = std::time::SystemTime::now() + Duration::from_secs(100);
    let past = std::time::SystemTime::UNIX_EPOCH;
    let (throttled, refused) = (FailureReason::Throttled, FailureReason::HttpStatus);
    let secs = |s| Some(Duration::from_secs(s));
    for (status, header, reason, executed, pause) in [
        (429, Some("7".to_owned()), throttled, Executed::No, secs(7)),
        (429, Some(" 0 ".to_owned()), throttled, Executed::No, secs(0)),
        (429, None, throttled, Executed::No, None),
        (429, Some("soon".to_owned()), throttled, Executed::No, None),
        (429, Some(httpdate::fmt_http_date(past)), throttled, Executed::No, secs(0)),
        (503, Some("120".to_owned()), throttled, Executed::Unknown, secs(120)),
        (503, None, refused, Executed::Yes, None),
        (500, Some("5".to_owned()), refused, Executed::Yes, secs(5)),
    ] {
        let mut reply = Reply::status(status);
        if let Some(header) = header {
            reply = reply.header("Retry-After", header);
        }
        vendor.set(Behaviour::Answer(reply));
        let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (reason, executed));
        assert_eq!(failure.retry_after, pause);
    }
    let date = httpdate::fmt_http_date(soon);
    vendor.set(Behaviour::Answer(Reply::status(503).header("Retry-After", date)));
    let pause = call(&tool, &json!({}), PLENTY).unwrap_err().retry_after.unwrap();
    assert!((60..=100).contains(&pause.as_secs()), "{pause:?}");
}
