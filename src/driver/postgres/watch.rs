//! Ends the calls of one partition on time, whatever the server does.
//!
//! One thread watches all calls that are under way. When a call's limit is over, or its caller has
//! cancelled, it asks the server to cancel the query; [`GRACE`] later it shuts the connection's
//! socket down, which ends any wait for it at once. A hot loop does not wake the thread: it sleeps
//! until the earliest limit that it knew, and finishing a call leaves it asleep.
//!
//! That thread never blocks. A request to the server can, so it goes out on a second thread, best
//! effort: a call that has ended by then needs none, and while a server that stopped in the middle
//! of a TLS handshake holds that thread up, calls end by the shutdown alone.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use parking_lot::{Condvar, Mutex};

use super::cancel::{self, CancelRequest};
use crate::call::{HookGuard, Run};
use crate::outcome::FailureReason;
use crate::time::{Clock, Time};

/// How long the server may take to end a query that it was asked to cancel. It takes a millisecond
/// if it is well; and the call must have ended before the partition counts it as overdue.
const GRACE: Duration = Duration::from_millis(50);

/// Watches the calls of one partition; its threads end with it.
pub(super) struct Watch {
    shared: Arc<Shared>,
    watching: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    clock: Clock,
    requests: Sender<(u64, Arc<CancelRequest>)>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    next_id: u64,
    /// When the thread will look again by itself; `MAX`: not before it is woken.
    wakes_at: Time,
    closed: bool,
}

/// A call that is under way.
struct Call {
    id: u64,
    /// When the thread must do the next thing about it.
    due: Time,
    /// Why it is being ended, if it is.
    ending: Option<FailureReason>,
    socket: Option<Arc<TcpStream>>,
    /// What to ask the server, while it runs a query for this call.
    request: Option<Arc<CancelRequest>>,
}

impl Watch {
    /// Starts the threads of `partition`, which has at most `calls_max` calls at once.
    pub(super) fn start(partition: &str, calls_max: usize) -> io::Result<Watch> {
        let (requests, asked) = bounded(calls_max);
        let shared = Arc::new(Shared {
            state: Mutex::new(State { wakes_at: Time::MAX, ..State::default() }),
            changed: Condvar::new(),
            clock: Clock::system(),
            requests,
        });
        let (watched, asking) = (Arc::clone(&shared), Arc::downgrade(&shared));
        let under_way = move |id: &u64| {
            let shared = asking.upgrade();
            shared.is_some_and(|shared| shared.state.lock().call(*id).is_some())
        };
        let named = |role: &str| Builder::new().name(format!("{partition}-{role}"));
        let watching = named("watch").spawn(move || watched.watch())?;
        let watch = Watch { shared, watching: Some(watching) };
        named("cancel").spawn(move || cancel::send_all(&asked, under_way))?;
        Ok(watch)
    }

    /// Watches a call from now on.
    pub(super) fn begin(&self, run: &Run) -> Watched {
        let (id, began) = self.shared.begin(run.remaining());
        let shared = Arc::clone(&self.shared);
        let hook = run.cancel_token().on_cancel(move || shared.end(id));
        Watched { shared: Arc::clone(&self.shared), id, began, _hook: hook }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.watching.take() {
            // It does not block, so this is short; and it does not panic.
            let _ = thread.join();
        }
    }
}

/// A call that is being watched, until this is dropped.
pub(super) struct Watched {
    shared: Arc<Shared>,
    id: u64,
    began: Time,
    _hook: HookGuard,
}

impl Watched {
    /// When it began, on the watch's clock.
    pub(super) fn began(&self) -> Time {
        self.began
    }

    /// From now on ending the call shuts `socket` down. `false`: it is being ended, and `socket`
    /// was shut down.
    pub(super) fn holds(&self, socket: &Arc<TcpStream>) -> bool {
        self.shared.holds(self.id, socket)
    }

    /// The same from another place, for the length of a connect.
    pub(super) fn holder(&self) -> impl Fn(&Arc<TcpStream>) -> bool + Send + Sync + use<> {
        let (shared, id) = (Arc::clone(&self.shared), self.id);
        move |socket| shared.holds(id, socket)
    }

    /// From now on ending the call asks the server first. `false`: it is being ended.
    pub(super) fn asks(&self, request: Arc<CancelRequest>) -> bool {
        let mut state = self.shared.state.lock();
        match state.call(self.id) {
            Some(call) if call.ending.is_none() => {
                call.request = Some(request);
                true
            }
            _ => false,
        }
    }

    /// Why the call is being ended, if it is.
    pub(super) fn ending(&self) -> Option<FailureReason> {
        self.shared.state.lock().call(self.id)?.ending
    }

    /// Stops watching; why the call was being ended, if it was. If it was, a request to cancel may
    /// still be on its way, and the connection must serve nobody else.
    pub(super) fn finish(self) -> Option<FailureReason> {
        self.remove()?.ending
    }

    fn remove(&self) -> Option<Call> {
        self.shared.state.lock().remove(self.id)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl State {
    /// There are as many as the partition has slots: few enough to look through.
    fn call(&mut self, id: u64) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.id == id)
    }

    fn remove(&mut self, id: u64) -> Option<Call> {
        let at = self.calls.iter().position(|call| call.id == id)?;
        Some(self.calls.swap_remove(at))
    }
}

impl Shared {
    fn begin(&self, limit: Duration) -> (u64, Time) {
        let now = self.clock.now();
        let due = now + limit;
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.calls.push(Call { id, due, ending: None, socket: None, request: None });
        self.wake_by(&mut state, due);
        (id, now)
    }

