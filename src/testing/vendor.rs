//! A loopback HTTP server that behaves as badly as it is told to.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::net::{RecvFlags, recv};

use super::behaviour::Behaviour;
use super::connection::Connection;
use super::request::Seen;

/// The most connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 512;
/// How many of the latest requests are kept.
const SEEN_MAX: usize = 1024;

/// A real HTTP/1.1 server on 127.0.0.1 whose behaviour is set at run time.
///
/// It counts what reaches it, so that a test can wait for a state instead of sleeping. At most 512
/// connections are served at once, each by a thread; the latest 1,024 requests are kept. Dropping
/// it stops it, see [`Vendor::stop`].
///
/// ```
/// use std::time::Duration;
/// use watertight::testing::{Behaviour, Reply, Vendor};
///
/// let vendor = Vendor::start()?;
/// vendor.set(Behaviour::Hang);
/// vendor.set_path("/health", Behaviour::Answer(Reply::json(r#"{"up": true}"#)));
/// assert!(vendor.url().starts_with("http://127.0.0.1:"));
/// assert!(!vendor.wait_in_flight(1, Duration::from_millis(1)), "nobody has called yet");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Vendor {
    shared: Arc<Shared>,
    addr: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// What a vendor has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Connections open now.
    pub connections: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that the client ended, also while they were idle.
    pub closed_by_client: u64,
    /// Requests read.
    pub requests: u64,
    /// Requests being worked on now: read, not answered to the end, and the client still there.
    pub in_flight: usize,
    /// The most that were worked on at once.
    pub in_flight_max: usize,
    /// Requests answered to the end; counted just before the last bytes are sent.
    pub answered: u64,
}

impl Vendor {
    /// Starts a vendor on a free port; it answers every request with `200`.
    ///
    /// # Errors
    ///
    /// No port or no thread could be had.
    pub fn start() -> io::Result<Vendor> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("vendor".to_owned())
            .spawn(move || served.accept(&listener))?;
        Ok(Vendor {
            shared,
            addr,
            acceptor: Some(acceptor),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it does with requests for paths that have no behaviour of their own. Holds from the
    /// next request on, [`Behaviour::NeverRead`] from the next connection on.
    pub fn set(&self, behaviour: Behaviour) {
        self.shared.state.lock().fallback = behaviour;
    }

    /// What it does with requests for `path`, whatever their query.
    pub fn set_path(&self, path: impl Into<String>, behaviour: Behaviour) {
        self.shared
            .state
            .lock()
            .paths
            .insert(path.into(), behaviour);
    }

    /// Answers the requests that hang now, and finishes the bodies that hang now. Their connections
    /// are closed then, and so are those that are never read.
    pub fn release(&self) {
        let mut state = self.shared.state.lock();
        state.generation += 1;
        for id in &state.held {
            // Wakes the thread that waits for the client to go away, and nothing else.
            let _ = state.open[id].shutdown(Shutdown::Read);
        }
        self.shared.changed.notify_all();
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        self.shared.state.lock().counts
    }

    /// The latest requests, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state.lock().seen.iter().cloned().collect()
    }

    /// Blocks until its counts are as `wanted` says, at most for `limit`; whether they are.
    pub fn wait(&self, limit: Duration, mut wanted: impl FnMut(&Counts) -> bool) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.shared.state.lock();
        while !wanted(&state.counts) {
            if self
                .shared
                .changed
                .wait_until(&mut state, until)
                .timed_out()
            {
                return wanted(&state.counts);
            }
        }
        true
    }

    /// Blocks until exactly `count` requests are in flight, at most for `limit`; whether they are.
    pub fn wait_in_flight(&self, count: usize, limit: Duration) -> bool {
        self.wait(limit, |counts| counts.in_flight == count)
    }

    /// Ends all connections and takes no more. Blocks until its threads have ended, which nothing
    /// delays.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        {
            let mut state = self.shared.state.lock();
            state.stopping = true;
            for stream in state.open.values() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            self.shared.changed.notify_all();
        }
        // Wakes the acceptor, which looks at `stopping` first.
        drop(TcpStream::connect(self.addr));
        // Threads of the vendor run no code but its own; should one have panicked, the test that
        // needed it fails by itself.
        let _ = acceptor.join();
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vendor")
            .field("addr", &self.addr)
            .field("counts", &self.counts())
            .finish()
    }
}

/// What to do with a request, and how many releases there had been when it came.
pub(super) struct Begun {
    pub(super) behaviour: Behaviour,
    pub(super) generation: u64,
}

