//! The vendor of `watertight::testing`, with a client that is nothing but a socket.
#![cfg(feature = "testing")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use watertight::testing::{Behaviour, Framing, Reply, Unanswered, Vendor, refused_addr};

const PLENTY: Duration = Duration::from_secs(30);

fn ask(vendor: &Vendor, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(vendor.addr()).unwrap();
    client.set_read_timeout(Some(PLENTY)).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: vendor\r\n\r\n").unwrap();
    client
}

/// Everything up to the end of the connection, and how it ended.
fn drain(mut client: TcpStream) -> (String, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let ended = client.read_to_end(&mut bytes).err().map(|error| error.kind());
    (String::from_utf8_lossy(&bytes).into_owned(), ended)
}

#[test]
fn behaviours_are_set_by_path_and_counted() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(404)));
    vendor.set_path("/a", Behaviour::AnswerThenClose(Reply::json("{}").header("X-A", "1")));
    let (answer, ended) = drain(ask(&vendor, "/a?b=c"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n{}"));
    assert!(answer.contains("X-A: 1\r\n") && ended.is_none());
    let other = ask(&vendor, "/b");
    other.shutdown(Shutdown::Write).unwrap();
    assert!(drain(other).0.starts_with("HTTP/1.1 404"));
    assert_eq!(vendor.seen()[0].target, "/a?b=c");
    assert!(vendor.wait(PLENTY, |counts| counts.connections == 0));
    let counts = vendor.counts();
    assert_eq!((counts.requests, counts.answered, counts.accepted), (2, 2, 2));
    assert_eq!((counts.in_flight, counts.in_flight_max, counts.closed_by_client), (0, 1, 1));
}

#[test]
fn hung_requests_are_counted_until_released_or_given_up() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let mut clients: Vec<_> = (0..3).map(|_| ask(&vendor, "/")).collect();
    assert!(vendor.wait_in_flight(3, PLENTY));
    drop(clients.pop());
    assert!(vendor.wait_in_flight(2, PLENTY));
    assert!(vendor.wait(PLENTY, |counts| counts.closed_by_client == 1));
    vendor.release();
    for client in clients {
        assert!(drain(client).0.ends_with("\r\n\r\nok"));
    }
    assert_eq!((vendor.counts().in_flight_max, vendor.counts().answered), (3, 2));
}

#[test]
fn bodies_stop_or_break_half_way() {
    let vendor = Vendor::start().unwrap();
    let reply = Reply::text("0123456789");
    for (framing, half) in [
        (Framing::ContentLength, "\r\n\r\n01234"),
        (Framing::Chunked, "\r\n\r\n5\r\n01234\r\n"),
        (Framing::UntilClose, "\r\n\r\n01234"),
    ] {
        vendor.set(Behaviour::CutBody { framing, reply: reply.clone() });
        let (answer, ended) = drain(ask(&vendor, "/"));
        assert!(answer.ends_with(half) && ended.is_none(), "{answer}");
        vendor.set(Behaviour::Reset { framing, reply: reply.clone() });
        let (answer, ended) = drain(ask(&vendor, "/"));
        assert!(answer.ends_with(half), "{answer}");
        assert_eq!(answer.contains("Content-Length: 10"), framing == Framing::ContentLength);
        assert_eq!(ended, Some(ErrorKind::ConnectionReset));
    }
    vendor.set(Behaviour::HangBody { framing: Framing::ContentLength, reply: reply.clone() });
    let mut client = ask(&vendor, "/");
    let mut half = Vec::new();
    while !half.ends_with(b"01234") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        half.push(byte[0]);
    }
    assert_eq!(vendor.counts().in_flight, 1);
    vendor.release();
    assert_eq!(drain(client).0, "56789");
    vendor.set(Behaviour::Framed(Framing::UntilClose, reply));
    let (answer, ended) = drain(ask(&vendor, "/"));
    assert!(answer.ends_with("0123456789") && !answer.contains("Content-Length"));
    assert_eq!(ended, None);
}

