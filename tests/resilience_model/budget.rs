//! The retry budget against a model that keeps every attempt.

use std::time::Duration;

use proptest::prelude::*;
use watertight::resilience::budget::{Budget, Policy};
use watertight::time::Time;

use crate::{at, explore, ms, random_histories, tenth};

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    First,
    Schedule,
    Start,
    Cancel,
}

/// A budget, and every first attempt and every retry that was started.
#[derive(Clone)]
struct World {
    now: Time,
    budget: Budget,
    policy: Policy,
    first: Vec<Time>,
    started: Vec<Time>,
    sleeping: u64,
}

impl World {
    fn new(policy: Policy) -> World {
        World {
            now: Time::ZERO,
            budget: Budget::new(policy).expect("sensible"),
            policy,
            first: Vec::new(),
            started: Vec::new(),
            sleeping: 0,
        }
    }

    fn recent(&self, times: &[Time]) -> u64 {
        let span = self.policy.window;
        let recent = |time: &&Time| tenth(**time, span) + 10 > tenth(self.now, span);
        times.iter().filter(recent).count() as u64
    }

    fn allowed(&self) -> u64 {
        let floor = f64::from(self.policy.floor) * self.policy.window.as_secs_f64();
        (floor + self.policy.ratio * self.recent(&self.first) as f64) as u64
    }

    /// Makes a step in both and compares them; `false` if it makes no sense here.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Advance(millis) => self.now = self.now + ms(millis),
            Step::First => {
                self.budget.first_attempt(self.now);
                self.first.push(self.now);
            }
            Step::Schedule => {
                let room = self.recent(&self.started) + self.sleeping < self.allowed();
                assert_eq!(self.budget.schedule(self.now), room);
                self.sleeping += u64::from(room);
            }
            Step::Start | Step::Cancel if self.sleeping == 0 => return false,
            Step::Start => {
                self.budget.start(self.now);
                self.sleeping -= 1;
                self.started.push(self.now);
            }
            Step::Cancel => {
                self.budget.cancel();
                self.sleeping -= 1;
            }
        }
        let taken = self.recent(&self.started) + self.sleeping;
        assert_eq!(self.budget.balance(self.now), self.allowed().saturating_sub(taken));
        assert_eq!(self.budget.sleeping(), self.sleeping);
        true
    }
}

#[test]
fn every_short_history() {
    let steps = [
        Step::Advance(100),
        Step::Advance(900),
        Step::First,
        Step::Schedule,
        Step::Start,
        Step::Cancel,
    ];
    for (ratio, floor) in [(0.5, 0), (0.5, 1), (1.5, 0), (0.0, 2)] {
        let world = World::new(Policy { ratio, floor, window: ms(1000) });
        let histories = explore(&world, &steps, 8, &|world, step| {
            let mut next = world.clone();
            next.step(step).then_some(next)
        });
        assert!(histories > 10_000, "only {histories} histories");
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..400_u64).prop_map(Step::Advance),
        1 => (400..15_000_u64).prop_map(Step::Advance),
        12 => Just(Step::First),
        12 => Just(Step::Schedule),
        4 => Just(Step::Start),
        2 => Just(Step::Cancel),
    ]
}

proptest! {
    #![proptest_config(random_histories())]

    #[test]
    fn long_histories(
        (quarters, floor, seconds) in (0..9_u32, 0..4_u32, 1..20_u64),
        steps in prop::collection::vec(any_step(), 1..300),
    ) {
        let ratio = f64::from(quarters) / 4.0;
        let mut world = World::new(Policy { ratio, floor, window: ms(seconds * 1000) });
        for step in steps {
            world.step(step);
        }
    }
}

/// A thousand calls fail at once, then a call a millisecond for a minute, every one of them wanting
/// a retry that sleeps longer than the window.
#[test]
fn a_mass_failure_schedules_no_more_than_the_budget_those_sleeping_included() {
    let policy = Policy { ratio: 0.1, floor: 2, window: ms(10_000) };
    let mut budget = Budget::new(policy).expect("sensible");
    (0..1000).for_each(|_| budget.first_attempt(at(0)));
    let scheduled = (0..1000).filter(|_| budget.schedule(at(0))).count();
    assert_eq!(scheduled, 100 + 20);

    let back_off = 30_000;
    let mut wakes: Vec<u64> = vec![back_off; scheduled];
    let mut started: Vec<u64> = Vec::new();
    for now in 1..=60_000 {
        budget.first_attempt(at(now));
        if budget.schedule(at(now)) {
            wakes.push(now + back_off);
        }
        while let Some(due) = wakes.iter().position(|wake| *wake <= now) {
            wakes.swap_remove(due);
            budget.start(at(now));
            started.push(now);
        }
        // 11,000 first attempts in the first window allow 1,100 retries, and the floor 20.
        let recent = started.iter().rev().take_while(|start| **start + 9000 > now).count();
        assert!(recent + wakes.len() <= 1120, "{recent} + {} at {now} ms", wakes.len());
    }
    assert!(!started.is_empty());
}

/// A back-off ends at a cancel, and its room goes to somebody else.
#[test]
fn cancelled_retries_give_their_room_back() {
    let policy = Policy { ratio: 0.0, floor: 1, window: ms(3000) };
    let mut budget = Budget::new(policy).expect("sensible");
    for _ in 0..1000 {
        assert_eq!([budget.schedule(at(0)), budget.schedule(at(0))], [true, true]);
        assert_eq!([budget.schedule(at(0)), budget.schedule(at(0))], [true, false]);
        (0..3).for_each(|_| budget.cancel());
    }
    assert_eq!(budget.balance(at(0)), 3);
}

#[test]
fn a_retry_that_sleeps_past_the_window_keeps_its_room() {
    let policy = Policy { ratio: 0.0, floor: 1, window: ms(1000) };
    let mut budget = Budget::new(policy).expect("sensible");
    assert!(budget.schedule(at(0)));
    assert!(!budget.schedule(at(50_000)));
    budget.start(at(50_000));
    assert!(!budget.schedule(at(50_900)), "and for a window after its start");
    assert!(budget.schedule(at(51_000)));
}

#[test]
fn a_share_of_a_window_is_exact() {
    let policy = Policy { ratio: 0.1, floor: 0, window: Duration::from_secs(10) };
    let mut budget = Budget::new(policy).expect("sensible");
    for first in 1..=1000_u64 {
        budget.first_attempt(at(0));
        assert_eq!(budget.balance(at(0)), first / 10);
    }
}
