//! The breaker against a model that keeps every outcome and counts anew each time.

use std::time::Duration;

use proptest::prelude::*;
use watertight::resilience::RetryAfter;
use watertight::resilience::breaker::{
    Admit, Breaker, Change, Ended, Epoch, Policy, State, Window,
};
use watertight::time::Time;

use crate::breaker_model::{Expected, Model};
use crate::{explore, ms, random_histories};

const SLOW: Duration = ms(50);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Advance(u64),
    /// With the time in which it will have ended.
    Admit(u64),
    /// Ends the oldest call that is out, or the newest.
    End(Which, End),
    Hold,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Oldest,
    Newest,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Ended { how: Ended, slow: bool },
    GivenBack,
}

/// A breaker and its model, and the calls that both have let in.
#[derive(Clone)]
struct World {
    now: Time,
    breaker: Breaker,
    model: Model,
    out: Vec<(Epoch, u64)>,
}

impl World {
    fn new(policy: Policy) -> World {
        World {
            now: Time::ZERO,
            breaker: Breaker::new(policy).expect("sensible"),
            model: Model::new(policy),
            out: Vec::new(),
        }
    }

    /// Makes a step in both and compares them; `false` if it makes no sense here.
    fn step(&mut self, step: Step, random: u64) -> bool {
        match step {
            Step::Advance(millis) => self.now = self.now + ms(millis),
            Step::Admit(limit) => self.admit(ms(limit)),
            Step::End(which, end) => {
                let index = match which {
                    Which::Oldest if self.out.is_empty() => return false,
                    Which::Oldest => 0,
                    Which::Newest if self.out.len() < 2 => return false,
                    Which::Newest => self.out.len() - 1,
                };
                let (epoch, models) = self.out.remove(index);
                self.end(epoch, models, end, random);
            }
            Step::Hold => {
                self.breaker.open();
                self.model.enter(State::HeldOpen);
            }
            Step::Close => {
                self.breaker.close();
                self.model.closed();
            }
        }
        self.compare();
        true
    }

    fn admit(&mut self, limit: Duration) {
        let admit = self.breaker.admit(self.now, limit);
        let expected = self.model.admit(self.now, limit);
        let got = match admit {
            Admit::Pass(_) => Expected::Pass,
            Admit::Probe(_) => Expected::Probe,
            Admit::Open(after) => Expected::Open(after.get()),
        };
        match expected {
            Expected::Open(left) => assert_eq!(got, Expected::Open(left.max(ms(1)))),
            _ => assert_eq!(got, expected),
        }
        if let Admit::Pass(epoch) | Admit::Probe(epoch) = admit {
            self.out.push((epoch, self.model.epoch));
        }
    }

    fn end(&mut self, epoch: Epoch, models: u64, end: End, random: u64) {
        let change = match end {
            End::Ended { how, slow } => {
                let ran = if slow { SLOW } else { SLOW - ms(1) };
                self.breaker.record(self.now, epoch, how, ran, random)
            }
            End::GivenBack => {
                self.breaker.give_back(epoch);
                None
            }
        };
        match (self.model.end(self.now, models, end), change) {
            (None, None) => {}
            (Some(true), Some(Change::Opened { cool_down })) => {
                self.model.opened(self.now, cool_down);
            }
            (Some(false), Some(Change::Closed)) => self.model.closed(),
            (expected, got) => panic!("expected {expected:?}, got {got:?}"),
        }
    }

    fn compare(&mut self) {
        let snapshot = self.breaker.snapshot(self.now);
        assert_eq!(snapshot.state, self.model.state);
        assert_eq!(snapshot.openings, self.model.openings);
        let counts = (snapshot.calls, snapshot.failed, snapshot.slow);
        assert_eq!(counts, self.model.counts(self.now));
        let refused = match self.model.clone().admit(self.now, Duration::ZERO) {
            Expected::Open(left) => Some(left.max(ms(1))),
            Expected::Pass | Expected::Probe => None,
        };
        assert_eq!(snapshot.retry_after.map(RetryAfter::get), refused);
    }
}

fn end(how: Ended) -> End {
    End::Ended { how, slow: false }
}

fn small(window: Window) -> Policy {
    Policy {
        window,
        minimum_calls: 2,
        failure_rate: 0.5,
        slow_call: SLOW,
        slow_call_rate: 1.0,
        cool_down: ms(1000),
        cool_down_max: ms(2500),
        cool_down_jitter: 0.0,
        ..Policy::default()
    }
}

