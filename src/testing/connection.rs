//! One connection of the vendor: reads requests and does to each what the vendor is set to.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::behaviour::{Behaviour, Framing, Reply};
use super::request::{Progress, Seen, parse};
use super::shared::Shared;

/// The most bytes kept of a client that sends while it should wait.
const INPUT_MAX: usize = 32 * 1024 * 1024;

pub(super) struct Connection<'v> {
    vendor: &'v Shared,
    id: u64,
    stream: Arc<TcpStream>,
    input: Vec<u8>,
    /// How many releases there had been when the request, or else the connection, came.
    generation: u64,
    /// Whether the request wants the head of an answer only.
    head_only: bool,
    /// Whether the request wants the connection closed behind the answer.
    close: bool,
    client_gone: bool,
}

/// What becomes of the connection after a request.
#[derive(PartialEq)]
enum After {
    /// It can take another one.
    Keep,
    /// It is closed.
    Close,
}

/// How a pause ended.
#[derive(PartialEq)]
enum Pause {
    Elapsed,
    Released,
    Gone,
}

impl<'v> Connection<'v> {
    pub(super) fn new(vendor: &'v Shared, id: u64, stream: Arc<TcpStream>) -> Connection<'v> {
        Connection {
            vendor,
            id,
            stream,
            input: Vec::new(),
            generation: vendor.generation(),
            head_only: false,
            close: false,
            client_gone: false,
        }
    }

    /// Serves requests until either side ends the connection; whether it was the client.
    pub(super) fn serve(mut self) -> bool {
        if matches!(self.vendor.fallback(), Behaviour::NeverRead) {
            self.vendor.wait_released(self.generation);
            return false;
        }
        while let Some(request) = self.next_request() {
            self.close = request.wants_close();
            self.head_only = request.method == "HEAD";
            let target = request.target.clone();
            let begun = self.vendor.begin(self.id, &self.stream, request);
            self.generation = begun.generation;
            let ended = self.act(decided(begun.behaviour, begun.in_flight), &target);
            self.vendor.end(self.id);
            self.client_gone |= ended.is_err();
            if self.close || self.client_gone || !matches!(ended, Ok(After::Keep)) {
                break;
            }
        }
        self.client_gone
    }

    fn next_request(&mut self) -> Option<Seen> {
        loop {
            match parse(&self.input) {
                Progress::Whole(seen, len) => {
                    self.input.drain(..len);
                    return Some(seen);
                }
                Progress::Bad => {
                    let refusal = Reply::status(400);
                    let _ = self.write(&refusal.head(Framing::ContentLength, true));
                    return None;
                }
                Progress::Partial => {
                    self.stream.set_read_timeout(None).ok()?;
                    if !matches!(self.read_more(), Ok(true)) {
                        self.client_gone = true;
                        return None;
                    }
                }
            }
        }
    }

    fn act(&mut self, behaviour: Behaviour, target: &str) -> io::Result<After> {
        match behaviour {
            Behaviour::Answer(reply) => self.answer(&reply),
            Behaviour::Delay(delay, reply) | Behaviour::AtMost { delay, reply, .. } => {
                match self.pause(delay) {
                    Pause::Gone => Ok(After::Close),
                    _ => self.answer(&reply),
                }
            }
            Behaviour::Hang | Behaviour::NeverRead => match self.hold() {
                Pause::Gone => Ok(After::Close),
                _ => self.last_answer(&Reply::default()),
            },
            Behaviour::AnswerThenClose(reply) => self.answer(&reply).map(|_| After::Close),
            Behaviour::RedirectLoop => self.answer(&Reply::status(302).header("Location", target)),
            Behaviour::HugeHead(bytes) => self.answer(&huge(bytes)),
            Behaviour::DripHead { every, reply } => {
                self.drip(&reply.head(Framing::ContentLength, self.close), every)?;
                self.finish(&reply.body).map(|()| After::Keep)
            }
            Behaviour::DripBody { every, reply } => {
                self.write(&reply.head(Framing::ContentLength, self.close))?;
                self.drip(&reply.body, every)?;
                self.finish(b"").map(|()| After::Keep)
            }
            Behaviour::Framed(framing, reply) => {
                let rest = self.first_half(framing, &reply)?;
                self.finish(&rest)?;
                Ok(if framing == Framing::UntilClose { After::Close } else { After::Keep })
            }
            Behaviour::HangBody { framing, reply } => {
                let rest = self.first_half(framing, &reply)?;
                if self.hold() == Pause::Released {
                    self.finish(&rest)?;
                }
                Ok(After::Close)
            }
            Behaviour::CutBody { framing, reply } => {
                self.first_half(framing, &reply).map(|_| After::Close)
            }
            Behaviour::Reset { framing, reply } => {
                self.first_half(framing, &reply)?;
                // With nothing to linger for, closing sends a reset in place of a FIN.
                set_socket_linger(&*self.stream, Some(Duration::ZERO))?;
                Ok(After::Close)
            }
            Behaviour::EndlessBody => self.endless(),
            Behaviour::Garbage => {
                self.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")?;
                self.hold();
                Ok(After::Close)
            }
            Behaviour::Close => Ok(After::Close),
        }
    }

    fn answer(&self, reply: &Reply) -> io::Result<After> {
        let mut bytes = reply.head(Framing::ContentLength, self.close);
        if !self.head_only {
            bytes.extend_from_slice(&reply.body);
        }
        self.finish(&bytes).map(|()| After::Keep)
    }

    /// Answers, says that it is the last time, and closes the connection.
    fn last_answer(&mut self, reply: &Reply) -> io::Result<After> {
        self.close = true;
        self.answer(reply).map(|_| After::Close)
    }

    /// Sends the head and half of the body; the other half as it would be sent.
    fn first_half(&self, framing: Framing, reply: &Reply) -> io::Result<Vec<u8>> {
        let (first, rest) = reply.halves(framing);
        self.write(&reply.head(framing, self.close))?;
        self.write(&first)?;
        Ok(rest)
    }

    fn endless(&mut self) -> io::Result<After> {
        self.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")?;
        let block = vec![b'x'; 64 * 1024];
        loop {
            self.write(&block)?;
        }
    }

    fn drip(&mut self, bytes: &[u8], every: Duration) -> io::Result<()> {
        for byte in bytes.chunks(1) {
            if self.pause(every) == Pause::Gone {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.write(byte)?;
        }
        Ok(())
    }

    /// Waits until the vendor releases this connection or the client goes away.
    fn hold(&mut self) -> Pause {
        let open = self.stream.set_read_timeout(None).is_ok();
        let mut more = open && self.vendor.hold(self.id, self.generation);
        while more {
            more = matches!(self.read_more(), Ok(true));
        }
        if open && self.vendor.let_go(self.id, self.generation) {
            return Pause::Released;
        }
        self.client_gone = true;
        Pause::Gone
    }

    /// Waits for `span`, or until the client goes away.
    fn pause(&mut self, span: Duration) -> Pause {
        let until = Instant::now() + span;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Pause::Elapsed;
            }
            let more = self.stream.set_read_timeout(Some(left)).and_then(|()| self.read_more());
            match more {
                Ok(true) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                _ => {
                    self.client_gone = true;
                    return Pause::Gone;
                }
            }
        }
    }

    /// Reads what there is; `false` at the end.
    fn read_more(&mut self) -> io::Result<bool> {
        if self.input.len() > INPUT_MAX {
            return Ok(false);
        }
        let mut block = [0; 16 * 1024];
        let count = (&*self.stream).read(&mut block)?;
        self.input.extend_from_slice(&block[..count]);
        Ok(count > 0)
    }

    /// Writes the last of an answer. The request counts as answered before its client can know: a
    /// client that calls again at once never meets its own last request in flight.
    fn finish(&self, bytes: &[u8]) -> io::Result<()> {
        self.vendor.answered(self.id);
        self.write(bytes)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.stream).write_all(bytes)
    }
}

/// What is done with a request that makes it `in_flight` of them.
fn decided(behaviour: Behaviour, in_flight: usize) -> Behaviour {
    match behaviour {
        Behaviour::AtMost { in_flight: most, over, .. } if in_flight > most => {
            Behaviour::Answer(over)
        }
        other => other,
    }
}

fn huge(bytes: usize) -> Reply {
    let line = "x".repeat(1000);
    (0..bytes.div_ceil(line.len()))
        .fold(Reply::default(), |reply, at| reply.header(format!("X-{at}"), line.as_str()))
}
