//! Hints against the best constant that can be found for the same load.

use std::fmt;

use super::load::{Hints, Load, Measured, Service, erlang_b_floor, play};

/// Constants from 5 ms on, each a quarter of an octave longer than the one before: up to 8.6 s.
const CONSTANTS: usize = 44;

/// What callers came to who went by hints, and by the best constant.
pub(crate) struct Verdict {
    load: Load,
    pub(crate) told: Measured,
    best_ms: f64,
    best: Measured,
}

/// Plays `load` with its hints and with every `step`-th constant, a load that hangs so many times
/// with calls of its own. The best constant is, of all that let in as many as any within a point,
/// the one that leaves slots idle for the least time.
pub(crate) fn compare(load: &Load, step: usize, hangs: u64) -> Verdict {
    let play_all = |hints| play_all(load, hangs, hints);
    let told = play_all(Hints::AsTold);
    let constants = (0..CONSTANTS).step_by(step).map(|n| 5.0 * (n as f64 / 4.0).exp2());
    let tried: Vec<_> = constants.map(|ms| (ms, play_all(Hints::Constant(ms)))).collect();
    let most = tried.iter().map(|(_, tried)| tried.share()).fold(0.0, f64::max);
    let good = tried.into_iter().filter(|(_, tried)| tried.share() >= most - 1.0);
    let best = good.min_by(|(_, a), (_, b)| a.idle_mean().total_cmp(&b.idle_mean()));
    let (best_ms, best) = best.expect("one of them lets in most");
    Verdict { load: *load, told, best_ms, best }
}

fn play_all(load: &Load, hangs: u64, hints: Hints) -> Measured {
    let mut all = Measured::default();
    for seed in 0..if load.hang.is_some() { hangs } else { 1 } {
        all.add(play(Load { seed: load.seed + seed, ..*load }, hints));
    }
    all
}

impl Verdict {
    /// Whether the bounds hold. That a backend hangs is chance, whatever its runs take otherwise.
    pub(crate) fn holds(&self) -> bool {
        let (told, best) = (&self.told, &self.best);
        match (self.load.service, self.load.hang) {
            (Service::Fixed(_), None) => told.share() >= 90.0 && told.idle_ratio() <= 0.25,
            _ => told.share() >= best.share() - 10.0 && told.idle_mean() <= 1.25 * best.idle_mean(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { load, told, best, best_ms } = self;
        write!(
            f,
            "{:5} came back, {:5.1} % let in, after {:5.1} ms idle (median {:3.0} % of the hint, \
             which is {:4.0} ms) | best constant {best_ms:4.0} ms: {:5.1} %, {:5.1} ms | Erlang B \
             {:5.1} %",
            told.returns,
            told.share(),
            told.idle_mean(),
            100.0 * told.idle_ratio(),
            told.hint_median(),
            best.share(),
            best.idle_mean(),
            erlang_b_floor(load.slots, told.offered),
        )
    }
}