/// The steps of short histories. Half a cool-down at a time, so that a probe's limit, 0.7 of one,
/// ends in between.
fn steps() -> Vec<Step> {
    let mut steps = vec![Step::Advance(500), Step::Admit(700), Step::Hold, Step::Close];
    for which in [Which::Oldest, Which::Newest] {
        steps.push(Step::End(which, end(Ended::Ok)));
        steps.push(Step::End(which, end(Ended::Failed)));
        steps.push(Step::End(which, End::GivenBack));
    }
    steps.push(Step::End(Which::Oldest, end(Ended::TimedOut)));
    steps.push(Step::End(Which::Oldest, End::Ended { how: Ended::Ok, slow: true }));
    steps
}

fn explore_all(policy: Policy, prefix: &[Step], depth: u32) {
    let mut world = World::new(policy);
    prefix.iter().for_each(|step| assert!(world.step(*step, 0)));
    let histories = explore(&world, &steps(), depth, &|world, step| {
        let mut next = world.clone();
        next.step(step, 0).then_some(next)
    });
    assert!(histories > 10_000, "only {histories} histories");
}

#[test]
fn every_short_history_from_the_start() {
    explore_all(small(Window::Count(3)), &[], 7);
    explore_all(small(Window::Time(ms(2000))), &[], 7);
}

/// Two failures open it; after the cool-down a call from before is still out.
#[test]
fn every_short_history_around_the_probe() {
    let fail = Step::End(Which::Newest, end(Ended::Failed));
    let opened =
        [Step::Admit(700), Step::Admit(700), Step::Admit(700), fail, fail, Step::Advance(1000)];
    for probes in [1, 2, 3] {
        for count_timeouts in [true, false] {
            let policy = Policy { probes, count_timeouts, ..small(Window::Count(3)) };
            explore_all(policy, &opened, 6);
        }
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let rate = || prop::sample::select(vec![0.0, 0.25, 0.5, 0.75, 1.0]);
    let window = prop_oneof![
        (1..60_u32).prop_map(Window::Count),
        (1..40_u64).prop_map(|n| Window::Time(ms(n * 100))),
    ];
    let cool_down = (0..2000_u64, 0..3000_u64, 1..4_u32, 0..3_u32);
    (window, 0..60_u32, rate(), rate(), cool_down, 1..5_u32, any::<bool>()).prop_map(
        |(window, minimum, failure_rate, slow_call_rate, cool_down, probes, count_timeouts)| {
            let (first, more, growth, jitter) = cool_down;
            let minimum_calls = match window {
                Window::Count(calls) => minimum.min(calls),
                Window::Time(_) => minimum / 4,
            };
            Policy {
                window,
                minimum_calls,
                failure_rate,
                slow_call: SLOW,
                slow_call_rate,
                cool_down: ms(first),
                cool_down_growth: f64::from(growth),
                cool_down_max: ms(first + more),
                cool_down_jitter: f64::from(jitter) / 2.0,
                probes,
                count_timeouts,
                count_refusals: probes % 2 == 0,
            }
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let which = prop_oneof![Just(Which::Oldest), Just(Which::Newest)];
    let how = prop_oneof![
        3 => Just(Ended::Ok), 3 => Just(Ended::Failed), 1 => Just(Ended::TimedOut),
        1 => Just(Ended::Refused)
    ];
    let ended = (how, any::<bool>()).prop_map(|(how, slow)| End::Ended { how, slow });
    let end = prop_oneof![6 => ended, 1 => Just(End::GivenBack)];
    prop_oneof![
        30 => (0..300_u64).prop_map(Step::Advance),
        1 => (300..9000_u64).prop_map(Step::Advance),
        45 => (0..2000_u64).prop_map(Step::Admit),
        45 => (which, end).prop_map(|(which, end)| Step::End(which, end)),
        1 => Just(Step::Hold),
        2 => Just(Step::Close),
    ]
}

proptest! {
    #![proptest_config(random_histories())]

    #[test]
    fn long_histories(
        policy in any_policy(),
        steps in prop::collection::vec((any_step(), any::<u64>()), 1..300),
    ) {
        let mut world = World::new(policy);
        for (step, random) in steps {
            world.step(step, random);
        }
    }
}
