//! A sample of recent runs that knows its median.

use std::time::Duration;

use crate::time::Time;

/// Odd, so that there is one in the middle.
const RUNS_MAX: usize = 63;
/// A median of fewer says too little.
const RUNS_MIN: usize = 8;
const AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// The last runs, in the order they came and in the order of their length.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// A ring; the oldest run is at `oldest`.
    runs: [Entry; RUNS_MAX],
    oldest: usize,
    len: usize,
    sorted: [u64; RUNS_MAX],
    /// The median, and until when it is that of recent runs: a look at it needs no more.
    median: Option<Duration>,
    median_until: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Time,
    nanos: u64,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample {
            runs: [Entry::default(); RUNS_MAX],
            oldest: 0,
            len: 0,
            sorted: [0; RUNS_MAX],
            median: None,
            median_until: Time::ZERO,
        }
    }
}

impl Sample {
    /// Adds a run that took `ran` and ended at `now`; if there is no room, the oldest one leaves.
    pub(super) fn add(&mut self, now: Time, ran: Duration) {
        let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        let at = self.rank(nanos);
        let free = if self.len == RUNS_MAX {
            let oldest = self.rank(self.runs[self.oldest].nanos);
            self.oldest = (self.oldest + 1) % RUNS_MAX;
            oldest
        } else {
            self.len += 1;
            self.len - 1
        };
        self.runs[(self.oldest + self.len - 1) % RUNS_MAX] = Entry { at: now, nanos };
        // Those between the place that comes free and the new one's move by one.
        if free < at {
            self.sorted.copy_within(free + 1..at, free);
            self.sorted[at - 1] = nanos;
        } else {
            self.sorted.copy_within(at..free, at + 1);
            self.sorted[at] = nanos;
        }
        self.look();
    }

    /// The median of the runs that are recent at `now`; none if they are too few.
    pub(super) fn median(&mut self, now: Time) -> Option<Duration> {
        if now > self.median_until {
            while self.len > 0 && now - self.runs[self.oldest].at > AGE_MAX {
                self.forget_oldest();
            }
            self.look();
        }
        self.median
    }

    fn look(&mut self) {
        let middle = self.sorted[..self.len].get(self.len.saturating_sub(1) / 2);
        let enough = self.len >= RUNS_MIN;
        self.median = middle.filter(|_| enough).map(|nanos| Duration::from_nanos(*nanos));
        let oldest = (self.len > 0).then(|| self.runs[self.oldest].at + AGE_MAX);
        self.median_until = oldest.unwrap_or(Time::MAX);
    }

    fn forget_oldest(&mut self) {
        let at = self.rank(self.runs[self.oldest].nanos);
        self.sorted.copy_within(at + 1..self.len, at);
        self.oldest = (self.oldest + 1) % RUNS_MAX;
        self.len -= 1;
    }

    /// How many runs were shorter.
    fn rank(&self, nanos: u64) -> usize {
        self.sorted[..self.len].partition_point(|known| *known < nanos)
    }
}
