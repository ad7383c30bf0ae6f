//! Ends the calls of one partition on time, whatever the server does.
//!
//! One thread watches all calls that are under way. When a call's limit is over, or its caller has
//! cancelled, it asks the server to cancel the query; [`GRACE`] later it shuts the connection's
//! socket down, which ends any wait for it at once. The thread never blocks: the request to the
//! server goes out on the pool's housekeeping thread, best effort, and a call that has ended by
//! then needs none. A hot loop does not wake the thread: it sleeps until the earliest limit that it
//! knew, and finishing a call leaves it asleep.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use postgres::{CancelToken, NoTls};
use scheduled_thread_pool::ScheduledThreadPool;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::call::{HookGuard, Run};
use crate::outcome::FailureReason;
use crate::time::{Clock, Time};

/// How long the server may take to end a query that it was asked to cancel. It takes a millisecond
/// if it is well; and the call must have ended before the partition counts it as overdue.
const GRACE: Duration = Duration::from_millis(50);

/// Watches the calls of one partition; its thread ends with it.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    clock: Clock,
    housekeeping: Arc<ScheduledThreadPool>,
}

#[derive(Default)]
struct State {
    calls: HashMap<u64, Call>,
    next_id: u64,
    /// When the thread will look again by itself; `MAX`: not before it is woken.
    wakes_at: Time,
    closed: bool,
}

/// A call that is under way.
struct Call {
    /// When the thread must do the next thing about it.
    due: Time,
    /// Why it is being ended, if it is.
    ending: Option<FailureReason>,
    socket: Option<Arc<TcpStream>>,
    /// What to ask the server, while it runs a query for this call.
    request: Option<CancelRequest>,
}

/// How to ask the server to cancel the query of one connection.
#[derive(Clone)]
pub(super) struct CancelRequest {
    pub(super) token: CancelToken,
    /// Set if the connection is encrypted. A plain request is sent without waiting for an answer.
    pub(super) tls: Option<MakeRustlsConnect>,
}

impl Watch {
    /// Starts the thread of `partition`.
    pub(super) fn start(
        partition: &str,
        housekeeping: &Arc<ScheduledThreadPool>,
    ) -> io::Result<Watch> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                wakes_at: Time::MAX,
                ..State::default()
            }),
            changed: Condvar::new(),
            clock: Clock::system(),
            housekeeping: Arc::clone(housekeeping),
        });
        let watched = Arc::clone(&shared);
        let builder = Builder::new().name(format!("{partition}-watch"));
        let thread = builder.spawn(move || watched.watch())?;
        Ok(Watch {
            shared,
            thread: Some(thread),
        })
    }

    /// Watches a call from now on.
    pub(super) fn begin(&self, run: &Run) -> Watched {
        let id = self.shared.begin(run.remaining());
        let (cancelled, aborted) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let token = run.cancel_token();
        let hooks = [
            token.on_cancel(move || cancelled.end(id)),
            token.on_abort(move || aborted.abort(id)),
        ];
        Watched {
            shared: Arc::clone(&self.shared),
            id,
            _hooks: hooks,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not block, so this is short; and it does not panic.
            let _ = thread.join();
        }
    }
}

/// A call that is being watched, until this is dropped.
pub(super) struct Watched {
    shared: Arc<Shared>,
    id: u64,
    _hooks: [HookGuard; 2],
}

impl Watched {
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
    pub(super) fn asks(&self, request: CancelRequest) -> bool {
        let mut state = self.shared.state.lock();
        match state.calls.get_mut(&self.id) {
            Some(call) if call.ending.is_none() => {
                call.request = Some(request);
                true
            }
            _ => false,
        }
    }

    /// Why the call is being ended, if it is.
    pub(super) fn ending(&self) -> Option<FailureReason> {
        self.shared.state.lock().calls.get(&self.id)?.ending
    }

    /// Stops watching; why the call was being ended, if it was. If it was, a request to cancel may
    /// still be on its way, and the connection must serve nobody else.
    pub(super) fn finish(self) -> Option<FailureReason> {
        self.remove()?.ending
    }

    fn remove(&self) -> Option<Call> {
        self.shared.state.lock().calls.remove(&self.id)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl Shared {
    fn begin(&self, limit: Duration) -> u64 {
        let due = self.clock.now() + limit;
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.calls.insert(
            id,
            Call {
                due,
                ending: None,
                socket: None,
                request: None,
            },
        );
        self.wake_by(&mut state, due);
        id
    }

    fn holds(&self, id: u64, socket: &Arc<TcpStream>) -> bool {
        let mut state = self.state.lock();
        match state.calls.get_mut(&id) {
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
    fn end(self: &Arc<Self>, id: u64) {
        let mut state = self.state.lock();
        if let Some(call) = state
            .calls
            .get_mut(&id)
            .filter(|call| call.ending.is_none())
        {
            self.ask_or_shut(id, call, FailureReason::Cancelled);
            let due = call.due;
            self.wake_by(&mut state, due);
        }
    }

    /// The grace of the caller's cancel is over. Never blocks.
    fn abort(&self, id: u64) {
        let mut state = self.state.lock();
        if let Some(call) = state.calls.get_mut(&id) {
            call.ending.get_or_insert(FailureReason::Cancelled);
            call.shut();
        }
    }

    fn wake_by(&self, state: &mut State, due: Time) {
        if due < state.wakes_at {
            state.wakes_at = due;
            self.changed.notify_one();
        }
    }

    fn watch(self: Arc<Self>) {
        let mut state = self.state.lock();
        while !state.closed {
            let now = self.clock.now();
            state.wakes_at = Time::MAX;
            let mut next = Time::MAX;
            for (id, call) in &mut state.calls {
                if call.due <= now {
                    match call.ending {
                        None => self.ask_or_shut(*id, call, FailureReason::Limit),
                        Some(_) => call.shut(),
                    }
                }
                next = next.min(call.due);
            }
            state.wakes_at = next;
            if next == Time::MAX {
                self.changed.wait(&mut state);
            } else {
                self.changed.wait_for(&mut state, next - now);
            }
        }
    }

    /// The first step: by request if the server runs a query, by force if it does not yet.
    fn ask_or_shut(self: &Arc<Self>, id: u64, call: &mut Call, reason: FailureReason) {
        call.ending = Some(reason);
        let Some(request) = call.request.take() else {
            return call.shut();
        };
        call.due = self.clock.now() + GRACE;
        let shared = Arc::downgrade(self);
        self.housekeeping.execute(move || {
            let under_way = |shared: Arc<Shared>| shared.state.lock().calls.contains_key(&id);
            if shared.upgrade().is_some_and(under_way) {
                request.send();
            }
        });
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

impl CancelRequest {
    /// Whatever comes of it, the socket is shut down next.
    fn send(self) {
        let _ = match self.tls {
            Some(tls) => self.token.cancel_query(tls),
            None => self.token.cancel_query(NoTls),
        };
    }
}

/// Ends every wait for `socket`, at both ends. Never blocks.
pub(super) fn shut(socket: &TcpStream) {
    // It fails if the connection is gone, which is what it is for.
    let _ = socket.shutdown(Shutdown::Both);
}
