//! Chance that can be repeated, and how long things take by it.

use std::f64::consts::TAU;
use std::io;
use std::time::Duration;

use serde::Deserialize;

use super::input::{LONGEST, duration};
use super::trace;
use crate::resilience::Random;
use crate::simulate::InputError;

/// The 99th percentile of the standard normal distribution.
const P99_SIGMAS: f64 = 2.326_347_874;

/// The same numbers for the same seed on every machine and in every release.
#[derive(Clone, Debug)]
pub(super) struct Chance(Random);

impl Chance {
    /// Chance of its own for the `at`-th of several.
    pub(super) fn branch(seed: u64, at: usize) -> Chance {
        let mut branches =
            Random::seeded(seed ^ (at as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
        Chance(Random::seeded(branches.next()))
    }

    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next()
    }

    /// From 0 up to but not including 1.
    #[inline]
    pub(super) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to but not including `end`.
    #[inline]
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// Of an exponential distribution with mean 1.
    #[inline]
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }

    /// Of the standard normal distribution, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (TAU * self.share()).cos()
    }
}

/// How long things take, in milliseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Distribution {
    /// Always the same.
    FixedMs(f64),
    /// Anything from the first to the second, evenly.
    UniformMs([f64; 2]),
    /// Exponential with this mean.
    ExponentialMs(f64),
    /// Log-normal: half take longer than `p50_ms`, one in a hundred longer than `p99_ms`.
    Lognormal {
        /// The median.
        p50_ms: f64,
        /// The 99th percentile.
        p99_ms: f64,
    },
    /// Buckets with their upper bounds, in order, and how many fell into each; the first begins at
    /// 0. Within a bucket, evenly.
    HistogramMs(Vec<(f64, u64)>),
    /// One of these, each as likely as the others: measured times, for example.
    SamplesMs(Vec<f64>),
    /// One of the measured times of a trace, each as likely as the others.
    Trace {
        /// The file.
        file: String,
        /// Of this tool only. Defaults to all.
        tool: Option<String>,
    },
}

impl Distribution {
    /// Reads the trace that it names, if it names one.
    pub(super) fn load(
        &mut self,
        place: &str,
        open: &mut impl FnMut(&str) -> io::Result<String>,
    ) -> Result<(), InputError> {
        if let Distribution::Trace { file, tool } = self {
            let mut rows = trace::read(place, file, open)?;
            rows.retain(|row| tool.as_ref().is_none_or(|tool| *tool == row.tool));
            *self = Distribution::SamplesMs(rows.iter().map(|row| row.dur_ms).collect());
        }
        Ok(())
    }

    /// A fault in the numbers, if there is one: the rule it breaks.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let time = |ms: f64| duration(ms).is_some();
        match self {
            Distribution::FixedMs(ms) | Distribution::ExponentialMs(ms) => {
                (!time(*ms)).then_some("must be 0 to 1e10 milliseconds")
            }
            Distribution::UniformMs([least, most]) => {
                (!time(*least) || !time(*most) || least > most)
                    .then_some("must be two times of 0 to 1e10 milliseconds, the shorter first")
            }
            Distribution::Lognormal { p50_ms, p99_ms } => {
                (!time(*p50_ms) || !time(*p99_ms) || *p50_ms <= 0.0 || p99_ms < p50_ms)
                    .then_some("must have p50_ms above 0 and p99_ms not below it, at most 1e10")
            }
            Distribution::HistogramMs(buckets) => {
                let in_order = buckets.is_sorted_by(|(a, _), (b, _)| a < b);
                let counted = buckets.iter().try_fold(0_u64, |sum, (_, n)| sum.checked_add(*n));
                let fine = in_order
                    && buckets.iter().all(|(ms, _)| time(*ms))
                    && counted.is_some_and(|counted| counted > 0);
                (!fine).then_some("must be [upper bound in ms, count] in rising order, not all 0")
            }
            Distribution::SamplesMs(samples) => (samples.is_empty()
                || !samples.iter().copied().all(time))
            .then_some("must be at least one time of 0 to 1e10 milliseconds"),
            Distribution::Trace { .. } => Some("must have been read from its file"),
        }
    }
}

/// A distribution made ready to draw from.
#[derive(Clone, Debug)]
pub(super) enum Sampler {
    Fixed(f64),
    Uniform(f64, f64),
    Exponential(f64),
    Lognormal {
        median: f64,
        sigma: f64,
    },
    /// Lower and upper bound of each bucket, and the count of all buckets up to it.
    Histogram(Vec<(f64, f64, u64)>),
    Samples(Vec<f64>),
}