#[test]
fn answers_come_late_or_byte_by_byte() {
    let vendor = Vendor::start().unwrap();
    let pause = Duration::from_millis(2);
    let reply = Reply::text("0123456789");
    let begun = Instant::now();
    for behaviour in [
        Behaviour::Delay(50 * pause, reply.clone()),
        Behaviour::DripBody { every: 5 * pause, reply: reply.clone() },
        Behaviour::DripHead { every: pause, reply: reply.header("Connection", "close") },
    ] {
        vendor.set(behaviour);
        let mut client = ask(&vendor, "/");
        let mut answer = Vec::new();
        while !answer.ends_with(b"0123456789") {
            let mut block = [0; 100];
            let count = client.read(&mut block).unwrap();
            assert_ne!(count, 0);
            answer.extend_from_slice(&block[..count]);
        }
    }
    assert!(begun.elapsed() > 150 * pause, "{:?}", begun.elapsed());
}

#[test]
fn more_in_flight_than_it_takes_are_refused() {
    let vendor = Vendor::start().unwrap();
    let (reply, over) = (Reply::text("taken"), Reply::status(429));
    vendor.set(Behaviour::AtMost { in_flight: 2, delay: PLENTY, reply: reply.clone(), over });
    let taken = [ask(&vendor, "/"), ask(&vendor, "/")];
    assert!(vendor.wait_in_flight(2, PLENTY));
    for _ in 0..3 {
        let refused = ask(&vendor, "/");
        refused.shutdown(Shutdown::Write).unwrap();
        assert!(drain(refused).0.starts_with("HTTP/1.1 429 "));
    }
    drop(taken);
    assert!(vendor.wait_in_flight(0, PLENTY));
    let (delay, over) = (Duration::ZERO, Reply::status(429));
    vendor.set(Behaviour::AtMost { in_flight: 1, delay, reply, over });
    let mut client = ask(&vendor, "/");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn misbehaviour_on_the_wire() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Close);
    assert_eq!(drain(ask(&vendor, "/")).0, "");
    vendor.set(Behaviour::Garbage);
    let client = ask(&vendor, "/");
    client.shutdown(Shutdown::Write).unwrap();
    assert!(!drain(client).0.starts_with("HTTP"));
    vendor.set(Behaviour::HugeHead(50_000));
    let client = ask(&vendor, "/");
    client.shutdown(Shutdown::Write).unwrap();
    assert!(drain(client).0.len() > 50_000);
    vendor.set(Behaviour::RedirectLoop);
    let client = ask(&vendor, "/round");
    client.shutdown(Shutdown::Write).unwrap();
    assert!(drain(client).0.contains("Location: /round\r\n"));
    vendor.set(Behaviour::EndlessBody);
    let mut client = ask(&vendor, "/");
    client.read_exact(&mut vec![0; 1_000_000]).unwrap();
    drop(client);
    assert!(vendor.wait_in_flight(0, PLENTY));
}

#[test]
fn stopping_ends_whatever_it_does() {
    for behaviour in [
        Behaviour::Hang,
        Behaviour::NeverRead,
        Behaviour::EndlessBody,
        Behaviour::Delay(PLENTY, Reply::default()),
        Behaviour::DripHead { every: PLENTY, reply: Reply::default() },
        Behaviour::HangBody { framing: Framing::ContentLength, reply: Reply::default() },
        Behaviour::Garbage,
        Behaviour::default(),
    ] {
        let mut vendor = Vendor::start().unwrap();
        vendor.set(behaviour.clone());
        let client = ask(&vendor, "/");
        let reads = !matches!(behaviour, Behaviour::NeverRead);
        assert!(vendor.wait(PLENTY, |counts| counts.requests == u64::from(reads)));
        assert!(vendor.wait(PLENTY, |counts| counts.connections == 1));
        let begun = Instant::now();
        vendor.stop();
        assert!(begun.elapsed() < PLENTY / 3, "{behaviour:?}");
        assert_eq!(vendor.counts().connections, 0);
        drain(client);
        assert!(TcpStream::connect(vendor.addr()).is_err());
    }
}

#[test]
fn no_connection_comes_of_an_unreachable_address() {
    let refused = TcpStream::connect(refused_addr().unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let unanswered = Unanswered::open().unwrap();
    let limit = Duration::from_millis(100);
    let error = TcpStream::connect_timeout(&unanswered.addr(), limit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
