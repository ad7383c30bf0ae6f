//! A small HTTP server for one person on one machine.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::http::{LIMITS, Request, Response, converse, turn_away};
use super::page;
use crate::simulate::Scenario;
use crate::time::Clock;

/// Connections that are served at once; a browser opens six. One more is told to come back.
const CONNECTIONS_MAX: usize = 32;
/// After an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// How long a stop waits for the accepting thread to notice.
const KNOCK_LIMIT: Duration = Duration::from_secs(1);

/// Serves the inspector's page on 127.0.0.1 to whoever asks for it by that name. Nothing is read
/// from or written to disk, and no other machine is asked for anything.
///
/// A request whose `Host` is another name, as after a rebound DNS name, is refused, and so is one
/// that a foreign page sent.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    clock: Clock,
    open: Arc<Connections>,
}

impl Server {
    /// Takes `port` on 127.0.0.1; 0: any that is free.
    ///
    /// # Errors
    ///
    /// The port is taken, or may not be taken.
    pub fn bind(port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(Server {
            address: listener.local_addr()?,
            listener,
            clock: Clock::system(),
            open: Arc::default(),
        })
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Where the page is, with `scenario` filled in.
    pub fn url_of(&self, scenario: &Scenario) -> String {
        let fields = scenario.fields();
        let inputs = fields.iter().map(|(name, value)| match value {
            Value::String(word) => format!("{name}={word}"),
            value => format!("{name}={value}"),
        });
        let inputs: Vec<_> = inputs.collect();
        format!("{}#{}", self.url(), inputs.join("&"))
    }

    /// What stops it, from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { address: self.address, open: Arc::clone(&self.open) }
    }

    /// Answers requests until it is stopped. Blocks until then, and until the last connection is
    /// closed. A thread a connection, at most 32.
    pub fn serve(&self) {
        thread::scope(|scope| {
            while !self.open.stopped() {
                match self.listener.accept() {
                    Ok((stream, _)) => self.admit(scope, stream),
                    // The peer went before it was accepted, or there are no descriptors left
                    // until a connection ends.
                    Err(_) => thread::park_timeout(ACCEPT_PAUSE),
                }
            }
        });
    }

    fn admit<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>, stream: TcpStream) {
        let Some(id) = self.open.enter(&stream) else {
            turn_away(&stream, &self.clock, "32 connections are open already");
            return;
        };
        let serve = move || {
            converse(&stream, &self.clock, LIMITS, |request| self.answer(request));
            self.open.leave(id);
        };
        if thread::Builder::new().spawn_scoped(scope, serve).is_err() {
            self.open.leave(id);
        }
    }

    fn answer(&self, request: &Request) -> Response {
        if !self.is_own_host(request.header("host").unwrap_or_default()) {
            return Response::refusal(403, &format!("ask for {}", self.url()));
        }
        if let Some(origin) = request.header("origin")
            && !origin.strip_prefix("http://").is_some_and(|host| self.is_own_host(host))
        {
            return Response::refusal(403, "another page may not ask");
        }
        catch_unwind(AssertUnwindSafe(|| page::answer(request)))
            .unwrap_or_else(|_| Response::refusal(500, "the answer could not be worked out"))
    }

    fn is_own_host(&self, host: &str) -> bool {
        let port = self.address.port();
        let (name, given) = host.split_once(':').unwrap_or((host, "80"));
        let is_own_name = name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost");
        is_own_name && given == port.to_string()
    }
}

/// Stops a [`Server`].
#[derive(Clone, Debug)]
pub struct Stopper {
    address: SocketAddr,
    open: Arc<Connections>,
}

impl Stopper {
    /// Has the server take no more connections and end those it has; its
    /// [`serve`](Server::serve) returns soon after. Blocks for a second at most.
    pub fn stop(&self) {
        self.open.close();
        // The accepting thread sits in a call that only a connection ends.
        let _ = TcpStream::connect_timeout(&self.address, KNOCK_LIMIT);
    }
}

/// The connections that are open.
#[derive(Debug, Default)]
struct Connections {
    stopped: AtomicBool,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next_id: u64,
    by_id: HashMap<u64, TcpStream>,
}

impl Connections {
    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Takes note of a connection; `None` if there are too many, or none is wanted any more.
    fn enter(&self, stream: &TcpStream) -> Option<u64> {
        let ours = stream.try_clone().ok()?;
        let mut streams = self.streams.lock();
        if self.stopped() || streams.by_id.len() >= CONNECTIONS_MAX {
            return None;
        }
        streams.next_id += 1;
        let id = streams.next_id;
        streams.by_id.insert(id, ours);
        Some(id)
    }

    fn leave(&self, id: u64) {
        self.streams.lock().by_id.remove(&id);
    }

    fn close(&self) {
        let streams = self.streams.lock();
        self.stopped.store(true, Ordering::SeqCst);
        for stream in streams.by_id.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
