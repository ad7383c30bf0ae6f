//! How long runs take, in a sketch of fixed size, and what that says of one that is under way.

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
    /// The longest run in each bucket: what always takes as long is known to the nanosecond.
    longest: [u64; BUCKETS],
    total: u32,
    sum_ns: u64,
}

impl Estimate {
    pub(super) fn new() -> Estimate {
        Estimate { counts: [0; BUCKETS], longest: [0; BUCKETS], total: 0, sum_ns: 0 }
    }

    /// Takes in one run of `ran_ns` nanoseconds.
    #[inline]
    pub(super) fn record(&mut self, ran_ns: u64) {
        if self.total >= WINDOW {
            self.forget();
        }
        let at = bucket(ran_ns);
        self.counts[at] += 1;
        self.longest[at] = self.longest[at].max(ran_ns);
        self.total += 1;
        self.sum_ns = self.sum_ns.saturating_add(ran_ns);
    }

    fn forget(&mut self) {
        self.total = 0;
        self.sum_ns /= 2;
        for (count, longest) in self.counts.iter_mut().zip(&mut self.longest) {
            *count /= 2;
            self.total += *count;
            if *count == 0 {
                *longest = 0;
            }
        }
    }

    /// The mean of all runs, if there are any.
    pub(super) fn mean(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.total.into())
    }

    /// The sketch made ready for questions.
    pub(super) fn ready(&self) -> Ready<'_> {
        let mut beyond = [0; BUCKETS];
        let mut sum = 0;
        for at in (0..BUCKETS).rev() {
            beyond[at] = sum;
            sum += self.counts[at];
        }
        Ready { beyond, counts: &self.counts, longest: &self.longest, total: sum }
    }
}

/// For every bucket, how many runs took longer.
pub(super) struct Ready<'e> {
    beyond: [u32; BUCKETS],
    counts: &'e [u32; BUCKETS],
    longest: &'e [u64; BUCKETS],
    total: u32,
}

impl Ready<'_> {
    /// What is left of a run of `age`, in nanoseconds: its quantiles at the middles of as many
    /// equal shares as `left` is long, shortest first. Of the runs that got so old, each share
    /// ended by then.
    ///
    /// A run that is older than any is likely to hang, the more so the more runs have ended: it is
    /// given its age again as many times.
    pub(super) fn remaining(&self, age: u64, left: &mut [u64]) {
        let older = u64::from(self.older(age));
        if older == 0 {
            return left.fill(age.saturating_mul(self.total.max(1).into()));
        }
        let shares = 2 * left.len() as u64;
        let mut at = bucket(age);
        for (left, share) in left.iter_mut().zip((1..shares).step_by(2)) {
            let beyond = older * (shares - share) / shares;
            while u64::from(self.beyond[at]) > beyond {
                at += 1;
            }
            *left = self.longest[at].saturating_sub(age);
        }
    }

    /// How many runs got older than `age`; all of its own bucket, if one of them did.
    fn older(&self, age: u64) -> u32 {
        let own = bucket(age);
        let in_own = if age < self.longest[own] { self.counts[own] } else { 0 };
        self.beyond[own] + in_own
    }

    /// How likely it is that a run of `age` has not ended in the last `silent` nanoseconds.
    pub(super) fn silence(&self, age: u64, silent: u64) -> f64 {
        match self.older(age.saturating_sub(silent)) {
            0 => 1.0,
            before => f64::from(self.older(age)) / f64::from(before),
        }
    }

    /// Of all runs, such a share was over by then; `None`: there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let beyond = (f64::from(self.total) * (1.0 - share)) as u32;
        let at = self.beyond.partition_point(|&longer| longer > beyond);
        (!self.is_empty()).then(|| self.longest[at])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(runs: impl IntoIterator<Item = u64>) -> Estimate {
        let mut estimate = Estimate::new();
        runs.into_iter().for_each(|ran_ns| estimate.record(ran_ns));
        estimate
    }

    fn left<const N: usize>(estimate: &Estimate, age: u64) -> [u64; N] {
        let mut left = [0; N];
        estimate.ready().remaining(age, &mut left);
        left
    }

    #[test]
    fn buckets_are_in_order_and_at_most_an_eighth_wide() {
        let mut last = (0, 0);
        for nanos in (0..1_000_000).chain((20..47).map(|n| 3 << n)) {
            let at = bucket(nanos);
            assert!(at >= last.0);
            if at > last.0 {
                last = (at, nanos);
            }
            assert!(nanos - last.1 <= last.1 / 8, "{nanos} with {}", last.1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_steady_service_time_is_found_to_the_nanosecond() {
        let estimate = of([100 * MS + 1; 100]);
        for age in [0, 30 * MS, 99 * MS, 100 * MS] {
            assert_eq!(left(&estimate, age), [100 * MS + 1 - age; 4]);
        }
        assert_eq!(estimate.mean(), Some(100 * MS + 1));
    }

    #[test]
    fn what_is_left_goes_by_the_runs_that_got_so_old() {
        let estimate = of((0..90).map(|_| 10 * MS).chain([1000 * MS; 10]));
        assert_eq!(left(&estimate, 0), [10 * MS; 4]);
        assert_eq!(left(&estimate, 20 * MS), [980 * MS; 4]);
        let ready = estimate.ready();
        assert_eq!((ready.quantile(0.8), ready.quantile(0.95)), (Some(10 * MS), Some(1000 * MS)));
        assert_eq!(ready.silence(20 * MS, 20 * MS), 0.1, "one in ten is as old");
        assert_eq!(ready.silence(500 * MS, 400 * MS), 1.0, "and then it takes long");
        assert_eq!(ready.silence(2000 * MS, 10 * MS), 1.0, "known to hang before that");
    }

    #[test]
    fn a_run_older_than_any_is_given_its_age_again_for_every_run_that_ended() {
        let mut estimate = Estimate::new();
        assert_eq!(left(&estimate, 7 * MS), [7 * MS]);
        assert_eq!((estimate.mean(), estimate.ready().quantile(0.5)), (None, None));
        estimate.record(40 * MS);
        assert_eq!(left(&estimate, 2000 * MS), [2000 * MS]);
        estimate.record(50 * MS);
        assert_eq!(left(&estimate, 2000 * MS), [4000 * MS]);
    }

    #[test]
    fn an_old_regime_is_forgotten() {
        let mut estimate = of([MS; 10_000]);
        (0..2 * WINDOW).for_each(|_| estimate.record(1000 * MS));
        assert_eq!(estimate.ready().quantile(0.5), Some(1000 * MS));
        (0..20 * WINDOW).for_each(|_| estimate.record(1000 * MS));
        assert_eq!(left(&estimate, 0), [1000 * MS; 16]);
        assert_eq!(estimate.mean(), Some(1000 * MS));
    }
}
