//! TLS: each partition trusts its own roots and shows its own certificate.
#![cfg(all(feature = "http", feature = "testing"))]

#[path = "support/http.rs"]
mod support;
#[path = "support/tls.rs"]
mod tls;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{PLENTY, args, call, sizing};
use tls::{Answer, Authority, TlsServer};
use watertight::call::{CancelToken, Run};
use watertight::driver::Tool;
use watertight::driver::http::{Http, Request, Tls};
use watertight::outcome::{Executed, Failure, FailureReason};

/// A tool of the server under the name `host`.
fn tool(server: &TlsServer, host: &str, tls: Tls) -> Arc<dyn Tool> {
    let addr = server.addr;
    let http = Http::new(format!("https://{host}:{}", addr.port())).tls(tls);
    let client = http.resolver(move |_, _| Ok(vec![addr])).open(&sizing(1)).unwrap();
    client.tool(Request::get("/")).unwrap()
}

fn trusting(authority: &Authority) -> Tls {
    Tls::new().roots_pem(authority.root_pem.as_str())
}

fn assert_no_connection(failure: &Failure, words: &str) {
    assert_eq!(failure.reason, FailureReason::Connect, "{}", failure.message);
    assert_eq!(failure.executed, Executed::No);
    assert!(failure.message.contains(words), "{}", failure.message);
}

#[test]
fn a_backend_with_a_trusted_certificate_is_called() {
    let authority = Authority::new();
    for host in ["vendor.test", "127.0.0.1"] {
        let server = TlsServer::start(&authority.identity(host), None);
        let tool = tool(&server, host, trusting(&authority));
        for _ in 0..3 {
            assert_eq!(call(&tool, &json!({}), PLENTY).unwrap()["body"], "ok");
        }
        assert_eq!(server.handshakes(), 1, "the connection is kept");
    }
}

#[test]
fn nobody_else_is() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = TlsServer::start(&authority.identity("vendor.test"), None);
    for (host, tls, words) in [
        ("vendor.test", trusting(&other), "invalid peer certificate"),
        ("vendor.test", Tls::new(), "invalid peer certificate"),
        ("other.test", trusting(&authority), "invalid peer certificate"),
    ] {
        let failure = call(&tool(&server, host, tls), &json!({}), PLENTY).unwrap_err();
        assert_no_connection(&failure, words);
    }
}

#[test]
fn a_backend_that_asks_gets_the_partitions_certificate() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let server = TlsServer::start(&servers.identity("vendor.test"), Some(&clients));
    let with = |authority: &Authority| {
        let identity = authority.identity("client.test");
        trusting(&servers).client_pem(identity.chain_pem, identity.key_pem)
    };
    let accepted = tool(&server, "vendor.test", with(&clients));
    assert_eq!(call(&accepted, &json!({}), PLENTY).unwrap()["body"], "ok");
    for tls in [with(&strangers), trusting(&servers)] {
        let refused = tool(&server, "vendor.test", tls);
        let failure = call(&refused, &json!({}), PLENTY).unwrap_err();
        assert_no_connection(&failure, "TLS");
    }
}

#[test]
fn plain_http_where_tls_is_expected_is_no_connection() {
    let vendor = support::vendor();
    let http = Http::new(vendor.url().replace("http:", "https:"));
    let tool = http.open(&sizing(1)).unwrap().tool(Request::get("/")).unwrap();
    let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
    assert_no_connection(&failure, "TLS");
}

#[test]
fn limits_and_cancels_hold_under_tls() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority.identity("vendor.test"), None);
    let tool = tool(&server, "vendor.test", trusting(&authority));
    assert!(call(&tool, &json!({}), PLENTY).is_ok());
    server.set(Answer::Hang);
    let limit = Duration::from_millis(250);
    let begun = Instant::now();
    let failure = call(&tool, &json!({}), limit).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::Unknown));
    assert!(begun.elapsed() >= limit && begun.elapsed() < PLENTY / 3);

    let token = CancelToken::new();
    let mut operation = tool.prepare(&args(&json!({}))).unwrap();
    let run = Run::detached(PLENTY, token.clone());
    let (ended, end) = mpsc::sync_channel(1);
    let waiter = thread::spawn(move || ended.send(operation(&run)).unwrap());
    token.cancel();
    let failure = end.recv_timeout(PLENTY / 3).expect("ends").unwrap_err();
    assert_eq!(failure.reason, FailureReason::Cancelled);
    waiter.join().unwrap();

    server.set(Answer::Whole);
    assert!(call(&tool, &json!({}), PLENTY).is_ok());
}

#[test]
fn an_end_without_farewell_is_no_end_of_a_body() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority.identity("vendor.test"), None);
    let tool = tool(&server, "vendor.test", trusting(&authority));
    server.set(Answer::Farewell);
    assert_eq!(call(&tool, &json!({}), PLENTY).unwrap()["body"], "all of it");
    server.set(Answer::Truncated);
    let failure = call(&tool, &json!({}), PLENTY).unwrap_err();
    assert_eq!(
        (failure.reason, failure.executed),
        (FailureReason::HttpProtocol, Executed::Unknown)
    );
}

#[test]
fn bad_pem_names_the_key_and_shows_no_secret() {
    let authority = Authority::new();
    let (one, other) = (authority.identity("one.test"), authority.identity("other.test"));
    for (tls, key) in [
        (Tls::new().roots_pem("nothing"), "`tls.roots`"),
        (Tls::new().roots_pem(one.key_pem.as_str()), "`tls.roots`"),
        (Tls::new().client_pem("nothing", one.key_pem.as_str()), "`tls.client_cert`"),
        (Tls::new().client_pem(one.chain_pem.as_str(), "nothing"), "`tls.client_key`"),
        (Tls::new().client_pem(one.chain_pem.as_str(), other.key_pem.as_str()), "`tls.client_key`"),
    ] {
        let shown = format!("{tls:?}");
        let error = Http::new("https://vendor.test").tls(tls).open(&sizing(1)).unwrap_err();
        assert!(error.starts_with(key), "{error}");
        let secret = one.key_pem.lines().nth(1).unwrap();
        assert!(!error.contains(secret) && !shown.contains(secret));
    }
}
