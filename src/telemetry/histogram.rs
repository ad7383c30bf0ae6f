//! Durations in an HdrHistogram.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest span told apart from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// The shortest one, a microsecond; less is counted as less.
const SHORTEST_NS: u64 = 1_000;
/// Two significant digits: values are off by at most 1 %.
const DIGITS: u8 = 2;

/// A histogram of durations from 1 µs to 1 h with an error of at most 1 %, in fixed memory (about
/// 24 kB). Longer durations count as an hour.
///
/// ```
/// use std::time::Duration;
/// use watertight::telemetry::Latency;
///
/// let mut latency = Latency::new();
/// for ms in 1..=100 {
///     latency.record(Duration::from_millis(ms));
/// }
/// let p99 = latency.quantile(0.99).as_millis();
/// assert!((98..=100).contains(&p99));
/// ```
#[derive(Clone)]
pub struct Latency(Histogram<u64>);

/// The figures that people look at, not the buckets.
impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latency")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

impl Latency {
    /// An empty histogram.
    pub fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS);
        Latency(histogram.expect("the bounds are in order and the digits within 0 to 5"))
    }

    /// Takes one duration in.
    #[inline]
    pub fn record(&mut self, span: Duration) {
        self.record_ns(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The same in nanoseconds.
    #[inline]
    pub(crate) fn record_ns(&mut self, span_ns: u64) {
        self.0.saturating_record(span_ns);
    }

    /// Takes the same duration in `times` times.
    pub fn record_many(&mut self, span: Duration, times: u64) {
        self.0.saturating_record_n(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), times);
    }

    /// How many durations it holds.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that `quantile` (0 to 1) of all are at or below; zero if there are none.
    pub fn quantile(&self, quantile: f64) -> Duration {
        if self.0.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.0.value_at_quantile(quantile).min(self.0.max()))
    }

    /// The longest duration; zero if there are none.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The histogram itself; its unit is the nanosecond.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}
