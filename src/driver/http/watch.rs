//! Ends the streams that nobody reads.
//!
//! A stream that is being read ends by its own limits. One whose consumer has gone to do something
//! else has no thread to end it: so there is one, a partition, while there are streams.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::line::Line;
use super::open_body::OpenBody;
use crate::outcome::Failure;
use crate::time::{Clock, Time};

/// The streams of one partition, and the thread that watches them.
pub(super) struct Watch {
    thread_name: String,
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bodies: Vec<Weak<OpenBody>>,
    running: bool,
}

impl Watch {
    pub(super) fn new(thread_name: String) -> Watch {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Watch { thread_name, clock: Clock::system(), state, changed }
    }

    /// A body of a stream that ends by `limit` from now; not watched yet.
    pub(super) fn body(
        &self,
        line: Arc<Line>,
        limit: Duration,
        idle_max: Duration,
    ) -> Arc<OpenBody> {
        Arc::new(OpenBody::new(line, self.clock.clone(), limit, idle_max))
    }

    /// Watches `body` until it has ended.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub(super) fn add(self: &Arc<Watch>, body: &Arc<OpenBody>) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if !state.running {
            let watch = Arc::clone(self);
            thread::Builder::new().name(self.thread_name.clone()).spawn(move || watch.run())?;
            state.running = true;
        }
        state.bodies.push(Arc::downgrade(body));
        self.changed.notify_one();
        Ok(())
    }

    /// A body may have ended.
    pub(super) fn look_again(&self) {
        let _state = self.state.lock();
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let now = self.clock.now();
            let (due, next) = state.sort(now);
            if !due.is_empty() {
                MutexGuard::unlocked(&mut state, || due.iter().for_each(|body| body.expire(now)));
            } else if state.bodies.is_empty() {
                state.running = false;
                return;
            } else {
                self.changed.wait_for(&mut state, next - now);
            }
        }
    }
}

impl State {
    /// Forgets the bodies that have ended; those that are due at `now`, and when the next is.
    fn sort(&mut self, now: Time) -> (Vec<Arc<OpenBody>>, Time) {
        let (mut due, mut next) = (Vec::new(), Time::MAX);
        self.bodies.retain(|known| {
            let Some(body) = known.upgrade() else {
                return false;
            };
            let Some(at) = body.due(now) else {
                return false;
            };
            if at <= now {
                due.push(body);
            } else {
                next = next.min(at);
            }
            true
        });
        (due, next)
    }
}
