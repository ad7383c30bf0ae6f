//! Connections that a cancel can end: while they are made, while they send, while they wait.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Socket, Type};
use ureq::Error;
use ureq::unversioned::transport::time::Instant;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::line::{self, Interrupt};
use crate::time::{Clock, Time};

/// Why a connection is of no more use, in words of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken(pub(super) &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Error {
        // As an I/O error, ureq could take it for the end of a body.
        Error::Other(Box::new(broken))
    }
}

impl Interrupt for Socket {
    fn interrupt(&self) {
        // Fails only if the connection has ended already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Connects over TCP.
#[derive(Debug)]
pub(super) struct WireConnector {
    pub(super) clock: Clock,
}

impl Connector for WireConnector {
    type Out = Wire;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Wire>, Error> {
        let until = self.clock.now() + *left(details)?.after;
        let count = details.addrs.len() as u32;
        let mut failed = Error::ConnectionFailed;
        for (addr, others) in details.addrs.iter().zip((0..count).rev()) {
            // Every address gets a share of what is left, so that one that is silent leaves time
            // for the next.
            let share = (until - self.clock.now()) / (others + 1);
            if share.is_zero() {
                return Err(Error::Timeout(details.timeout.reason));
            }
            match self.connect_to(*addr, share, details) {
                Ok(wire) => return Ok(Some(wire)),
                Err(Error::Io(error)) if error.kind() == ErrorKind::TimedOut => {
                    failed = Error::Timeout(details.timeout.reason);
                }
                Err(Error::Io(error)) => failed = Error::Io(error),
                Err(other) => return Err(other),
            }
        }
        Err(failed)
    }
}

impl WireConnector {
    fn connect_to(
        &self,
        addr: SocketAddr,
        limit: Duration,
        details: &ConnectionDetails,
    ) -> Result<Wire, Error> {
        let socket = Arc::new(Socket::new(Domain::for_address(addr), Type::STREAM, None)?);
        let connect = || socket.connect_timeout(&addr.into(), limit);
        line::current().during(socket.clone(), connect)??;
        socket.set_tcp_nodelay(true)?;
        let config = details.config;
        Ok(Wire {
            socket,
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            clock: self.clock.clone(),
            read_timeout: None,
            write_timeout: None,
            pooled: false,
        })
    }
}

/// What is left of the time to connect.
pub(super) fn left(details: &ConnectionDetails) -> Result<NextTimeout, Error> {
    let mut timeout = details.timeout;
    if let Instant::Exact(begun) = details.now
        && !timeout.after.is_not_happening()
    {
        timeout.after = timeout.after.saturating_sub(begun.elapsed()).into();
    }
    if timeout.after.is_zero() { Err(Error::Timeout(timeout.reason)) } else { Ok(timeout) }
}

/// One TCP connection.
pub(super) struct Wire {
    socket: Arc<Socket>,
    buffers: LazyBuffers,
    clock: Clock,
    /// What the socket is set to, so that it is set again only for another value.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// Whether it has served a request, so that what it sends can only be another.
    pooled: bool,
}

impl Wire {
    fn read(&mut self, until: Time) -> io::Result<usize> {
        loop {
            let limit = bound(until - self.clock.now())?;
            if self.read_timeout != limit {
                self.socket.set_read_timeout(limit)?;
                self.read_timeout = limit;
            }
            match (&*self.socket).read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn write(&mut self, amount: usize, until: Time) -> io::Result<()> {
        let mut done = 0;
        while done < amount {
            let limit = bound(until - self.clock.now())?;
            if self.write_timeout != limit {
                self.socket.set_write_timeout(limit)?;
                self.write_timeout = limit;
            }
            match (&*self.socket).write(&self.buffers.output()[done..amount]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A limit as a socket takes it: none at all if it is longer than a day.
fn bound(limit: Duration) -> io::Result<Option<Duration>> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    match limit {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        // Shorter ones would be rounded down to none.
        limit => Ok((limit < DAY).then(|| limit.max(Duration::from_micros(1)))),
    }
}

fn failed(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Error::Timeout(timeout.reason),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            Broken("the backend reset the connection").into()
        }
        _ => Error::Io(error),
    }
}

impl Transport for Wire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let line = line::current();
        if self.pooled || line.is_connected() {
            line.set_sent();
        }
        let until = self.clock.now() + *timeout.after;
        let socket = self.socket.clone();
        line.during(socket, || self.write(amount, until))?.map_err(|error| failed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let until = self.clock.now() + *timeout.after;
        let socket = self.socket.clone();
        let read = line::current().during(socket, || self.read(until))?;
        let count = read.map_err(|error| failed(error, timeout))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Asked when the connection goes to the pool and when it is taken from there. Bytes that
    /// nobody asked for, or the end, make it useless.
    fn is_open(&mut self) -> bool {
        self.pooled = true;
        let peeked = recv(&*self.socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::AGAIN))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// Notes that the connectors before it have done their work: what is sent now is the request.
#[derive(Debug)]
pub(super) struct Connected;

impl<In: Transport> Connector<In> for Connected {
    type Out = In;

    fn connect(&self, _: &ConnectionDetails, made: Option<In>) -> Result<Option<In>, Error> {
        line::current().set_connected();
        Ok(made)
    }
}
