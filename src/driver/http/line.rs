//! What the thread of a call is blocked in, so that a cancel can end it.
//!
//! ureq has no place for the call in its transports, and keeps connections for later calls. So a
//! call's [`Line`] is found through the thread that works for it, and it knows of a connection only
//! while that thread is blocked in it:
//!
//! - A cancel that comes during the wait shuts the socket down. The wait then fails whatever the
//!   socket said, so that an end brought about by us never passes for the end of a body.
//! - A cancel that comes between waits fails the next one.
//! - A cancel that comes late finds nothing to shut down: the connection may serve another call by
//!   then.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Something a thread can be blocked in, and woken from by another thread.
pub(super) trait Interrupt: Send + Sync {
    /// Ends the wait soon. Never blocks.
    fn interrupt(&self);
}

/// One call, as its connections see it.
#[derive(Default)]
pub(super) struct Line {
    cut: AtomicBool,
    connected: AtomicBool,
    sent: AtomicBool,
    blocked_in: Mutex<Option<Arc<dyn Interrupt>>>,
}

/// The call was cancelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut;

impl Line {
    /// Ends what the call is blocked in, and whatever it would be blocked in later. Never blocks.
    pub(super) fn cut(&self) {
        let blocked_in = self.blocked_in.lock();
        self.cut.store(true, Ordering::SeqCst);
        if let Some(wait) = &*blocked_in {
            wait.interrupt();
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Runs `wait`, which blocks in `on`, unless the call is cancelled before or meanwhile.
    pub(super) fn during<T>(
        &self,
        on: Arc<dyn Interrupt>,
        wait: impl FnOnce() -> T,
    ) -> Result<T, Cut> {
        self.blocked(Some(on))?;
        let result = wait();
        self.blocked(None)?;
        Ok(result)
    }

    fn blocked(&self, on: Option<Arc<dyn Interrupt>>) -> Result<(), Cut> {
        let mut blocked_in = self.blocked_in.lock();
        *blocked_in = on.filter(|_| !self.is_cut());
        if self.is_cut() { Err(Cut) } else { Ok(()) }
    }

    /// Notes that the connection is made, TLS included.
    pub(super) fn set_connected(&self) {
        self.connected.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Notes that bytes of the request are on their way.
    pub(super) fn set_sent(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// Whether the backend may know of the request.
    pub(super) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call was cancelled")
    }
}

impl std::error::Error for Cut {}

impl From<Cut> for ureq::Error {
    fn from(cut: Cut) -> ureq::Error {
        // As an I/O error, ureq could take it for the end of a body.
        ureq::Error::Other(Box::new(cut))
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Line>>> = const { RefCell::new(None) };
}

/// Runs `work` for the call of `line` on this thread.
pub(super) fn enter<T>(line: &Arc<Line>, work: impl FnOnce() -> T) -> T {
    struct Leave(Option<Arc<Line>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _leave = Leave(CURRENT.replace(Some(Arc::clone(line))));
    work()
}

/// The call that this thread works for; one that nobody can cancel if it works for none.
pub(super) fn current() -> Arc<Line> {
    CURRENT.with_borrow(Clone::clone).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Interrupt for Bell {
        fn interrupt(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_cancel_reaches_the_wait_it_comes_in_and_every_later_one() {
        let (line, bell) = (Line::default(), Arc::new(Bell::default()));
        assert_eq!(line.during(bell.clone(), || 1).unwrap(), 1);
        assert!(line.during(bell.clone(), || line.cut()).is_err(), "whatever the wait said");
        assert_eq!(bell.0.load(Ordering::SeqCst), 1);
        assert!(line.during(bell.clone(), || unreachable!("no wait begins")).is_err());
        line.cut();
        assert_eq!(bell.0.load(Ordering::SeqCst), 1, "nothing is blocked any more");
    }

    #[test]
    fn a_late_cancel_finds_nothing() {
        let (line, bell) = (Line::default(), Arc::new(Bell::default()));
        line.during(bell.clone(), || ()).unwrap();
        line.cut();
        assert_eq!((bell.0.load(Ordering::SeqCst), Arc::strong_count(&bell)), (0, 1));
    }

    #[test]
    fn a_thread_works_for_one_call_at_a_time() {
        let line = Arc::new(Line::default());
        enter(&line, || {
            enter(&Arc::default(), || assert!(!Arc::ptr_eq(&current(), &line)));
            assert!(Arc::ptr_eq(&current(), &line));
        });
        assert!(!Arc::ptr_eq(&current(), &line));
    }
}