/// What the vendor, its acceptor and its connections share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    fallback: Behaviour,
    paths: HashMap<String, Behaviour>,
    counts: Counts,
    seen: VecDeque<Seen>,
    open: HashMap<u64, Arc<TcpStream>>,
    /// The connections with a request in flight.
    working: HashMap<u64, Arc<TcpStream>>,
    /// The connections that wait for a release.
    held: HashSet<u64>,
    /// Counts the releases.
    generation: u64,
    stopping: bool,
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        while self.wait_for_room() {
            let Ok((stream, _)) = listener.accept() else {
                continue;
            };
            let Some((id, stream)) = self.opened(stream) else {
                break;
            };
            let served = Arc::clone(self);
            let thread = thread::Builder::new()
                .name(format!("vendor-{id}"))
                .spawn(move || {
                    let by_client = Connection::new(&served, id, Arc::clone(&stream)).serve();
                    served.closed(id, stream, by_client);
                });
            threads.retain(|thread| !thread.is_finished());
            match thread {
                Ok(thread) => threads.push(thread),
                Err(_) => self.forget(id),
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Whether there is room for one more connection; `false` when stopping.
    fn wait_for_room(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| {
            state.open.len() >= CONNECTIONS_MAX && !state.stopping
        });
        !state.stopping
    }

    fn opened(&self, stream: TcpStream) -> Option<(u64, Arc<TcpStream>)> {
        let _ = stream.set_nodelay(true);
        let stream = Arc::new(stream);
        let mut state = self.state.lock();
        if state.stopping {
            return None;
        }
        let id = state.counts.accepted;
        state.counts.accepted += 1;
        state.counts.connections += 1;
        state.open.insert(id, Arc::clone(&stream));
        self.changed.notify_all();
        Some((id, stream))
    }

    fn closed(&self, id: u64, stream: Arc<TcpStream>, by_client: bool) {
        let mut state = self.state.lock();
        state.counts.closed_by_client += u64::from(by_client && !state.stopping);
        state.open.remove(&id);
        // The last of its owners: the socket is closed before anybody counts it as closed.
        drop(stream);
        state.counts.connections -= 1;
        self.changed.notify_all();
    }

    fn forget(&self, id: u64) {
        let mut state = self.state.lock();
        state.open.remove(&id);
        state.counts.connections -= 1;
    }

    pub(super) fn fallback(&self) -> Behaviour {
        self.state.lock().fallback.clone()
    }

    pub(super) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Counts a request as in flight, and says what to do with it.
    pub(super) fn begin(&self, id: u64, stream: &Arc<TcpStream>, request: Seen) -> Begun {
        let mut state = self.state.lock();
        let behaviour = state
            .paths
            .get(request.path())
            .unwrap_or(&state.fallback)
            .clone();
        // A client that gave one request up and makes another has one in flight, although the
        // thread of the first may not have noticed yet.
        state.working.retain(|_, stream| client_is_there(stream));
        state.working.insert(id, Arc::clone(stream));
        state.counts.requests += 1;
        state.counts.in_flight = state.working.len();
        state.counts.in_flight_max = state.counts.in_flight_max.max(state.counts.in_flight);
        if state.seen.len() == SEEN_MAX {
            state.seen.pop_front();
        }
        state.seen.push_back(request);
        self.changed.notify_all();
        Begun {
            behaviour,
            generation: state.generation,
        }
    }

    /// Counts the request on connection `id` as answered.
    pub(super) fn answered(&self, id: u64) {
        self.state.lock().counts.answered += 1;
        self.end(id);
    }

    /// The request on connection `id`, if there is one, is in flight no more.
    pub(super) fn end(&self, id: u64) {
        let mut state = self.state.lock();
        state.working.remove(&id);
        state.counts.in_flight = state.working.len();
        self.changed.notify_all();
    }

    /// Has connection `id` woken by the next release; `false` if there has been one since the
    /// `generation`th.
    pub(super) fn hold(&self, id: u64, generation: u64) -> bool {
        let mut state = self.state.lock();
        state.held.insert(id);
        state.generation == generation
    }

    /// Whether there has been a release since the `generation`th.
    pub(super) fn let_go(&self, id: u64, generation: u64) -> bool {
        let mut state = self.state.lock();
        state.held.remove(&id);
        !state.stopping && state.generation != generation
    }

    /// Waits for a release or the end, without looking at the connection.
    pub(super) fn wait_released(&self, generation: u64) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| {
            state.generation == generation && !state.stopping
        });
    }
}

/// Whether the other side still keeps the connection, as far as is known here. Never blocks.
fn client_is_there(stream: &TcpStream) -> bool {
    match recv(
        stream,
        &mut [0_u8; 1],
        RecvFlags::PEEK | RecvFlags::DONTWAIT,
    ) {
        Ok((_, count)) => count > 0,
        Err(error) => error == rustix::io::Errno::AGAIN,
    }
}
