//! Permits: the caller's own thread does the work, inside the partition's bounds.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cell::Said;
use super::lineage;
use super::partition::Shared;
use super::sync::{Condvar, Mutex};
use crate::admission::SlotId;
use crate::outcome::{CallError, Timing};
use crate::resilience::breaker::Ended;

/// What a permit's waiter is told.
pub(crate) type Granted = Result<(SlotId, Duration), (CallError, Timing)>;

/// A thread that waits for a permit; one a thread, used again for its next permit.
#[derive(Default)]
pub(crate) struct Waiter {
    granted: Mutex<Option<Granted>>,
    changed: Condvar,
}

impl Waiter {
    pub(super) fn grant(&self, granted: Granted) {
        *self.granted.lock() = Some(granted);
        self.changed.notify_all();
    }

    /// What was granted; `None` if nothing is by `until`.
    pub(super) fn wait(&self, until: Option<Instant>) -> Option<Granted> {
        let mut granted = self.granted.lock();
        loop {
            if granted.is_some() || until.is_some_and(crate::time::is_past) {
                return granted.take();
            }
            granted = self.changed.wait(granted, until);
        }
    }
}

/// The right to work inside a partition on this thread; dropping it gives the slot back, while
/// unwinding, too.
///
/// A permit bounds how much runs at once. It cannot end the work: the runtime has no hold on this
/// thread, so bring your own time-outs ([`Permit::limit`] says how long a run may take).
#[must_use = "dropping the permit gives the slot back"]
pub struct Permit {
    shared: Arc<Shared>,
    slot: SlotId,
    waited: Duration,
    failed: bool,
    _inside: lineage::Inside,
    /// A permit marks its thread as inside the partition, so it stays there.
    not_send: PhantomData<*const ()>,
}

impl Permit {
    #[inline]
    pub(super) fn new(shared: Arc<Shared>, slot: SlotId, waited: Duration) -> Permit {
        let inside = lineage::enter(shared.id);
        Permit { shared, slot, waited, failed: false, _inside: inside, not_send: PhantomData }
    }

    /// How long it took to get.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The longest the work is meant to take: the partition's `run_limit`.
    pub fn limit(&self) -> Duration {
        self.shared.spec.policy.run_limit
    }

    /// Gives the slot back before the end of the scope.
    pub fn release(self) {}

    /// Gives the slot back, and has the breaker count the work as failed. A permit that is dropped
    /// counts as work that went well, unless its thread is panicking.
    pub fn fail(mut self) {
        self.failed = true;
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let failed = self.failed || std::thread::panicking();
        let backend = Some(if failed { Ended::Failed } else { Ended::Ok });
        let said = Said { backend, pause: None };
        self.shared.step(|gate, actions| gate.finish_permit(self.slot, said, actions));
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("partition", &self.shared.name).finish_non_exhaustive()
    }
}
