//! The loads that hints are measured under: the mean run is 200 ms in all of them.

use super::load::{Arrivals, Load, Service};

const MEAN_MS: f64 = 200.0;
/// When the backend hangs, if it does.
const HANGS_AT_MS: f64 = 20_000.0;

pub(crate) const FIXED: Service = Service::Fixed(MEAN_MS);

/// How long calls run: always as long, memoryless, and with two heavy tails.
pub(crate) fn services() -> [Service; 4] {
    [
        FIXED,
        Service::Exponential { mean: MEAN_MS },
        Service::Lognormal { median: 65.0, sigma: 1.5 },
        Service::Pareto { least: MEAN_MS / 3.0, alpha: 1.5 },
    ]
}

/// How calls come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// One by one, as so much of what the slots can do.
    Steady(f64),
    /// Three for each slot at one instant, half of what the slots can do.
    Waves,
    /// One by one, half of what the slots can do; and once, all that start in a second hang.
    Hang,
}

/// `calls` calls of this shape on a partition of so many slots.
pub(crate) fn load(slots: u32, shape: Shape, service: Service, calls: u32) -> Load {
    let per_s = |share: f64| share * f64::from(slots) * 1e3 / MEAN_MS;
    let wave = 3 * slots;
    let (arrivals, run_limit_ms, hang, calls) = match shape {
        Shape::Steady(share) => (Arrivals::Steady(per_s(share)), 10_000.0, None, calls),
        Shape::Waves => {
            let per_s = per_s(0.5) / f64::from(wave);
            (Arrivals::Waves { calls: wave, per_s }, 10_000.0, None, calls)
        }
        Shape::Hang => {
            (Arrivals::Steady(per_s(0.5)), 3_000.0, Some(HANGS_AT_MS), 100 * slots + 100)
        }
    };
    Load { slots, arrivals, service, run_limit_ms, hang, calls, seed: 1 }
}
