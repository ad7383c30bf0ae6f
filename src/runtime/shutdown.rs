//! The end of a runtime: nothing new, what waits is cancelled, what runs is called off.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::actions::Actions;
use super::gate::Gate;
use super::lineage;
use super::partition::{Partition, Shared};
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
    let shared: Vec<_> = partitions
        .iter()
        .map(|partition| &*partition.shared)
        .collect();
    for shared in &shared {
        shared.step(Gate::close);
    }
    let end = crate::time::instant_in(grace);
    let moment = |shared: &Shared| shared.gate.cancel_grace().min(grace / 4);
    let wait_until = |shared: &Shared, before_end: Duration| {
        shared
            .gate
            .wait_idle(end.and_then(|end| end.checked_sub(before_end)))
    };
    for shared in &shared {
        if !wait_until(shared, 2 * moment(shared)) {
            shared.step(Gate::cancel_all);
        }
    }
    for shared in &shared {
        if !wait_until(shared, moment(shared)) {
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
    ShutdownReport { left }
}

fn leftovers(partition: &Partition) -> impl Iterator<Item = Leftover> + use<> {
    let snapshot = partition.snapshot();
    let name = snapshot.partition;
    snapshot.running.into_iter().map(move |call| Leftover {
        partition: Arc::clone(&name),
        call,
    })
}

impl Shared {
    fn step(&self, decide: impl FnOnce(&Gate, &mut Actions)) {
        let mut actions = Actions::default();
        decide(&self.gate, &mut actions);
        self.act(actions);
    }

    /// Lets every thread go that is not stuck inside somebody's code, and waits a moment for those;
    /// not on a thread of its own.
    fn let_go(&self) {
        self.gate.end();
        self.send_exits();
        let stuck = self.gate.occupied();
        if !lineage::contains(self.id) {
            self.alive.wait_for(stuck, JOIN_LIMIT);
        }
    }
}

/// How long a thread that has nothing to do may take to end.
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

    /// Blocks until at most `stuck` threads are left, and at most for `limit`.
    fn wait_for(&self, stuck: u32, limit: Duration) {
        let mut threads = self.threads.lock();
        self.changed
            .wait_while_for(&mut threads, |threads| *threads > stuck as usize, limit);
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        *self.0.threads.lock() -= 1;
        self.0.changed.notify_all();
    }
}
