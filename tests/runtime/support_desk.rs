//! A customer-support agent on a manual clock: an LLM behind 40 slots, a knowledge-base search
//! behind 15, an orders database behind 20. The search goes from 60 ms to 25 s, with a limit of 5 s.

use std::time::Duration;

use watertight::call::Run;
use watertight::outcome::{Failure, Status};
use watertight::resilience::breaker::{self, State};
use watertight::time::{Clock, ManualClock};
use watertight::{Partition, PartitionSpec, Runtime, Ticket};

use crate::support::{HANG, assert_adds_up, until};

const SECOND: Duration = Duration::from_secs(1);
/// Searches that come in a second.
const SEARCHES: usize = 20;

fn spec(name: &'static str, slots: u32) -> PartitionSpec {
    let spec = PartitionSpec::new(name).slots(slots).queue(0).max_wait(Duration::ZERO);
    spec.run_limit(5 * SECOND).cancel_grace(Duration::ZERO)
}

fn with_breaker(spec: PartitionSpec) -> PartitionSpec {
    spec.breaker(breaker::Policy { cool_down_jitter: 0.0, ..breaker::Policy::default() })
}

fn answers(_: &Run) -> Result<(), Failure> {
    Ok(())
}

/// Takes longer than it is given.
fn degraded(run: &Run) -> Result<(), Failure> {
    run.cancel_token().wait(HANG);
    Ok(())
}

/// Partitions by name: `llm`, `search`, `orders`.
struct Desk {
    _runtime: Runtime,
    partitions: [Partition; 3],
    hand: ManualClock,
}

impl Desk {
    fn new(specs: Vec<PartitionSpec>, names: [&str; 3]) -> Desk {
        let (clock, hand) = Clock::manual();
        let builder = Runtime::builder().clock(clock);
        let builder = specs.into_iter().fold(builder, watertight::Builder::partition);
        let runtime = builder.build().unwrap();
        let partitions = names.map(|name| runtime.partition(name).unwrap().clone());
        Desk { _runtime: runtime, partitions, hand }
    }

    fn search(&self) -> &Partition {
        &self.partitions[1]
    }

    /// A second's worth of searches, each of which takes too long.
    fn searches(&self) -> Vec<Ticket<()>> {
        (0..SEARCHES).map(|_| self.search().submit(degraded)).collect()
    }

    /// Whether the LLM and the orders answer, without a wait.
    fn others_answer(&self) -> bool {
        [&self.partitions[0], &self.partitions[2]].into_iter().all(|partition| {
            let outcome = partition.call(answers);
            outcome.is_ok() && outcome.timing.waited.is_zero()
        })
    }
}

fn count(tickets: Vec<Ticket<()>>, status: Status) -> usize {
    let outcomes = tickets.into_iter().map(Ticket::wait);
    outcomes.filter(|outcome| outcome.status() == status).count()
}

#[test]
fn a_slow_search_costs_the_search_and_one_probe_brings_it_back() {
    let search = with_breaker(spec("search", 15));
    let specs = vec![with_breaker(spec("llm", 40)), search, with_breaker(spec("orders", 20))];
    let desk = Desk::new(specs, ["llm", "search", "orders"]);
    assert!(desk.others_answer() && desk.search().call(answers).is_ok());

    // Its slots fill; what comes after is refused at once, and the breaker makes nothing of it.
    let mut first = desk.searches();
    let refused = first.split_off(15);
    assert!(refused.iter().all(Ticket::is_finished));
    assert_eq!(count(refused, Status::Busy), SEARCHES - 15);
    for _ in 0..4 {
        desk.hand.advance(SECOND);
        assert_eq!(count(desk.searches(), Status::Busy), SEARCHES);
        assert!(desk.others_answer());
    }
    assert_eq!(desk.search().snapshot().breaker.unwrap().state, State::Closed);

    // The limit answers those fifteen, and that opens it: from now on no slot is taken.
    desk.hand.advance(SECOND);
    assert_eq!(count(first, Status::Timeout), 15);
    until("the slots are free", || desk.search().snapshot().gauges.free == 15);
    let begun = desk.search().snapshot();
    for left in (1..=5).rev() {
        let refused = desk.search().call(answers);
        assert_eq!(refused.retry_after(), Some(left * SECOND));
        assert_eq!(count(desk.searches(), Status::CircuitOpen), SEARCHES);
        assert!(desk.others_answer());
        desk.hand.advance(SECOND);
    }
    let refused = desk.search().snapshot();
    assert_eq!(refused.counts.busy(), begun.counts.busy());
    assert_eq!(refused.counts.total() - begun.counts.total(), 5 * (SEARCHES as u64 + 1));
    assert_eq!(refused.counts.total() - begun.counts.total(), refused.counts.circuit_open);

    // It has recovered: one probe closes it.
    assert!(desk.search().call(answers).is_ok());
    assert_eq!(desk.search().snapshot().breaker.unwrap().state, State::Closed);
    assert!(desk.search().call(answers).is_ok() && desk.others_answer());
    desk.partitions.iter().map(Partition::snapshot).for_each(|seen| assert_adds_up(&seen));
}

/// The same load on one pool of as many slots.
#[test]
fn on_a_shared_pool_a_slow_search_stops_everything() {
    let desk = Desk::new(vec![spec("shared", 75)], ["shared"; 3]);
    assert!(desk.others_answer());
    let mut searches = Vec::new();
    for second in 0..4 {
        searches.extend(desk.searches());
        assert_eq!(desk.others_answer(), second < 3, "the pool is full after 75 searches");
        desk.hand.advance(SECOND);
    }
    let outcome = desk.partitions[0].call(answers);
    assert_eq!(outcome.status(), Status::Busy, "the LLM is stopped by the search");
    assert_eq!(desk.partitions[2].call(answers).status(), Status::Busy, "and so are the orders");
    drop(searches);
}
