//! HTTP tools against a backend that behaves: what is sent, and what a result is.
#![cfg(all(feature = "http", feature = "testing"))]

#[path = "support/http.rs"]
mod support;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use support::{PLENTY, args, call, client, sizing, vendor};
use watertight::driver::args::{ArgSpec, ArgType};
use watertight::driver::http::{Http, Request};
use watertight::outcome::{Executed, FailureReason};
use watertight::testing::{Behaviour, Reply, refused_addr};

#[test]
fn arguments_are_whole_values_in_path_and_query() {
    let vendor = vendor();
    let tool = (client(&vendor))
        .tool(Request::get("/docs/{id}/raw").query("q", "{q}").query("limit", "{limit}"))
        .unwrap();
    call(&tool, &json!({"id": "a/b?c#d", "q": "x&y=z +ü", "limit": 3}), PLENTY).unwrap();
    let seen = &vendor.seen()[0];
    assert_eq!(seen.method, "GET");
    assert_eq!(seen.target, "/docs/a%2Fb%3Fc%23d/raw?q=x%26y%3Dz%20%2B%C3%BC&limit=3");
}

#[test]
fn a_null_argument_leaves_its_parameter_out() {
    let vendor = vendor();
    let limit =
        ArgSpec { name: "limit".into(), kind: ArgType::Integer, default: Some(Value::Null) };
    let request = Request::get("/search").query("q", "{q}").query("limit", "{limit}").arg(limit);
    let tool = client(&vendor).tool(request).unwrap();
    for (given, target) in [
        (json!({"q": "x"}), "/search?q=x"),
        (json!({"q": "x", "limit": null}), "/search?q=x"),
        (json!({"q": "x", "limit": 5}), "/search?q=x&limit=5"),
    ] {
        call(&tool, &given, PLENTY).unwrap();
        assert_eq!(vendor.seen().last().unwrap().target, target);
    }
}

#[test]
fn bodies_keep_the_types_of_whole_arguments() {
    let vendor = vendor();
    let body = json!({"q": "{q}", "note": "about {topic}", "fixed": [1, "{{x}}"]});
    let tool = client(&vendor).tool(Request::post("/search").body(body)).unwrap();
    call(&tool, &json!({"q": {"deep": [1, null]}, "topic": "tea"}), PLENTY).unwrap();
    let seen = &vendor.seen()[0];
    assert_eq!(
        (seen.method.as_str(), seen.header("content-type")),
        ("POST", Some("application/json"))
    );
    let sent: Value = serde_json::from_slice(&seen.body).unwrap();
    let expected = json!({"q": {"deep": [1, null]}, "note": "about tea", "fixed": [1, "{x}"]});
    assert_eq!(sent, expected);
}

#[test]
fn every_method_reaches_the_backend() {
    let vendor = vendor();
    let client = client(&vendor);
    let body = json!({"a": "{a}"});
    for (request, body_len) in [
        (Request::get("/{a}"), 0),
        (Request::new("HEAD", "/{a}"), 0),
        (Request::delete("/{a}"), 0),
        (Request::delete("/{a}").body(body.clone()), 7),
        (Request::put("/{a}").body(body.clone()), 7),
        (Request::patch("/{a}").body(body.clone()), 7),
        (Request::post("/{a}"), 0),
    ] {
        let tool = client.tool(request).unwrap();
        call(&tool, &json!({"a": 1}), PLENTY).unwrap();
        assert_eq!(vendor.seen().last().unwrap().body.len(), body_len);
    }
    let methods: Vec<_> = vendor.seen().into_iter().map(|seen| seen.method).collect();
    assert_eq!(methods, ["GET", "HEAD", "DELETE", "DELETE", "PUT", "PATCH", "POST"]);
}

#[test]
fn headers_of_the_partition_and_of_the_tool_are_sent() {
    let vendor = vendor();
    let client = Http::new(format!("{}/v1/", vendor.url()))
        .header("Authorization", "Bearer s3cret")
        .header("X-Plan", "gold")
        .open(&sizing(1))
        .unwrap();
    let request = Request::get("/x").header("X-Plan", "{plan}").header("X-Fixed", "1");
    call(&client.tool(request).unwrap(), &json!({"plan": "basic"}), PLENTY).unwrap();
    let seen = &vendor.seen()[0];
    assert_eq!(seen.target, "/v1/x");
    assert_eq!(seen.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(seen.header("x-plan"), Some("basic"));
    assert_eq!(seen.header("x-fixed"), Some("1"));
}

#[test]
fn a_result_is_status_headers_and_body() {
    let vendor = vendor();
    let client = client(&vendor);
    let tool = client.tool(Request::get("/").keep_header("ETag")).unwrap();
    for (reply, expected) in [
        (
            Reply::json(r#"{"hits": [1, 2]}"#).header("ETag", "v1").header("Set-Cookie", "id=1"),
            json!({
                "status": 200,
                "headers": {"content-type": "application/json", "etag": "v1"},
                "body": {"hits": [1, 2]},
            }),
        ),
        (
            Reply::status(200).body("application/problem+json; charset=utf-8", "7"),
            json!({
                "status": 200,
                "headers": {"content-type": "application/problem+json; charset=utf-8"},
                "body": 7,
            }),
        ),
        (Reply::status(204), json!({"status": 204, "headers": {}, "body": null})),
        (
            Reply::status(200).body("text/plain", b"caf\xe9".as_slice()),
            json!({
                "status": 200,
                "headers": {"content-type": "text/plain"},
                "body": "caf\u{fffd}",
                "body_lossy": true,
            }),
        ),
    ] {
        vendor.set(Behaviour::Answer(reply));
        assert_eq!(call(&tool, &json!({}), PLENTY).unwrap(), expected);
    }
    vendor.set(Behaviour::Answer(Reply::json("{")));
    let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Decode, Executed::Yes));
}

