//! The rate limit against its definition: among the calls let through and not given back, no run of
//! them is denser than burst and rate allow.

use proptest::prelude::*;
use watertight::resilience::rate::{Cell, Per, Rate, RateLimit};
use watertight::time::Time;

use crate::{at, explore, ms, random_histories};

/// 20/s: an interval of 50 ms.
const INTERVAL: u64 = 50;

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    Admit,
    /// Of those kept, so many before the newest.
    GiveBack(usize),
}

/// A rate limit and the times of all calls that it let through.
#[derive(Clone)]
struct World {
    now: u64,
    limit: RateLimit,
    burst: u64,
    kept: Vec<(u64, Cell)>,
    /// Whether a call was given back that was not the newest: then the limit may be stricter than
    /// its definition, never laxer.
    strict: bool,
}

impl World {
    fn new(burst: u32) -> World {
        let rate = Rate::new(20, Per::Second).expect("sensible");
        World {
            now: 0,
            limit: RateLimit::new(rate, burst).expect("sensible"),
            burst: u64::from(burst),
            kept: Vec::new(),
            strict: false,
        }
    }

    /// The earliest time at which one more call keeps to the definition: counted from each call
    /// that was let through, the calls up to the new one must fit into the burst and the time.
    fn earliest(&self) -> u64 {
        let calls = self.kept.len() as u64;
        let from = |(index, (at, _)): (usize, &(u64, Cell))| {
            at + (calls - index as u64 + 1).saturating_sub(self.burst) * INTERVAL
        };
        self.kept.iter().enumerate().map(from).max().unwrap_or(0)
    }

    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Advance(millis) => self.now += millis,
            Step::Admit => self.admit(),
            Step::GiveBack(before) if before >= self.kept.len() => return false,
            Step::GiveBack(before) => self.give_back(self.kept.len() - 1 - before),
        }
        true
    }

    fn admit(&mut self) {
        let earliest = self.earliest();
        match self.limit.admit(at(self.now)) {
            Ok(cell) => {
                assert!(self.now >= earliest, "let through at {}, not {earliest}", self.now);
                self.kept.push((self.now, cell));
            }
            Err(after) if self.strict => assert!(at(self.now) + after.get() >= at(earliest)),
            Err(after) => assert_eq!(at(self.now) + after.get(), at(earliest)),
        }
    }

    fn give_back(&mut self, index: usize) {
        self.strict |= index + 1 != self.kept.len();
        let left = |limit: &RateLimit| limit.clone().admit(at(self.now)).err();
        let before = left(&self.limit);
        self.limit.give_back(self.kept.remove(index).1);
        assert!(left(&self.limit) <= before, "nobody waits longer for it");
    }
}

const STEPS: [Step; 7] = [
    Step::Advance(20),
    Step::Advance(50),
    Step::Advance(130),
    Step::Admit,
    Step::GiveBack(0),
    Step::GiveBack(1),
    Step::GiveBack(2),
];

#[test]
fn every_short_history() {
    for burst in 1..=4 {
        let histories = explore(&World::new(burst), &STEPS, 8, &|world, step| {
            let mut next = world.clone();
            next.step(step).then_some(next)
        });
        assert!(histories > 10_000, "only {histories} histories");
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..90_u64).prop_map(Step::Advance),
        1 => (90..900_u64).prop_map(Step::Advance),
        12 => Just(Step::Admit),
        2 => Just(Step::GiveBack(0)),
        2 => (1..9_usize).prop_map(Step::GiveBack),
    ]
}

proptest! {
    #![proptest_config(random_histories())]

    #[test]
    fn long_histories(burst in 1..30_u32, steps in prop::collection::vec(any_step(), 1..300)) {
        let mut world = World::new(burst);
        for step in steps {
            world.step(step);
        }
    }
}

fn twenty_a_second(burst: u32) -> RateLimit {
    RateLimit::new("20/s".parse().expect("a rate"), burst).expect("a burst")
}

#[test]
fn calls_of_one_burst_given_back_count_in_full() {
    let mut limit = twenty_a_second(3);
    let burst = |limit: &mut RateLimit| {
        let cells = [(); 3].map(|()| limit.admit(at(1000)).expect("burst"));
        assert_eq!(limit.admit(at(1000)).expect_err("full").get(), ms(50));
        cells
    };
    for _ in 0..1000 {
        burst(&mut limit).into_iter().for_each(|cell| limit.give_back(cell));
        burst(&mut limit).into_iter().rev().for_each(|cell| limit.give_back(cell));
    }
    burst(&mut limit);
}

#[test]
fn a_call_given_back_when_its_interval_is_over_counts_no_more() {
    let mut limit = twenty_a_second(1);
    let lapsed = limit.admit(at(0)).expect("first");
    limit.admit(at(60)).expect("second");
    limit.give_back(lapsed);
    assert_eq!(limit.admit(at(60)).expect_err("a third at once").get(), ms(50));
}

/// A vendor that answers 429 above two in flight, calls of 100 ms, callers every millisecond: with
/// the rate that the vendor can stand it never answers 429, and it gets all it can stand.
#[test]
fn a_vendor_sees_at_most_the_stated_rate() {
    let mut limit = twenty_a_second(1);
    let mut starts: Vec<u64> = Vec::new();
    for now in 0..60_000 {
        if limit.admit(at(now)).is_ok() {
            let in_flight = starts.iter().rev().take_while(|start| **start + 100 > now).count();
            assert!(in_flight < 2, "{in_flight} in flight at {now} ms");
            starts.push(now);
        }
    }
    assert_eq!(starts.len(), 1200);
}

#[test]
fn rates_that_do_not_divide_a_second_are_never_exceeded() {
    for (text, span_ns, calls) in [
        ("7/s", 1_000_000_000_u64, 7),
        ("3/s", 1_000_000_000, 3),
        ("100/min", 60_000_000_000, 100),
        ("11/h", 3_600_000_000_000, 11),
        ("13/d", 86_400_000_000_000, 13),
    ] {
        let rate: Rate = text.parse().expect("a rate");
        assert_eq!(rate.to_string(), text);
        let mut limit = RateLimit::new(rate, 1).expect("fine");
        let mut now = Time::ZERO;
        for _ in 0..calls {
            limit.admit(now).expect("due");
            now = now + limit.admit(now).expect_err("the next is not").get();
        }
        let spent = now.as_nanos();
        assert!(spent >= span_ns && spent < span_ns + 1000, "{text}: {calls} in {spent} ns");
    }
}

/// Two threads read the clock and took the lock in the other order.
#[test]
fn a_time_a_little_older_does_no_harm() {
    let mut limit = twenty_a_second(2);
    limit.admit(at(1000)).expect("first");
    limit.admit(at(999)).expect("second");
    assert_eq!(limit.admit(at(998)).expect_err("third").get(), ms(50));
}
