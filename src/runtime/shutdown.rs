//! The end of a runtime: nothing new, what waits is cancelled, what runs is called off.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::lineage;
use super::partition::{Partition, Shared};
use super::sync::{Condvar, Mutex};
use crate::telemetry::RunningCall;

/// What was still there when the grace was over.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Calls that still hold a slot: their bodies have not returned.
    pub left: Vec<Leftover>,
}

/// A call that outlived its runtime.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leftover {
    /// Its partition.
    pub partition: Arc<str>,
    /// The call.
    pub call: RunningCall,
}

impl ShutdownReport {
    /// Whether everything has ended.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

/// Ends `partitions` within `grace`: what waits is cancelled at once; what runs may go on until
/// shortly before the end of the grace, is then called off, and a moment later ended by force.
pub(super) fn shutdown(partitions: &[Partition], grace: Duration) -> ShutdownReport {
    let shared: Vec<_> = partitions.iter().map(|partition| &*partition.shared).collect();
    for shared in &shared {
        shared.step(Gate::close);
    }
    // One moment for all: a partition that hangs must not use up another's.
    let graces = shared.iter().map(|shared| shared.spec.policy.cancel_grace);
    let moment = graces.max().unwrap_or_default().min(grace / 4);
    let end = crate::time::instant_in(grace);
    let wait_until = |shared: &Shared, before_end: Duration| {
        shared.gate.wait_idle(end.and_then(|end| end.checked_sub(before_end)))
    };
    for shared in &shared {
        if !wait_until(shared, 2 * moment) {
            shared.step(Gate::cancel_all);
        }
    }
    for shared in &shared {
        if !wait_until(shared, moment) {
            shared.step(Gate::abort_all);
        }
    }
    for shared in &shared {
        wait_until(shared, Duration::ZERO);
    }
    let left = partitions.iter().flat_map(leftovers).collect();
    for shared in &shared {
        shared.let_go();
    }
    let joined = crate::time::instant_in(JOIN_LIMIT);
    for shared in &shared {
        shared.join(joined);
    }
    ShutdownReport { left }
}

fn leftovers(partition: &Partition) -> impl Iterator<Item = Leftover> + use<> {
    let snapshot = partition.snapshot();
    let name = snapshot.partition;
    snapshot.running.into_iter().map(move |call| Leftover { partition: Arc::clone(&name), call })
}

impl Shared {
    /// Lets every thread go that is not stuck inside somebody's code.
    fn let_go(&self) {
        self.gate.end();
        self.send_exits();
    }

    /// Waits for those threads until `until`; not on a thread of its own.
    fn join(&self, until: Option<Instant>) {
        if !lineage::contains(self.id) {
            self.alive.wait_for(self.gate.occupied(), until);
        }
    }
}

/// How long threads that have nothing to do may take to end, all told.
const JOIN_LIMIT: Duration = Duration::from_millis(100);

/// How many threads a partition still has.
#[derive(Default)]
pub(super) struct Alive {
    threads: Mutex<usize>,
    changed: Condvar,
}

/// Counts one thread for as long as it lives.
pub(super) struct Life(Arc<Alive>);

impl Alive {
    pub(super) fn begin(self: &Arc<Alive>) -> Life {
        *self.threads.lock() += 1;
        Life(Arc::clone(self))
    }

    /// Blocks until at most `stuck` threads are left, or until `until`.
    fn wait_for(&self, stuck: u32, until: Option<Instant>) {
        let mut threads = self.threads.lock();
        while *threads > stuck as usize && !until.is_some_and(crate::time::is_past) {
            threads = self.changed.wait(threads, until);
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        *self.0.threads.lock() -= 1;
        self.0.changed.notify_all();
    }
}