#[test]
fn connections_are_kept() {
    let vendor = vendor();
    let tool = client(&vendor).tool(Request::get("/")).unwrap();
    for _ in 0..20 {
        call(&tool, &json!({}), PLENTY).unwrap();
    }
    assert_eq!(vendor.counts().accepted, 1);
}

#[test]
fn no_more_connections_are_kept_than_the_partition_has() {
    let vendor = vendor();
    let tool = Http::new(vendor.url()).open(&sizing(2)).unwrap().tool(Request::get("/")).unwrap();
    vendor.set(Behaviour::Delay(Duration::from_millis(100), Reply::default()));
    let start = Barrier::new(6);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                start.wait();
                call(&tool, &json!({}), PLENTY).unwrap();
            });
        }
    });
    assert!(vendor.wait(PLENTY, |counts| counts.connections <= 2), "{:?}", vendor.counts());
}

#[test]
fn a_spent_limit_sends_nothing() {
    let vendor = vendor();
    let tool = client(&vendor).tool(Request::get("/")).unwrap();
    let failure = call(&tool, &json!({}), Duration::ZERO).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::No));
    assert_eq!(vendor.counts().accepted, 0);
}

#[test]
fn refused_is_not_executed() {
    let client = Http::new(format!("http://{}", refused_addr().unwrap())).open(&sizing(1)).unwrap();
    let tool = client.tool(Request::post("/").body(json!({}))).unwrap();
    let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
}

#[test]
fn arguments_that_would_change_the_request_are_refused() {
    let vendor = vendor();
    let client = client(&vendor);
    let path = client.tool(Request::get("/docs/{id}")).unwrap();
    let header = client.tool(Request::get("/").header("X-A", "{a}")).unwrap();
    for (tool, given) in [
        (&path, json!({"id": ""})),
        (&path, json!({"id": ".."})),
        (&path, json!({"id": "."})),
        (&path, json!({"id": ["x"]})),
        (&path, json!({})),
        (&path, json!({"id": "x", "other": 1})),
        (&path, json!({"id": "x".repeat(70_000)})),
        (&header, json!({"a": "x\r\nX-B: y"})),
        (&header, json!({"a": "ü"})),
    ] {
        let Err(failure) = tool.prepare(&args(&given)) else { panic!("{given}") };
        assert_eq!(failure.reason, FailureReason::InvalidCall, "{given}");
        assert_eq!(failure.executed, Executed::No);
    }
}

#[test]
fn bad_settings_name_the_key() {
    for (url, rule) in [
        ("search.example", "must start with"),
        ("ftp://search.example", "must start with"),
        ("https://", "is no URL"),
        ("https://user:pass@search.example", "no user or password"),
        ("https://search.example/?a=b", "no `?` or `#`"),
        ("https://search.example/#a", "no `?` or `#`"),
    ] {
        let error = Http::new(url).open(&sizing(1)).unwrap_err();
        assert!(error.starts_with("`base_url`") && error.contains(rule), "{url}: {error}");
        assert!(!error.contains("pass@"));
    }
    let base = || Http::new("https://search.example");
    for (http, key) in [
        (base().header("X Y", "v"), "`headers`"),
        (base().header("Content-Length", "1"), "`headers`"),
        (base().header("X-A", "s3cret\n"), "`headers.X-A`"),
        (base().connect_timeout(Duration::ZERO), "`connect_timeout`"),
    ] {
        let error = http.open(&sizing(1)).unwrap_err();
        assert!(error.starts_with(key) && !error.contains("s3cret"), "{error}");
    }
    let client = base().open(&sizing(1)).unwrap();
    for (request, key) in [
        (Request::new("get", "/"), "`method`"),
        (Request::get("x"), "`path`"),
        (Request::get("/x?a=b"), "`path`"),
        (Request::get("/x y"), "`path`"),
        (Request::get("/{x"), "`path`"),
        (Request::get("/a/../b"), "`path`"),
        (Request::get("/").query("q", "{"), "`query.q`"),
        (Request::get("/").header("X-A", "{a b}"), "`headers.X-A`"),
        (Request::get("/").header("X-A", "\n"), "`headers.X-A`"),
        (Request::get("/").body(json!({})), "`body`"),
        (Request::post("/").body(json!(["}"])), "`body`"),
        (Request::get("/").accept([700]), "`accept`"),
        (Request::get("/").keep_header(""), "`keep_headers`"),
        (Request::get("/").idempotency_header("a b"), "`idempotency_header`"),
    ] {
        let error = client.tool(request).err().expect("refused");
        assert!(error.starts_with(key), "{error}");
    }
}
