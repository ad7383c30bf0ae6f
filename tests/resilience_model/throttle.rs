//! Throttling by the backend against a model that keeps every pause asked for.

use std::time::Duration;

use proptest::prelude::*;
use watertight::resilience::RetryAfter;
use watertight::resilience::breaker::{self, Admit, Breaker, State};
use watertight::resilience::throttle::{Policy, Throttle};
use watertight::time::Time;

use crate::{at, explore, ms, random_histories};

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    Shut(Option<u64>),
    Quota(u64, u64),
    Open,
}

#[derive(Clone)]
struct World {
    now: u64,
    throttle: Throttle,
    /// When each pause ends.
    pauses: Vec<u64>,
}

const CAP: u64 = 5000;
const DEFAULT: u64 = 400;

impl World {
    fn new() -> World {
        let policy = Policy { throttle_max: ms(CAP), throttle_default: ms(DEFAULT) };
        World { now: 0, throttle: Throttle::new(policy), pauses: Vec::new() }
    }

    fn left(&self) -> Option<Duration> {
        let end = self.pauses.iter().copied().filter(|end| *end > self.now).max()?;
        Some(ms(end - self.now))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Advance(millis) => self.now += millis,
            Step::Shut(asked) => {
                self.pauses.push(self.now + asked.unwrap_or(DEFAULT).min(CAP));
                let hint = self.throttle.shut(at(self.now), asked.map(ms)).get();
                assert_eq!(hint, self.left().unwrap_or(ms(1)));
            }
            Step::Quota(remaining, reset) => {
                let shuts = remaining == 0 && reset > 0;
                if shuts {
                    self.pauses.push(self.now + reset.min(CAP));
                }
                let hint = self.throttle.quota(at(self.now), remaining, ms(reset));
                assert_eq!(hint.map(RetryAfter::get), self.left().filter(|_| shuts));
            }
            Step::Open => {
                self.throttle.open();
                self.pauses.clear();
            }
        }
        let refused = self.throttle.admit(at(self.now)).err().map(RetryAfter::get);
        assert_eq!(refused, self.left());
    }
}

#[test]
fn every_short_history() {
    let steps = [
        Step::Advance(150),
        Step::Advance(3000),
        Step::Shut(None),
        Step::Shut(Some(0)),
        Step::Shut(Some(300)),
        Step::Shut(Some(86_400_000)),
        Step::Quota(0, 2000),
        Step::Quota(0, 0),
        Step::Quota(1, 2000),
        Step::Open,
    ];
    let histories = explore(&World::new(), &steps, 6, &|world, step| {
        let mut next = world.clone();
        next.step(step);
        Some(next)
    });
    assert_eq!(histories, 1_000_000);
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2000_u64).prop_map(Step::Advance),
        3 => prop::option::of(0..10_000_u64).prop_map(Step::Shut),
        3 => (0..3_u64, 0..10_000_u64).prop_map(|(left, reset)| Step::Quota(left, reset)),
        1 => Just(Step::Open),
    ]
}

proptest! {
    #![proptest_config(random_histories())]

    #[test]
    fn long_histories(steps in prop::collection::vec(any_step(), 1..300)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
    }
}

#[test]
fn a_vendor_cannot_shut_the_door_for_a_day() {
    let mut throttle = Throttle::new(Policy::default());
    let day = Duration::from_secs(86_400);
    assert_eq!(throttle.shut(at(0), Some(day)).get(), ms(60_000));
    assert!(throttle.admit(at(59_999)).is_err());
    assert!(throttle.admit(at(60_000)).is_ok());
    assert_eq!(throttle.quota(at(60_000), 0, day).map(RetryAfter::get), Some(ms(60_000)));
}

#[test]
fn ten_answers_429_shut_the_door_and_leave_the_breaker_alone() {
    let mut throttle = Throttle::new(Policy::default());
    let mut breaker = Breaker::new(breaker::Policy::default()).expect("sensible");
    let calls: Vec<_> = (0..10).map(|_| breaker.admit(at(0), ms(30_000))).collect();
    for call in calls {
        let Admit::Pass(epoch) = call else { panic!("expected to pass, got {call:?}") };
        breaker.give_back(epoch);
        throttle.shut(at(5), Some(ms(2000)));
    }
    let snapshot = breaker.snapshot(at(5));
    assert_eq!((snapshot.state, snapshot.calls), (State::Closed, 0));
    assert_eq!(throttle.admit(at(5)).expect_err("shut").get(), ms(2000));
    assert!(throttle.admit(at(2005)).is_ok());
}

#[test]
fn never_means_never_and_always_always() {
    let never = Policy { throttle_max: Duration::ZERO, ..Policy::default() };
    let mut throttle = Throttle::new(never);
    throttle.shut(at(0), Some(ms(60_000)));
    throttle.shut(at(0), None);
    assert!(throttle.admit(at(0)).is_ok());

    let always = Policy { throttle_max: Duration::MAX, throttle_default: Duration::ZERO };
    let mut throttle = Throttle::new(always);
    throttle.shut(at(0), None);
    assert!(throttle.admit(at(0)).is_ok(), "no pause unless the backend says how long");
    throttle.shut(at(0), Some(Duration::from_secs(86_400)));
    assert_eq!(throttle.admit(at(0)).expect_err("shut").get(), Duration::from_secs(86_400));
    throttle.shut(at(0), Some(Duration::MAX));
    assert!(throttle.admit(Time::from_nanos(u64::MAX - 1)).is_err());
}
