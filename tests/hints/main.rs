//! Hints tell the truth: who comes back exactly at the hint finds a slot, and finds it soon after
//! it came free. On virtual time, exact and repeatable; `benches/hints.rs` runs more and longer.

mod jitter;
#[path = "../hints_support/mod.rs"]
mod support;

use support::compare::{Verdict, compare};
use support::door;
use support::load::{Hints, Load, play};
use support::loads::{self, Shape};

const CALLS: u32 = 3_000;
/// Every tenth constant, and a hang eight times.
const GRID_STEP: usize = 10;
const HANGS: u64 = 8;

fn verdicts(shape: Shape) -> Vec<Verdict> {
    let services = loads::services().into_iter();
    services
        .map(|service| compare(&loads::load(8, shape, service, CALLS), GRID_STEP, HANGS))
        .collect()
}

fn assert_all_hold(shape: Shape) {
    for verdict in verdicts(shape) {
        assert!(verdict.told.returns > 100, "{verdict}");
        assert!(verdict.holds(), "{verdict}");
    }
}

#[test]
fn hints_hold_under_a_steady_load() {
    assert_all_hold(Shape::Steady(0.8));
}

#[test]
fn hints_hold_for_waves() {
    assert_all_hold(Shape::Waves);
}

#[test]
fn hints_hold_while_a_wave_hangs() {
    assert_all_hold(Shape::Hang);
}

fn waves() -> Load {
    loads::load(8, Shape::Waves, loads::FIXED, CALLS)
}

#[test]
fn a_refused_wave_does_not_come_back_as_a_wave() {
    let spaced = play(waves(), Hints::AsTold);
    assert!(spaced.share() >= 90.0, "{}", spaced.share());
    let together = play(waves(), Hints::AsTheFirst);
    assert!(together.share() <= 60.0, "what spaces them is the hint: {}", together.share());
}

#[test]
fn the_same_load_is_played_the_same_again() {
    let runs = [(); 2].map(|()| play(waves(), Hints::AsTold));
    assert_eq!(runs[0].idle, runs[1].idle);
}

#[test]
fn a_pause_is_over_when_its_hint_says() {
    let seen = door::throttled();
    assert_eq!((seen.returns, seen.let_in), (40, 40));
}

/// One caller is the probe; the others are told when it will be over at the latest.
#[test]
fn after_a_cool_down_one_probe_is_let_in_and_then_everybody() {
    let seen = door::broken();
    assert_eq!(seen.first_let_in, 1, "{seen:?}");
    assert_eq!(seen.returns - seen.let_in, seen.first_returns - 1, "{seen:?}");
}

#[test]
fn the_rate_lets_in_whoever_comes_back_first() {
    let seen = door::rated();
    assert!(seen.let_in > 0 && seen.share() < 100.0, "{seen:?}");
}
