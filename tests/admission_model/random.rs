//! Random scripts under random policies: a million steps and more.
//!
//! The seeds are fixed, so that a run is the same everywhere; `ADMISSION_SEED` sets another one.

use std::time::Duration;

use fastrand::Rng;
use watertight::admission::{Dispatch, Policy};

use crate::script::{Step, check};

const STEPS: usize = 260_000;
const SCRIPT_MAX: usize = 80;

fn policy(rng: &mut Rng, dispatch: Dispatch) -> Policy {
    let some = |rng: &mut Rng, from, to| rng.bool().then(|| rng.u32(from..=to));
    let slots = rng.u32(1..=4);
    let mut left = slots;
    let mut homes = Vec::new();
    for name in ["a", "b", "c"] {
        if rng.bool() {
            let own = rng.u32(0..=left);
            left -= own;
            homes.push((name.into(), own));
        }
    }
    let mut weights = Vec::new();
    if rng.bool() {
        // Powers of two, whose strides are exact.
        weights = ["a", "b"].map(|name| (name.into(), 1 << rng.u32(0..=2))).into();
    }
    Policy {
        queue: rng.u32(0..=6),
        dispatch,
        tenant_max: some(rng, 1, 3),
        tenant_queue: some(rng, 0, 3),
        homes,
        weights,
        replace_overdue: rng.u32(0..=2),
        reserve_max: rng.u32(0..=2),
        cancel_grace: Duration::from_nanos(rng.u64(0..=3)),
        ..Policy::new(slots)
    }
}

fn step(rng: &mut Rng) -> Step {
    let n = rng.u8(..);
    match rng.u8(0..40) {
        0..=14 => {
            let ticks = |rng: &mut Rng, of| (rng.u8(0..of) > 0).then(|| rng.u8(0..8));
            Step::Offer {
                tenant: rng.u8(0..=5).min(rng.u8(0..=5)),
                wait: ticks(rng, 4),
                deadline: if rng.bool() { ticks(rng, 3) } else { None },
                run_for: ticks(rng, 3),
                reentrant: rng.u8(0..16) == 0,
                reserve: rng.u8(0..4) == 0,
            }
        }
        15..=21 => Step::Finish(n),
        22..=23 => Step::Answer(n),
        24..=25 => Step::Replace(n),
        26 => match n % 3 {
            0 => Step::FinishSlot(n % 12),
            1 => Step::AnswerSlot(n),
            _ => Step::ReplaceSlot(n % 12),
        },
        27..=28 => Step::Withdraw(n),
        29 => Step::WithdrawOld(n),
        30..=34 => Step::Pass(n % 4),
        35..=37 => Step::Grant,
        38 if n < 64 => Step::Drain,
        39 if n < 16 => Step::Close,
        _ => Step::Dispatch,
    }
}

fn random_scripts(dispatch: Dispatch, salt: u64) {
    let base = std::env::var("ADMISSION_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    let mut steps = 0;
    for round in 0.. {
        let seed = base + salt + 8 * round;
        let mut rng = Rng::with_seed(seed);
        let policy = policy(&mut rng, dispatch);
        let length = rng.usize(1..=SCRIPT_MAX);
        let mut script = Vec::new();
        while script.len() < length {
            script.push(step(&mut rng));
            if rng.u8(0..3) > 0 {
                script.push(Step::Dispatch);
            }
        }
        check(seed, &policy, &script);
        steps += script.len();
        if steps > STEPS {
            break;
        }
    }
}

#[test]
fn fifo_is_what_the_model_says() {
    random_scripts(Dispatch::Fifo, 0);
}

#[test]
fn round_robin_is_what_the_model_says() {
    random_scripts(Dispatch::RoundRobin, 1);
}

#[test]
fn strict_is_what_the_model_says() {
    random_scripts(Dispatch::Strict, 2);
}

#[test]
fn borrow_is_what_the_model_says() {
    random_scripts(Dispatch::Borrow, 3);
}
