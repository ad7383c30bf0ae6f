//! Names to addresses, within a call's limit whatever the system's resolver does.
//!
//! A look-up cannot be called off, so it runs on a thread of its own: one a partition at most, and
//! only while there is a look-up. The callers wait for it no longer than they may; its answer then
//! serves the calls of the next 30 seconds. A partition has one origin, so one name is all there is.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::line::{self, Interrupt, Line};
use super::origin::Origin;
use crate::time::{Clock, Time};

/// How long an answer serves.
const FRESH: Duration = Duration::from_secs(30);
/// The most addresses that are tried.
const ADDRS_MAX: usize = 16;

/// Looks a host and a port up; may block.
pub(super) type LookUp = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The system's resolver.
pub(super) fn system() -> LookUp {
    Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

/// Resolves the one name of a partition, and refuses all others.
#[derive(Debug)]
pub(super) struct Names {
    origin: Origin,
    /// The address that the host is written as.
    literal: Option<SocketAddr>,
    shared: Arc<Shared>,
}

impl Names {
    pub(super) fn new(origin: Origin, look_up: LookUp, thread_name: String) -> Names {
        let literal = origin.host().trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let literal = literal.map(|ip| SocketAddr::new(ip, origin.port()));
        let shared = Shared {
            host: origin.host().to_owned(),
            port: origin.port(),
            look_up,
            thread_name,
            clock: Clock::system(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Names { origin, literal, shared: Arc::new(shared) }
    }
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        // ureq asks before every connection, pooled or not: so no redirect leaves the partition.
        if !self.origin.is_of(uri) {
            return Err(Error::Other(Box::new(Elsewhere)));
        }
        let mut addrs = self.empty();
        match self.literal {
            Some(literal) => addrs.push(literal),
            None => {
                for addr in self.shared.addrs(timeout)?.into_iter().take(ADDRS_MAX) {
                    addrs.push(addr);
                }
            }
        }
        if addrs.is_empty() { Err(Error::HostNotFound) } else { Ok(addrs) }
    }
}

/// A redirect to another origin.
#[derive(Debug)]
pub(super) struct Elsewhere;

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redirected to another scheme, host or port than the base URL's")
    }
}

impl std::error::Error for Elsewhere {}

/// What the callers and the look-up share.
struct Shared {
    host: String,
    port: u16,
    look_up: LookUp,
    thread_name: String,
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    looking: bool,
    /// Counts the look-ups that have ended.
    ended: u64,
    /// What the last one said; `None` if there is no such name.
    addrs: Option<Vec<SocketAddr>>,
    fresh_until: Time,
}

impl Shared {
    fn addrs(self: &Arc<Shared>, timeout: NextTimeout) -> Result<Vec<SocketAddr>, Error> {
        let line = line::current();
        let waker: Arc<dyn Interrupt> = Arc::clone(self) as Arc<dyn Interrupt>;
        line.during(waker, || self.wait(&line, timeout))?
    }

    fn wait(
        self: &Arc<Shared>,
        line: &Line,
        timeout: NextTimeout,
    ) -> Result<Vec<SocketAddr>, Error> {
        let until = self.clock.now() + *timeout.after;
        let mut state = self.state.lock();
        let before = state.ended;
        loop {
            if state.ended != before || self.clock.now() < state.fresh_until {
                return state.addrs.clone().ok_or(Error::HostNotFound);
            }
            if !state.looking {
                self.begin()?;
                state.looking = true;
            }
            let left = until - self.clock.now();
            if left.is_zero() || line.is_cut() {
                return Err(Error::Timeout(timeout.reason));
            }
            self.changed.wait_for(&mut state, left);
        }
    }

    fn begin(self: &Arc<Shared>) -> io::Result<()> {
        let shared = Arc::clone(self);
        let work = move || {
            let found =
                catch_unwind(AssertUnwindSafe(|| (shared.look_up)(&shared.host, shared.port)));
            shared.end(found.ok().and_then(Result::ok).filter(|addrs| !addrs.is_empty()));
        };
        // Never joined: nothing can end a look-up that hangs.
        thread::Builder::new().name(self.thread_name.clone()).spawn(work).map(drop)
    }

    fn end(&self, addrs: Option<Vec<SocketAddr>>) {
        let mut state = self.state.lock();
        let fresh = if addrs.is_some() { FRESH } else { Duration::ZERO };
        state.fresh_until = self.clock.now() + fresh;
        state.addrs = addrs;
        state.looking = false;
        state.ended += 1;
        self.changed.notify_all();
    }
}

impl Interrupt for Shared {
    fn interrupt(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("host", &self.host).finish_non_exhaustive()
    }
}
