//! Partitions, bodies that end when told, and what must hold of a partition at rest.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use watertight::call::Run;
use watertight::outcome::{Executed, Failure};
use watertight::telemetry::PartitionSnapshot;
use watertight::time::{Clock, ManualClock};
use watertight::{Partition, PartitionSpec, Runtime, Ticket};

pub(crate) const MS: Duration = Duration::from_millis(1);
/// Nothing here takes so long; a test that gets here hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// A runtime with one partition, and that partition.
pub(crate) fn one(spec: PartitionSpec) -> (Runtime, Partition) {
    let name = spec.name().to_owned();
    let runtime = Runtime::builder().partition(spec).build().unwrap();
    let partition = runtime.partition(&name).unwrap().clone();
    (runtime, partition)
}

/// The same on a clock of the test's own.
pub(crate) fn one_on_manual_clock(spec: PartitionSpec) -> (Runtime, Partition, ManualClock) {
    let name = spec.name().to_owned();
    let (clock, hand) = Clock::manual();
    let builder = Runtime::builder().partition(spec).clock(clock);
    let runtime = builder.build().unwrap();
    let partition = runtime.partition(&name).unwrap().clone();
    (runtime, partition, hand)
}

/// The test's hold on a body that ends when told.
pub(crate) struct Held {
    begun: Receiver<()>,
    release: Sender<()>,
}

/// A body that ends when it is released, or when its hold is dropped.
pub(crate) fn held() -> (Held, impl FnOnce(&Run) -> Result<(), Failure> + Send + 'static) {
    let (begins, begun) = bounded(1);
    let (release, released) = bounded::<()>(1);
    let body = move |_: &Run| {
        begins.send(()).unwrap();
        let _ = released.recv();
        Ok(())
    };
    (Held { begun, release }, body)
}

impl Held {
    /// Blocks until the body runs.
    #[track_caller]
    pub(crate) fn wait_begun(&self) {
        self.begun.recv_timeout(HANG).expect("the body never ran");
    }

    /// Whether the body has begun, or else never can.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.try_recv().is_ok()
    }

    /// Lets the body end.
    pub(crate) fn release(self) {
        let _ = self.release.send(());
    }
}

/// Submits a body that is held, and lets it go on without a ticket.
#[track_caller]
pub(crate) fn occupy(partition: &Partition) -> Held {
    let (held, body) = held();
    partition.submit(body).detach();
    held.wait_begun();
    held
}

/// Fails if `holds` does not come true.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + HANG;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        thread::park_timeout(MS);
    }
}

/// Runs `f` on a thread of its own, and fails if it does not end.
#[track_caller]
pub(crate) fn ends<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, ended) = bounded(1);
    thread::spawn(move || done.send(f()));
    ended.recv_timeout(HANG).unwrap_or_else(|_| panic!("hangs or panics: {what}"))
}

/// The two identities that hold at any instant.
#[track_caller]
pub(crate) fn assert_adds_up(snapshot: &PartitionSnapshot) {
    let g = snapshot.gauges;
    let seen = g.running + g.overdue + g.free;
    assert_eq!(seen, g.slots + g.replaced + g.borrowed, "{g:?}");
    let in_hand = u64::from(g.waiting) + u64::from(g.running);
    let accounted = snapshot.counts.total() + in_hand;
    assert_eq!(snapshot.offered, accounted, "{g:?} {:?}", snapshot.counts);
}

/// Waits until nobody holds a slot, then shows that every slot still has a thread to run it: as
/// many calls as there are slots run at once.
#[track_caller]
pub(crate) fn assert_whole(partition: &Partition) {
    until("all slots are free", || {
        let snapshot = partition.snapshot();
        assert_adds_up(&snapshot);
        let g = snapshot.gauges;
        g.free == g.slots && g.waiting == 0 && g.replaced == 0 && snapshot.asleep == 0
    });
    let (begins, begun) = bounded(partition.spec().capacity() as usize);
    let released = Arc::new(std::sync::Barrier::new(slots(partition) as usize + 1));
    let submit = || {
        let (begins, released) = (begins.clone(), Arc::clone(&released));
        partition.submit(move |_: &Run| {
            begins.send(()).unwrap();
            released.wait();
            Ok(())
        })
    };
    let mut tickets: Vec<_> = (0..slots(partition)).map(|_| Some(submit())).collect();
    until("as many calls as there are slots run at once", || {
        for ticket in &mut tickets {
            // A busy machine may take longer to begin it than it may run.
            if let Some(over) = ticket.take_if(|ticket| ticket.is_finished())
                && over.wait().executed() == Executed::No
            {
                *ticket = Some(submit());
            }
        }
        begun.len() == tickets.len()
    });
    tickets.into_iter().flatten().for_each(Ticket::detach);
    released.wait();
    until("all slots are free again", || {
        let g = partition.snapshot().gauges;
        g.free == g.slots
    });
}

fn slots(partition: &Partition) -> u32 {
    partition.snapshot().gauges.slots
}
