//! Retries on real sockets: what the backend sees of a call that is attempted again.
#![cfg(all(feature = "http", feature = "testing", feature = "config"))]

use watertight::call::Terms;
use watertight::config::Config;
use watertight::outcome::{Executed, Status};
use watertight::testing::{Behaviour, Reply, Vendor};
use watertight::{Runtime, ToolCall};

/// Two tools of one vendor: `read` may be repeated, `pay` sends a key, `write` must not be.
fn runtime(vendor: &Vendor) -> Runtime {
    let on = "on = [\"http_status\", \"http_protocol\"]";
    let text = format!(
        "[partition.vendor]\nslots = 2\n[partition.vendor.http]\nbase_url = \"{}\"\n\
         [tool.read]\npartition = \"vendor\"\nmethod = \"GET\"\npath = \"/read\"\nidempotent = true\n\
         retry = {{ backoff = \"10ms\", {on} }}\n\
         [tool.pay]\npartition = \"vendor\"\nmethod = \"POST\"\npath = \"/pay\"\n\
         idempotency_header = \"Idempotency-Key\"\nretry = {{ backoff = \"10ms\", {on} }}\n\
         [tool.write]\npartition = \"vendor\"\nmethod = \"POST\"\npath = \"/write\"\n\
         retry = {{ backoff = \"10ms\", {on} }}\n",
        vendor.url()
    );
    Config::from_str(&text, "watertight.toml").unwrap().build().unwrap()
}

#[test]
fn an_idempotent_tool_is_attempted_again_and_the_outcome_lists_it() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(500)));
    let runtime = runtime(&vendor);
    let outcome = runtime.call(ToolCall::new("read"));
    assert_eq!((outcome.status(), outcome.attempt), (Status::Failed, 3));
    assert_eq!(vendor.counts().requests, 3);
    let json = outcome.to_json();
    let earlier = json["earlier_attempts"].as_array().unwrap();
    assert_eq!(earlier.len(), 2);
    assert_eq!(earlier[0]["reason"], "http_status");
    assert!(earlier[0]["backoff_ms"].as_f64().unwrap() <= 10.0);
}

#[test]
fn what_may_have_run_is_sent_once() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(500)));
    let runtime = runtime(&vendor);
    let outcome = runtime.call(ToolCall::new("write"));
    assert_ne!(outcome.executed(), Executed::No);
    assert_eq!((outcome.attempt, vendor.counts().requests), (1, 1));
}

#[test]
fn the_backend_sees_the_same_key_with_every_attempt() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(500)));
    let runtime = runtime(&vendor);
    for own in [None, Some("order-7")] {
        let terms = own.map_or(Terms::new(), |key| Terms::new().idempotency_key(key));
        let outcome = runtime.call(ToolCall::new("pay").terms(terms));
        assert_eq!(outcome.attempt, 3, "{:?}", outcome.result);
    }
    let seen = vendor.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 6);
    assert!(keys[..3].iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(keys[3..].iter().all(|key| *key == "order-7"), "{keys:?}");
}
