//! What the runtime's threads share and block on: parking_lot's locks, crossbeam's channels and
//! the system's threads, or, under `--cfg watertight_model`, shuttle's, which explores their
//! interleavings.

pub(crate) use crossbeam_channel::TrySendError;
#[cfg(not(watertight_model))]
pub(crate) use plain::{
    Builder, Condvar, Mutex, MutexGuard, Receiver, Sender, bounded, thread_local,
};
#[cfg(not(watertight_model))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

#[cfg(watertight_model)]
pub(crate) use explored::{
    Builder, Condvar, Mutex, MutexGuard, Receiver, Sender, bounded, thread_local,
};
#[cfg(watertight_model)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

#[cfg(not(watertight_model))]
mod plain {
    use std::time::Instant;

    pub(crate) use crossbeam_channel::{Receiver, Sender, bounded};
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::thread::Builder;
    pub(crate) use std::thread_local;

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Parks until notified, or until `until`; `None`: for as long as it takes.
        pub(crate) fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            until: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            match until {
                Some(until) => {
                    self.0.wait_until(&mut guard, until);
                }
                None => self.0.wait(&mut guard),
            }
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(watertight_model)]
mod explored {
    use std::collections::VecDeque;
    use std::sync::{Arc, PoisonError};
    use std::time::Instant;

    use crossbeam_channel::TrySendError;

    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::thread::Builder;
    pub(crate) use shuttle::thread_local;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        /// Parks until notified: a model drives time through the manual clock, never by waiting.
        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _until: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A bounded channel, as much of one as the runtime uses.
    pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let state = State { queue: VecDeque::new(), open: true, receivers: 1 };
        let state = Mutex::new(state);
        let channel = Arc::new(Channel { capacity, state, changed: Condvar::default() });
        (Sender(Arc::clone(&channel)), Receiver(channel))
    }

    struct Channel<T> {
        capacity: usize,
        state: Mutex<State<T>>,
        changed: Condvar,
    }

    struct State<T> {
        queue: VecDeque<T>,
        /// Whether more can be sent.
        open: bool,
        receivers: usize,
    }

    pub(crate) struct Sender<T>(Arc<Channel<T>>);

    pub(crate) struct Receiver<T>(Arc<Channel<T>>);

    impl<T> Sender<T> {
        pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
            let mut state = self.0.state.lock();
            if state.receivers == 0 {
                return Err(TrySendError::Disconnected(message));
            }
            if state.queue.len() == self.0.capacity {
                return Err(TrySendError::Full(message));
            }
            state.queue.push_back(message);
            self.0.changed.notify_all();
            Ok(())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.0.state.lock().open = false;
            self.0.changed.notify_all();
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
            std::iter::from_fn(|| self.0.state.lock().queue.pop_front())
        }

        pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
            std::iter::from_fn(|| {
                let mut state = self.0.state.lock();
                loop {
                    if let Some(message) = state.queue.pop_front() {
                        return Some(message);
                    }
                    if !state.open {
                        return None;
                    }
                    state = self.0.changed.wait(state, None);
                }
            })
        }
    }

    impl<T> Clone for Receiver<T> {
        fn clone(&self) -> Receiver<T> {
            self.0.state.lock().receivers += 1;
            Receiver(Arc::clone(&self.0))
        }
    }

    impl<T> Drop for Receiver<T> {
        /// What was sent and is received by nobody is dropped with the last receiver.
        fn drop(&mut self) {
            let mut state = self.0.state.lock();
            state.receivers -= 1;
            if state.receivers == 0 {
                let left = std::mem::take(&mut state.queue);
                drop(state);
                drop(left);
            }
        }
    }
}
