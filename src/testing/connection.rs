//! One connection of the vendor: reads requests and does to each what the vendor is set to.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::behaviour::{Behaviour, Framing, Reply};
use super::request::{Progress, Seen, parse};
use super::vendor::Shared;

/// The most bytes kept of a client that sends while it should wait.
const INPUT_MAX: usize = 32 * 1024 * 1024;

pub(super) struct Connection<'v> {
    vendor: &'v Shared,
    id: u64,
    stream: Arc<TcpStream>,
    input: Vec<u8>,
    /// How many releases there had been when the request, or else the connection, came.
    generation: u64,
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
        let generation = vendor.generation();
        Connection {
            vendor,
            id,
            stream,
            input: Vec::new(),
            generation,
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
            let close = request.wants_close();
            let head_only = request.method == "HEAD";
            let target = request.target.clone();
            let begun = self.vendor.begin(self.id, &self.stream, request);
            self.generation = begun.generation;
            let ended = self.act(begun.behaviour, &target, head_only, close);
            self.vendor.end(self.id);
            self.client_gone |= ended.is_err();
            if close || self.client_gone || !matches!(ended, Ok(After::Keep)) {
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

    fn act(
        &mut self,
        behaviour: Behaviour,
        target: &str,
        head_only: bool,
        close: bool,
    ) -> io::Result<After> {
        match behaviour {
            Behaviour::Answer(reply) => self.answer(&reply, head_only, close),
            Behaviour::Delay(delay, reply) => match self.pause(delay) {
                Pause::Gone => Ok(After::Close),
                _ => self.answer(&reply, head_only, close),
            },
            Behaviour::Hang | Behaviour::NeverRead => match self.hold() {
                Pause::Gone => Ok(After::Close),
                _ => self
                    .answer(&Reply::default(), head_only, true)
                    .map(|_| After::Close),
            },
            Behaviour::AnswerThenClose(reply) => {
                self.answer(&reply, head_only, close).map(|_| After::Close)
            }
            Behaviour::RedirectLoop => {
                let again = Reply::status(302).header("Location", target);
                self.answer(&again, head_only, close)
            }
            Behaviour::HugeHead(bytes) => {
                let line = "x".repeat(1000);
                let mut huge = Reply::default();
                for at in 0..bytes.div_ceil(line.len()) {
                    huge = huge.header(format!("X-{at}"), line.as_str());
                }
                self.answer(&huge, head_only, close)
            }
            Behaviour::DripHead { every, reply } => {
                let head = reply.head(Framing::ContentLength, close);
                self.drip(&head, every)?;
                self.finish(&reply.body).map(|()| After::Keep)
            }
            Behaviour::DripBody { every, reply } => {
                self.write(&reply.head(Framing::ContentLength, close))?;
                self.drip(&reply.body, every)?;
                self.finish(b"").map(|()| After::Keep)
            }
            Behaviour::HangBody(reply) => self.hang_body(&reply),
            Behaviour::EndlessBody => self.endless(),
            Behaviour::Reset { framing, reply } => self.reset(framing, &reply),
            Behaviour::UntilClose(reply) => {
                self.write(&reply.head(Framing::UntilClose, true))?;
                self.finish(&reply.body).map(|()| After::Close)
            }
            Behaviour::Garbage => {
                self.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")?;
                self.hold();
                Ok(After::Close)
            }
            Behaviour::Close => Ok(After::Close),
        }
    }

    fn answer(&mut self, reply: &Reply, head_only: bool, close: bool) -> io::Result<After> {
        let mut bytes = reply.head(Framing::ContentLength, close);
        if !head_only {
            bytes.extend_from_slice(&reply.body);
        }
        self.finish(&bytes).map(|()| After::Keep)
    }

    fn hang_body(&mut self, reply: &Reply) -> io::Result<After> {
        let (first, rest) = reply.body.split_at(reply.body.len() / 2);
        self.write(&reply.head(Framing::ContentLength, true))?;
        self.write(first)?;
        if self.hold() == Pause::Released {
            self.finish(rest)?;
        }
        Ok(After::Close)
    }

    fn endless(&mut self) -> io::Result<After> {
        self.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")?;
        let block = vec![b'x'; 64 * 1024];
        loop {
            self.write(&block)?;
        }
    }

    fn reset(&mut self, framing: Framing, reply: &Reply) -> io::Result<After> {
        self.write(&reply.head(framing, false))?;
        self.write(&reply.body[..reply.body.len() / 2])?;
        // With nothing to linger for, closing sends a reset in place of a FIN.
        set_socket_linger(&*self.stream, Some(Duration::ZERO))?;
        Ok(After::Close)
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
            let more = self
                .stream
                .set_read_timeout(Some(left))
                .and_then(|()| self.read_more());
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
