//! Work that cannot be interrupted and is done on another thread: its call waits no longer than it
//! may, and leaves it behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Sender, bounded};

use crate::call::Run;
use crate::driver::sql::ended;
use crate::outcome::{Executed, Failure, FailureReason};

/// Has `begin` begin the work, and waits for what it replies: at most until the run's limit or its
/// cancel.
pub(super) fn wait_for<T: Send + 'static>(
    run: &Run,
    begin: impl FnOnce(Reply<T>) -> Result<(), Failure>,
) -> Result<T, Failure> {
    let (send, replied) = bounded(2);
    let cancelled = send.clone();
    let _hook = run.cancel_token().on_cancel(move || drop(cancelled.try_send(None)));
    begin(Reply(send))?;
    match replied.recv_timeout(run.remaining()) {
        Ok(Some(reply)) => Ok(reply),
        Ok(None) => Err(ended(FailureReason::Cancelled, Executed::No)),
        Err(_) => Err(ended(FailureReason::Limit, Executed::No)),
    }
}

/// Where the work's result goes, whether anybody waits for it or not.
pub(super) struct Reply<T>(Sender<Option<T>>);

impl<T> Reply<T> {
    pub(super) fn send(self, result: T) {
        let _ = self.0.try_send(Some(result));
    }
}

/// One of a bounded number of things that may outlast the call that began them.
pub(super) struct Claim(Arc<AtomicUsize>);

impl Claim {
    pub(super) fn take(open: &Arc<AtomicUsize>, max: usize) -> Option<Claim> {
        let claim = Claim(Arc::clone(open));
        (open.fetch_add(1, Ordering::SeqCst) < max).then_some(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
