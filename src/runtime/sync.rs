//! The lock and the condition variable of gate and ticket: parking_lot's, or, under
//! `--cfg watertight_model`, shuttle's, which explores their interleavings.

#[cfg(not(watertight_model))]
pub(crate) use plain::{Condvar, Mutex};
#[cfg(not(watertight_model))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

#[cfg(watertight_model)]
pub(crate) use explored::{Condvar, Mutex};
#[cfg(watertight_model)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

#[cfg(not(watertight_model))]
mod plain {
    use std::time::Instant;

    pub(crate) use parking_lot::Mutex;
    use parking_lot::MutexGuard;

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
    use std::time::Instant;

    use shuttle::sync::MutexGuard;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("nothing panics under this lock")
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
            self.0.wait(guard).expect("nothing panics under this lock")
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