impl From<&Distribution> for Sampler {
    fn from(distribution: &Distribution) -> Sampler {
        match distribution {
            Distribution::FixedMs(ms) => Sampler::Fixed(*ms),
            Distribution::UniformMs([least, most]) => Sampler::Uniform(*least, *most),
            Distribution::ExponentialMs(mean) => Sampler::Exponential(*mean),
            Distribution::Lognormal { p50_ms, p99_ms } => {
                Sampler::Lognormal { median: *p50_ms, sigma: (p99_ms / p50_ms).ln() / P99_SIGMAS }
            }
            Distribution::HistogramMs(buckets) => {
                let (mut lower, mut counted) = (0.0, 0);
                let ready = buckets.iter().map(|&(upper, count)| {
                    counted += count;
                    (std::mem::replace(&mut lower, upper), upper, counted)
                });
                Sampler::Histogram(ready.collect())
            }
            Distribution::SamplesMs(samples) => Sampler::Samples(samples.clone()),
            Distribution::Trace { .. } => unreachable!("a plan with one is refused"),
        }
    }
}

impl Sampler {
    pub(super) fn draw(&self, chance: &mut Chance) -> Duration {
        let ms = match self {
            Sampler::Fixed(ms) => *ms,
            Sampler::Uniform(least, most) => least + (most - least) * chance.share(),
            Sampler::Exponential(mean) => mean * chance.exponential(),
            Sampler::Lognormal { median, sigma } => median * (sigma * chance.normal()).exp(),
            Sampler::Histogram(buckets) => {
                let all = buckets.last().map_or(0, |&(.., counted)| counted);
                let rank = (chance.share() * all as f64) as u64;
                let at = buckets.partition_point(|&(.., counted)| counted <= rank);
                let (lower, upper, _) = buckets[at.min(buckets.len() - 1)];
                lower + (upper - lower) * chance.share()
            }
            Sampler::Samples(samples) => samples[chance.below(samples.len())],
        };
        duration(ms).unwrap_or(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of 100,000 draws, in milliseconds.
    fn quantiles<const N: usize>(of: &Distribution, at: [f64; N]) -> [f64; N] {
        assert_eq!(of.fault(), None);
        let (sampler, mut chance) = (Sampler::from(of), Chance(Random::seeded(7)));
        let draws = (0..100_000).map(|_| sampler.draw(&mut chance).as_secs_f64() * 1e3);
        let mut draws: Vec<_> = draws.collect();
        draws.sort_by(f64::total_cmp);
        at.map(|share| draws[(share * 99_999.0) as usize])
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.03, "{found}, not {expected}");
    }

    #[test]
    fn draws_have_the_quantiles_they_should() {
        assert_eq!(quantiles(&Distribution::FixedMs(2.5), [0.0, 1.0]), [2.5, 2.5]);
        let uniform = Distribution::UniformMs([10.0, 20.0]);
        quantiles(&uniform, [0.1, 0.5, 0.9])
            .iter()
            .zip([11.0, 15.0, 19.0])
            .for_each(|(&f, e)| assert_near(f, e));
        let exponential = Distribution::ExponentialMs(10.0);
        quantiles(&exponential, [0.5, 0.99])
            .iter()
            .zip([6.931, 46.05])
            .for_each(|(&f, e)| assert_near(f, e));
        let lognormal = Distribution::Lognormal { p50_ms: 40.0, p99_ms: 900.0 };
        let [p50, p99] = quantiles(&lognormal, [0.5, 0.99]);
        assert_near(p50, 40.0);
        assert!((800.0..1000.0).contains(&p99), "{p99}");
        let histogram = Distribution::HistogramMs(vec![(10.0, 3), (20.0, 0), (40.0, 1)]);
        quantiles(&histogram, [0.375, 0.74, 0.76, 0.875])
            .iter()
            .zip([5.0, 9.867, 20.8, 30.0])
            .for_each(|(&f, e)| assert_near(f, e));
        let samples = Distribution::SamplesMs(vec![1.0, 1.0, 9.0]);
        assert_eq!(quantiles(&samples, [0.0, 0.65, 0.68, 1.0]), [1.0, 1.0, 9.0, 9.0]);
    }

    #[test]
    fn numbers_that_make_no_distribution_are_refused() {
        let wrong = [
            Distribution::FixedMs(-1.0),
            Distribution::FixedMs(f64::NAN),
            Distribution::ExponentialMs(1e11),
            Distribution::UniformMs([2.0, 1.0]),
            Distribution::Lognormal { p50_ms: 0.0, p99_ms: 1.0 },
            Distribution::Lognormal { p50_ms: 2.0, p99_ms: 1.0 },
            Distribution::HistogramMs(vec![]),
            Distribution::HistogramMs(vec![(1.0, 0)]),
            Distribution::HistogramMs(vec![(2.0, 1), (1.0, 1)]),
            Distribution::HistogramMs(vec![(1.0, u64::MAX), (2.0, 1)]),
            Distribution::SamplesMs(vec![]),
        ];
        for wrong in wrong {
            assert!(wrong.fault().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn branches_of_one_seed_differ_and_repeat() {
        let draw = |at| Chance::branch(1, at).bits();
        assert_eq!(draw(0), draw(0));
        assert_ne!(draw(0), draw(1));
        assert_ne!(Chance::branch(2, 0).bits(), draw(0));
        // The published test vector of SplitMix64 for seed 1234567.
        assert_eq!(Chance(Random::seeded(1_234_567)).bits(), 6_457_827_717_110_365_317);
    }
}
