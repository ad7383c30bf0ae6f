//! How long runs take, in a sketch of fixed size, and what that says of one that is under way.

use std::time::Duration;

/// Buckets an octave; a bucket's bounds differ by at most an eighth.
const SUB: u64 = 8;
/// From 1 ns up to 2^48 ns, more than three days.
const BUCKETS: usize = 46 * SUB as usize;
/// Past this many runs the older half of the weight is let go.
const WINDOW: u32 = 1024;

/// A decaying log-linear histogram of run times.
#[derive(Debug)]
pub(super) struct Estimate {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Estimate {
    pub(super) fn new() -> Estimate {
        Estimate { counts: [0; BUCKETS], total: 0 }
    }

    /// Takes in one run of `ran_ns` nanoseconds.
    #[inline]
    pub(super) fn record(&mut self, ran_ns: u64) {
        if self.total >= WINDOW {
            self.total = 0;
            for count in &mut self.counts {
                *count /= 2;
                self.total += *count;
            }
        }
        self.counts[bucket(ran_ns)] += 1;
        self.total += 1;
    }

    /// The sketch made ready for questions.
    pub(super) fn ready(&self) -> Ready {
        let mut beyond = [0; BUCKETS];
        let mut sum = 0;
        for at in (0..BUCKETS).rev() {
            beyond[at] = sum;
            sum += self.counts[at];
        }
        Ready { beyond, total: sum }
    }
}

/// For every bucket, how many runs took longer.
pub(super) struct Ready {
    beyond: [u32; BUCKETS],
    total: u32,
}

impl Ready {
    /// The median of what is left of a run of `age`: half of the runs that got so old ended by
    /// then. Where no run got so old, as much again as it has taken already, which is the median
    /// of a power law of exponent 1 and doubles the guess each time it proves too short.
    pub(super) fn remaining(&self, age: Duration) -> Duration {
        let older = if age.is_zero() { self.total } else { self.beyond[bucket(nanos(age))] };
        if older == 0 {
            return age;
        }
        let half = older / 2;
        let median = self.beyond.partition_point(|&beyond| beyond > half);
        upper_bound(median).saturating_sub(age)
    }

    /// The median of all runs, if there are any.
    pub(super) fn median(&self) -> Option<Duration> {
        (self.total > 0).then(|| self.remaining(Duration::ZERO))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[inline]
fn bucket(nanos: u64) -> usize {
    if nanos < SUB {
        return nanos as usize;
    }
    let octave = u64::from(nanos.ilog2()) - 3;
    let sub = (nanos >> octave) - SUB;
    ((octave + 1) * SUB + sub).min(BUCKETS as u64 - 1) as usize
}

/// The longest span that falls into `bucket`.
fn upper_bound(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    let nanos = match bucket / SUB {
        0 => bucket,
        octave => ((SUB + bucket % SUB + 1) << (octave - 1)) - 1,
    };
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MS_NS: u64 = 1_000_000;

    #[test]
    fn buckets_are_in_order_and_at_most_an_eighth_wide() {
        let mut last = 0;
        for nanos in (0..1_000_000).chain((20..47).map(|n| 3 << n)) {
            let span = Duration::from_nanos(nanos);
            let at = bucket(nanos);
            assert!(at >= last);
            last = at;
            assert!(upper_bound(at) >= span);
            assert!(upper_bound(at) <= span + span / 8 + Duration::from_nanos(1), "{nanos}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_steady_service_time_is_found() {
        let mut estimate = Estimate::new();
        for _ in 0..100 {
            estimate.record(100 * MS_NS);
        }
        let left = estimate.ready().remaining(30 * MS);
        assert!((70 * MS..83 * MS).contains(&left), "{left:?}");
    }

    #[test]
    fn a_run_older_than_any_is_given_its_age_again() {
        let mut estimate = Estimate::new();
        assert_eq!(estimate.ready().remaining(7 * MS), 7 * MS);
        assert_eq!(estimate.ready().median(), None);
        estimate.record(40 * MS_NS);
        assert_eq!(estimate.ready().remaining(2000 * MS), 2000 * MS);
    }

    #[test]
    fn an_old_regime_is_forgotten() {
        let mut estimate = Estimate::new();
        for _ in 0..10_000 {
            estimate.record(MS_NS);
        }
        for _ in 0..2 * WINDOW {
            estimate.record(1000 * MS_NS);
        }
        assert!(estimate.ready().median().unwrap() >= 1000 * MS);
    }
}