    fn holds(&self, id: u64, socket: &Arc<TcpStream>) -> bool {
        let mut state = self.state.lock();
        match state.call(id) {
            Some(call) if call.ending.is_none() => {
                call.socket = Some(Arc::clone(socket));
                true
            }
            _ => {
                shut(socket);
                false
            }
        }
    }

    /// The caller has cancelled. Never blocks.
    fn end(&self, id: u64) {
        let mut state = self.state.lock();
        if let Some(call) = state.call(id).filter(|call| call.ending.is_none()) {
            self.ask_or_shut(call, FailureReason::Cancelled);
            let due = call.due;
            self.wake_by(&mut state, due);
        }
    }

    fn wake_by(&self, state: &mut State, due: Time) {
        if due < state.wakes_at {
            state.wakes_at = due;
            self.changed.notify_one();
        }
    }

    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let now = self.clock.now();
            if now >= state.wakes_at {
                state.wakes_at = self.step(&mut state.calls, now);
            }
            // It may be the limit of a call that has finished: waking up for that one limit is
            // cheaper than being woken up by every call of a loop that is faster than this thread.
            if state.wakes_at == Time::MAX {
                self.changed.wait(&mut state);
            } else {
                let span = state.wakes_at - now;
                self.changed.wait_for(&mut state, span);
            }
        }
    }

    /// Does what is due; when the next thing is.
    fn step(&self, calls: &mut [Call], now: Time) -> Time {
        let mut next = Time::MAX;
        for call in calls {
            if call.due <= now {
                match call.ending {
                    None => self.ask_or_shut(call, FailureReason::Limit),
                    Some(_) => call.shut(),
                }
            }
            next = next.min(call.due);
        }
        next
    }

    /// The first step: by request if the server runs a query, by force if it does not yet.
    fn ask_or_shut(&self, call: &mut Call, reason: FailureReason) {
        call.ending = Some(reason);
        let Some(request) = call.request.take() else {
            return call.shut();
        };
        call.due = self.clock.now() + GRACE;
        // If there is no room, the thread is held up, and the shutdown is what is left.
        let _ = self.requests.try_send((call.id, request));
    }
}

impl Call {
    /// The last step.
    fn shut(&mut self) {
        self.due = Time::MAX;
        if let Some(socket) = &self.socket {
            shut(socket);
        }
    }
}

/// Ends every wait for `socket`, at both ends. Never blocks.
pub(super) fn shut(socket: &TcpStream) {
    // It fails if the connection is gone, which is what it is for.
    let _ = socket.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::CancelToken as Token;
    use std::io::Read;
    use std::net::TcpListener;

    const AMPLE: Duration = Duration::from_secs(60);

    /// The server's end, and the client's, of a connection.
    fn connection() -> (TcpStream, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, Arc::new(client))
    }

    fn ends(mut server: TcpStream) {
        server.set_read_timeout(Some(AMPLE)).unwrap();
        assert_eq!(server.read(&mut [0]).expect("it ends in time"), 0);
    }

    fn goes_on(server: &TcpStream) {
        server.set_nonblocking(true).unwrap();
        let kind = server.peek(&mut [0]).expect_err("it is open and silent").kind();
        assert_eq!(kind, io::ErrorKind::WouldBlock);
    }

    fn run(limit: Duration, token: &Token) -> Run {
        Run::detached(limit, token.clone())
    }

    #[test]
    fn the_limit_ends_a_call_and_leaves_the_others() {
        let watch = Watch::start("test", 2).unwrap();
        let ((long_end, long), (short_end, short)) = (connection(), connection());
        let patient = watch.begin(&run(AMPLE, &Token::new()));
        assert!(patient.holds(&long));
        let hurried = watch.begin(&run(Duration::from_millis(20), &Token::new()));
        assert!(hurried.holds(&short));
        ends(short_end);
        assert_eq!(hurried.finish(), Some(FailureReason::Limit));
        goes_on(&long_end);
        assert_eq!(patient.finish(), None);
    }

    #[test]
    fn a_cancel_before_the_socket_is_known_ends_it_all_the_same() {
        let watch = Watch::start("test", 1).unwrap();
        let token = Token::new();
        let call = watch.begin(&run(AMPLE, &token));
        token.cancel();
        assert_eq!(call.ending(), Some(FailureReason::Cancelled));
        let (server, socket) = connection();
        assert!(!call.holder()(&socket), "the connect must not go on");
        ends(server);
    }

    #[test]
    fn a_late_cancel_leaves_the_next_call_alone() {
        let watch = Watch::start("test", 1).unwrap();
        let (server, socket) = connection();
        let token = Token::new();
        let call = watch.begin(&run(AMPLE, &token));
        assert!(call.holds(&socket));
        token.trip();
        let late = token.next_hook().expect("the call hears of its cancel");
        assert_eq!(call.finish(), None);
        let next = watch.begin(&run(AMPLE, &Token::new()));
        assert!(next.holds(&socket));
        late();
        goes_on(&server);
        assert_eq!(next.finish(), None);
    }

    #[test]
    fn a_hot_loop_leaves_the_thread_asleep() {
        let watch = Watch::start("test", 1).unwrap();
        let target = || watch.shared.state.lock().wakes_at;
        drop(watch.begin(&run(AMPLE, &Token::new())));
        let first = target();
        assert!(first < Time::MAX);
        for _ in 0..1000 {
            drop(watch.begin(&run(AMPLE, &Token::new())));
            assert_eq!(target(), first);
        }
        assert!(watch.shared.state.lock().calls.is_empty());
        drop(watch.begin(&run(Duration::from_secs(30), &Token::new())));
        assert!(target() < first, "a call that ends earlier does wake it");
    }
}
