//! A sliding window of time: totals over the recent past in fixed memory.

use std::array;
use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

use crate::time::Time;

/// How many buckets a window has.
pub(super) const BUCKETS: u64 = 10;

/// Totals of `T` over the last `span`, in ten buckets.
///
/// The newest bucket fills while the nine before it stand; when it is full, the oldest leaves as a
/// whole. So whatever happened within nine tenths of `span` is in, and whatever is older than
/// `span` is not.
#[derive(Clone, Debug)]
pub(super) struct SlidingWindow<T> {
    width: u64,
    /// The number of the newest bucket, counted from the clock's origin.
    newest: u64,
    /// Where the newest bucket ends, so that most steps need no division.
    ends: u64,
    buckets: [T; BUCKETS as usize],
    total: T,
}

impl<T: Copy + Default + AddAssign + SubAssign> SlidingWindow<T> {
    /// An empty window of `span`, which is at least ten nanoseconds.
    pub(super) fn new(span: Duration) -> SlidingWindow<T> {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let width = (nanos / BUCKETS).max(1);
        SlidingWindow {
            width,
            newest: 0,
            ends: width,
            buckets: array::from_fn(|_| T::default()),
            total: T::default(),
        }
    }

    /// Adds `what`, at `now`.
    pub(super) fn add(&mut self, now: Time, what: T) {
        self.advance(now);
        self.buckets[self.slot(self.newest)] += what;
        self.total += what;
    }

    /// What the window holds at `now`.
    pub(super) fn total(&mut self, now: Time) -> T {
        self.advance(now);
        self.total
    }

    fn advance(&mut self, now: Time) {
        if now.as_nanos() < self.ends {
            return;
        }
        let newest = now.as_nanos() / self.width;
        let leaving = (newest - self.newest).min(BUCKETS);
        for number in self.newest + 1..=self.newest + leaving {
            let slot = self.slot(number);
            let left = std::mem::take(&mut self.buckets[slot]);
            self.total -= left;
        }
        self.newest = newest;
        self.ends = newest.saturating_add(1).saturating_mul(self.width);
    }

    fn slot(&self, number: u64) -> usize {
        (number % BUCKETS) as usize
    }
}
