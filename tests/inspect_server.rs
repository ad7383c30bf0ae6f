//! The inspector's server: what it serves, to whom, and within which bounds.
#![cfg(feature = "cli")]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use watertight::inspect::{Server, Stopper};
use watertight::simulate::{Scenario, run};

/// A server for one test; it is stopped at the end.
struct Serving {
    port: u16,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start() -> Serving {
        let server = Server::bind(0).unwrap();
        let port = server.url().rsplit(':').next().unwrap().trim_end_matches('/').parse();
        Serving {
            port: port.unwrap(),
            stopper: server.stopper(),
            thread: Some(thread::spawn(move || server.serve())),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Status, head and body of the answer to `head` and `body`; `HOST` is the server's own.
    fn ask(&self, head: &str, body: &str) -> (u16, String, String) {
        self.try_ask(head, body).unwrap()
    }

    fn try_ask(&self, head: &str, body: &str) -> io::Result<(u16, String, String)> {
        let mut stream = self.connect();
        let host = format!("127.0.0.1:{}", self.port);
        let head = head.replace("HOST", &host).replace('\n', "\r\n");
        let length = body.len();
        write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}")?;
        answer(&mut stream)
    }

    fn stop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

fn answer(stream: &mut TcpStream) -> io::Result<(u16, String, String)> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok((status, head.to_ascii_lowercase(), body.to_owned()))
}

const POST: &str = "POST /simulate HTTP/1.1\nHost: HOST\nContent-Type: application/json";

fn scenario(policy: &str) -> Value {
    json!({
        "slots": 4, "reserved_a": 2, "arrivals_a": 2, "every_b": 2, "hold_a": 3, "hold_b": 2,
        "stall_a": true, "timeout_a": 10, "timeout_b": 6, "policy": policy, "max_waiting": 8,
        "target_percent": 90,
    })
}

#[test]
fn the_page_and_its_parts_are_served_and_forbid_any_other_source() {
    let serving = Serving::start();
    let parts = [
        ("/", "text/html"),
        ("/?tick=3", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
        ("/fixtures.json", "application/json"),
    ];
    for (path, kind) in parts {
        let (status, head, body) = serving.ask(&format!("GET {path} HTTP/1.1\nHost: HOST"), "");
        assert_eq!(status, 200, "{path}");
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(head.contains("default-src 'none'") && head.contains("nosniff"), "{head}");
        assert!(!body.is_empty());
        assert!(!body.contains("https://"), "{path} names another origin");
    }
    let (status, head, body) = serving.ask("HEAD / HTTP/1.1\nHost: HOST", "");
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(!head.contains("content-length: 0"), "{head}");
}

#[test]
fn the_answer_is_the_outcome_of_the_library() {
    let serving = Serving::start();
    let asked = json!([scenario("fifo"), scenario("strict"), {"slots": 0}]);
    let (status, _, body) = serving.ask(POST, &asked.to_string());
    assert_eq!(status, 200, "{body}");
    let answers: Value = serde_json::from_str(&body).unwrap();
    for (at, policy) in ["fifo", "strict"].into_iter().enumerate() {
        let outcome = run(&Scenario::from_json(&scenario(policy).to_string()).unwrap());
        assert_eq!(answers[at]["outcome"], serde_json::to_value(&outcome).unwrap());
        let tallies = answers[at]["tallies"].as_array().unwrap();
        assert_eq!(tallies.len(), 21);
        assert_eq!(tallies[7], serde_json::to_value(outcome.tallies_at(7)).unwrap());
    }
    assert_eq!(answers[2]["error"]["field"], "slots");
}

#[test]
fn strangers_are_refused() {
    let serving = Serving::start();
    let body = json!([scenario("fifo")]).to_string();
    let get = |host: &str| serving.ask(&format!("GET / HTTP/1.1\n{host}"), "").0;
    let port = serving.port;
    assert_eq!(get(&format!("Host: localhost:{port}")), 200);
    assert_eq!(get("Host: example.com"), 403);
    assert_eq!(get("Host: 127.0.0.1"), 403);
    assert_eq!(get(&format!("Host: 127.0.0.1.example.com:{port}")), 403);
    assert_eq!(get("X: y"), 403);
    assert_eq!(get("Host: HOST\nHost: example.com"), 403);

    let foreign = POST.to_owned() + "\nOrigin: http://example.com";
    assert_eq!(serving.ask(&foreign, &body).0, 403);
    let own = POST.to_owned() + "\nOrigin: http://HOST";
    assert_eq!(serving.ask(&own, &body).0, 200);
    let form = POST.replace("application/json", "text/plain");
    assert_eq!(serving.ask(&form, &body).0, 415);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let serving = Serving::start();
    assert_eq!(serving.ask("GET /none HTTP/1.1\nHost: HOST", "").0, 404);
    assert_eq!(serving.ask("PUT / HTTP/1.1\nHost: HOST", "").0, 405);
    assert_eq!(serving.ask("hello", "").0, 400);
    assert_eq!(serving.ask(POST, "{}").0, 400);
    assert_eq!(serving.ask(POST, "[1, 2, 3, 4, 5]").0, 400);
    assert_eq!(serving.ask(POST, "[4]").0, 200);
    let chunked = POST.to_owned() + "\nTransfer-Encoding: chunked";
    assert_eq!(serving.ask(&chunked, "").0, 411);
    let twice = POST.to_owned() + "\nContent-Length: 3";
    assert_eq!(serving.ask(&twice, "{}").0, 400);
}

#[test]
fn heads_and_bodies_are_bounded() {
    let serving = Serving::start();
    let long = "x".repeat(20_000);
    let (status, _, why) = serving.ask(&format!("GET / HTTP/1.1\nHost: HOST\nX: {long}"), "");
    assert_eq!(status, 431, "{why}");
    assert_eq!(serving.ask(POST, &long).0, 413);
}

#[test]
fn connections_are_bounded_and_a_stop_ends_them() {
    let mut serving = Serving::start();
    let mut idle: Vec<_> = (0..32).map(|_| serving.connect()).collect();
    // Connections are accepted in order, so the others are in by the time this one is answered.
    let (status, _, why) = answer(&mut serving.connect()).unwrap();
    assert_eq!(status, 503, "{why}");

    drop(idle.pop());
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let served = || serving.try_ask("GET / HTTP/1.1\nHost: HOST", "");
    while !served().is_ok_and(|(status, ..)| status == 200) {
        assert!(std::time::Instant::now() < deadline, "no room came free");
        thread::yield_now();
    }

    serving.stop();
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    }
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port)).is_err());
}
