//! One HTTP/1.1 request and its response on one connection, within a fixed time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::time::{Clock, Time};

/// How long each part of a conversation may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From the accept to the last byte of the request.
    pub(super) request: Duration,
    /// From the first byte of the response to its last.
    pub(super) response: Duration,
    /// What is left unread is read off for so long, so that the peer gets the response whole.
    pub(super) linger: Duration,
}

pub(super) const LIMITS: Limits = Limits {
    request: Duration::from_secs(5),
    response: Duration::from_secs(10),
    linger: Duration::from_millis(500),
};

/// A connection too many blocks the others for so long at most.
const TURN_AWAY_LIMIT: Duration = Duration::from_millis(50);
const HEAD_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
const BODY_MAX: usize = 16 * 1024;
const LINGER_MAX: u64 = 256 * 1024;

/// A request as it came.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without its query.
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// The value of a header that is there exactly once.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}

/// What goes back.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status: 200, content_type, body: body.into() }
    }

    pub(super) fn refusal(status: u16, why: &str) -> Response {
        Response {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{why}\n").into_bytes(),
        }
    }

    fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            411 => "Length Required",
            413 => "Content Too Large",
            415 => "Unsupported Media Type",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            503 => "Service Unavailable",
            _ => "Bad Request",
        }
    }
}

/// A connection whose every read and write ends by `until`.
struct Timed<'s> {
    stream: &'s TcpStream,
    clock: &'s Clock,
    until: Time,
}

impl Timed<'_> {
    fn remaining(&self) -> io::Result<Duration> {
        let remaining = self.until - self.clock.now();
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(remaining)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads one request from `stream`, has it answered, and closes the connection.
pub(super) fn converse(
    stream: &TcpStream,
    clock: &Clock,
    limits: Limits,
    answer: impl FnOnce(&Request) -> Response,
) {
    let mut timed = Timed { stream, clock, until: clock.now() + limits.request };
    let (response, with_body) = match read_request(&mut timed) {
        Ok(request) => (answer(&request), request.method != "HEAD"),
        Err(Some(refusal)) => (refusal, true),
        Err(None) => return,
    };
    timed.until = clock.now() + limits.response;
    if send(&mut timed, &response, with_body).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        timed.until = clock.now() + limits.linger;
        // Whether the peer has more to say or has gone, its answer is sent.
        let _ = io::copy(&mut timed.take(LINGER_MAX), &mut io::sink());
    }
}

/// Turns a connection away without listening to it.
pub(super) fn turn_away(stream: &TcpStream, clock: &Clock, why: &str) {
    let mut timed = Timed { stream, clock, until: clock.now() + TURN_AWAY_LIMIT };
    // Whoever does not take the answer finds the connection closed.
    let _ = send(&mut timed, &Response::refusal(503, why), true);
}

fn send(to: &mut impl Write, response: &Response, with_body: bool) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
         img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'\r\n\r\n",
        response.status,
        response.reason(),
        response.content_type,
        response.body.len(),
    );
    to.write_all(head.as_bytes())?;
    if with_body {
        to.write_all(&response.body)?;
    }
    Ok(())
}

/// The request; or what to say instead; or nothing, if nobody is there to be told.
fn read_request(from: &mut impl Read) -> Result<Request, Option<Response>> {
    let refuse = |status, why: &str| Some(Response::refusal(status, why));
    let mut bytes = Vec::new();
    let (mut request, head) = loop {
        if let Some(parsed) = parse_head(&bytes).map_err(|why| refuse(400, &why))? {
            break parsed;
        }
        if bytes.len() >= HEAD_MAX {
            return Err(refuse(431, "the head is longer than 16 KiB"));
        }
        if read_some(from, &mut bytes, HEAD_MAX)? == 0 {
            return Err(None);
        }
    };
    if request.has("transfer-encoding") {
        return Err(refuse(411, "send the body with a Content-Length"));
    }
    let length = match request.header("content-length").map(str::parse::<usize>) {
        Some(Ok(length)) => length,
        None if !request.has("content-length") => 0,
        _ => return Err(refuse(400, "Content-Length must be one whole number")),
    };
    if length > BODY_MAX {
        return Err(refuse(413, "the body is longer than 16 KiB"));
    }
    let mut body = bytes.split_off(head);
    while body.len() < length {
        if read_some(from, &mut body, length)? == 0 {
            return Err(None);
        }
    }
    body.truncate(length);
    request.body = body;
    Ok(request)
}

