//! How a scenario is explored, and what it is made of.

use std::sync::Arc;
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{Config, Runner};
use watertight::call::Run;
use watertight::outcome::Failure;
use watertight::telemetry::PartitionSnapshot;
use watertight::time::{Clock, ManualClock};
use watertight::{Partition, PartitionSpec, Runtime};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Runs `scenario` under many schedules: at random, and with few but nasty preemptions.
/// `MODEL_ITERATIONS` says how many of each; defaults to 1,000.
pub(crate) fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let iterations = std::env::var("MODEL_ITERATIONS").ok();
    let iterations = iterations.map_or(1_000, |n| n.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || scenario());
    Runner::new(PctScheduler::new(3, iterations), config).run(move || again());
}

/// One slot, four places to wait.
pub(crate) fn narrow() -> PartitionSpec {
    PartitionSpec::new("search").slots(1).queue(4)
}

pub(crate) fn one(spec: PartitionSpec) -> (Runtime, Partition, ManualClock) {
    let (clock, hand) = Clock::manual();
    let runtime = Runtime::builder().partition(spec).clock(clock);
    let runtime = runtime.build().unwrap();
    let partition = runtime.partition("search").unwrap().clone();
    (runtime, partition, hand)
}

pub(crate) fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

/// Holds up a body until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn wait(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |open| !*open).unwrap());
    }

    /// A body that lasts until it is opened.
    pub(crate) fn body(&self) -> impl FnOnce(&Run) -> Result<(), Failure> + Send + 'static {
        let latch = self.clone();
        move |_: &Run| {
            latch.wait();
            Ok(())
        }
    }
}

/// The two identities that hold at any instant.
pub(crate) fn assert_adds_up(snapshot: &PartitionSnapshot) {
    let g = snapshot.gauges;
    assert_eq!(g.running + g.overdue + g.free, g.slots + g.replaced + g.borrowed);
    let in_hand = u64::from(g.waiting) + u64::from(g.running);
    assert_eq!(snapshot.offered, snapshot.counts.total() + in_hand);
}

/// The next call finds its slot, every slot comes back, and every thread ends.
pub(crate) fn assert_whole(runtime: &Runtime, partition: &Partition) {
    assert!(partition.call(nothing).is_ok());
    assert_ends(runtime);
    let g = partition.snapshot().gauges;
    assert_eq!((g.free, g.replaced), (g.slots, 0));
    assert_adds_up(&partition.snapshot());
}

pub(crate) fn assert_ends(runtime: &Runtime) {
    assert!(runtime.shutdown(Duration::from_secs(3_600)).is_clean());
}
