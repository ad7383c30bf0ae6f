//! What a vendor, its acceptor and its connections share.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::net::{RecvFlags, recv};

use super::behaviour::Behaviour;
use super::connection::Connection;
use super::request::Seen;
use super::vendor::Counts;

/// The most connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 512;
/// How many of the latest requests are kept.
const SEEN_MAX: usize = 1024;

/// What to do with a request, and how many releases there had been when it came.
pub(super) struct Begun {
    pub(super) behaviour: Behaviour,
    pub(super) generation: u64,
    /// How many there are, with this one.
    pub(super) in_flight: usize,
}

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
    /// Sets what is done with requests for `path`, or for those without a behaviour of their own.
    pub(super) fn set(&self, path: Option<String>, behaviour: Behaviour) {
        let mut state = self.state.lock();
        match path {
            Some(path) => drop(state.paths.insert(path, behaviour)),
            None => state.fallback = behaviour,
        }
    }

    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        for id in &state.held {
            // Wakes the thread that waits for the client to go away, and nothing else.
            let _ = state.open[id].shutdown(Shutdown::Read);
        }
        self.changed.notify_all();
    }

    pub(super) fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state.lock().seen.iter().cloned().collect()
    }

    pub(super) fn wait(&self, limit: Duration, mut wanted: impl FnMut(&Counts) -> bool) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state.lock();
        while !wanted(&state.counts) {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return wanted(&state.counts);
            }
        }
        true
    }

    /// Ends all connections, and takes no more once the acceptor looks.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        for stream in state.open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Serves connections until the vendor is stopped, and then until all have ended.
    pub(super) fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        while self.wait_for_room() {
            let Ok((stream, _)) = listener.accept() else {
                continue;
            };
            let Some((id, stream)) = self.opened(stream) else {
                break;
            };
            let served = Arc::clone(self);
            let thread = thread::Builder::new().name(format!("vendor-{id}")).spawn(move || {
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
        self.changed
            .wait_while(&mut state, |state| state.open.len() >= CONNECTIONS_MAX && !state.stopping);
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
        let behaviour = state.paths.get(request.path()).unwrap_or(&state.fallback).clone();
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
        let (generation, in_flight) = (state.generation, state.counts.in_flight);
        Begun { behaviour, generation, in_flight }
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
        self.changed
            .wait_while(&mut state, |state| state.generation == generation && !state.stopping);
    }
}

/// Whether the other side still keeps the connection, as far as is known here. Never blocks.
fn client_is_there(stream: &TcpStream) -> bool {
    match recv(stream, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, count)) => count > 0,
        Err(error) => error == rustix::io::Errno::AGAIN,
    }
}