/// Appends what `from` has to `bytes`, up to `most` bytes in all; 0 at its end.
fn read_some(
    from: &mut impl Read,
    bytes: &mut Vec<u8>,
    most: usize,
) -> Result<usize, Option<Response>> {
    let mut chunk = [0; 4096];
    let room = chunk.len().min(most - bytes.len());
    loop {
        match from.read(&mut chunk[..room]) {
            Ok(read) => {
                bytes.extend_from_slice(&chunk[..read]);
                return Ok(read);
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock if bytes.is_empty() => {
                    return Err(None);
                }
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                    let why = "the request was not complete in time";
                    return Err(Some(Response::refusal(408, why)));
                }
                _ => return Err(None),
            },
        }
    }
}

/// The head and its length, once it is whole.
fn parse_head(bytes: &[u8]) -> Result<Option<(Request, usize)>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("not an HTTP request: {error}")),
    };
    let target = head.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let headers = head.headers.iter().map(|header| {
        let value = String::from_utf8_lossy(header.value).trim().to_owned();
        (header.name.to_owned(), value)
    });
    let request = Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        headers: headers.collect(),
        body: Vec::new(),
    };
    Ok(Some((request, length)))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const SHORT: Limits = Limits {
        request: Duration::from_millis(200),
        response: Duration::from_millis(200),
        linger: Duration::from_millis(200),
    };

    /// Two ends of a connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, peer)
    }

    #[test]
    fn a_head_that_drips_is_cut_off_at_the_limit_whole_not_at_each_byte() {
        let (ours, peer) = connection();
        let (done, is_done) = mpsc::channel();
        let server = thread::spawn(move || {
            converse(&ours, &Clock::system(), SHORT, |_| unreachable!("no request came"));
            done.send(()).unwrap();
        });
        let mut drips = 0;
        while is_done.recv_timeout(SHORT.request / 10).is_err() {
            // Once it is cut off, the drip meets a closed connection.
            let _ = (&peer).write_all(b"G");
            drips += 1;
            assert!(drips < 1000, "it was never cut off");
        }
        server.join().unwrap();
        assert!(drips >= 5, "cut off after {drips} drips, before the limit");
    }

    #[test]
    fn a_peer_that_does_not_read_is_let_go() {
        let (ours, peer) = connection();
        (&peer).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        converse(&ours, &Clock::system(), SHORT, |_| {
            Response::ok("text/plain", vec![b'x'; 64 << 20])
        });
        drop(ours);
        let mut taken = Vec::new();
        let _ = (&peer).read_to_end(&mut taken);
        assert!(taken.len() < 64 << 20);
    }

    #[test]
    fn a_body_that_comes_late_belongs_to_the_request() {
        let (ours, peer) = connection();
        let server = thread::spawn(move || {
            converse(&ours, &Clock::system(), LIMITS, |request| {
                Response::ok("text/plain", request.body.clone())
            });
        });
        (&peer).write_all(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab").unwrap();
        (&peer).write_all(b"cd, and more").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let lines = BufReader::new(&peer).lines().map(Result::unwrap);
        let lines: Vec<_> = lines.collect();
        server.join().unwrap();
        assert_eq!(lines.first().unwrap(), "HTTP/1.1 200 OK");
        assert_eq!(lines.last().unwrap(), "abcd");
    }
}
