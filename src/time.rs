//! Time as a value, and the clocks that tell it.
//!
//! Decisions take a [`Time`] as an argument and never read a clock; only the runtime holds a
//! [`Clock`]. This is the one module that may ask the operating system what time it is.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// A point in time: nanoseconds since the origin of the clock that told it.
///
/// Arithmetic saturates, so [`Time::MAX`] means "never".
///
/// ```
/// use std::time::Duration;
/// use watertight::time::Time;
///
/// let later = Time::ZERO + Duration::from_millis(5);
/// assert_eq!(later - Time::ZERO, Duration::from_millis(5));
/// assert_eq!(Time::ZERO - later, Duration::ZERO);
/// assert_eq!(later + Duration::MAX, Time::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// Later than anything: "never".
    pub const MAX: Time = Time(u64::MAX);

    /// The time `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(saturating_nanos(span)))
    }
}

/// The span from `rhs` to `self`; zero if `rhs` is later.
impl Sub for Time {
    type Output = Duration;

    fn sub(self, rhs: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(rhs.0))
    }
}

fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether `instant` is past, or now.
pub(crate) fn is_past(instant: Instant) -> bool {
    Instant::now() >= instant
}

/// The instant `span` from now; none if no instant can express it.
pub(crate) fn instant_in(span: Duration) -> Option<Instant> {
    Instant::now().checked_add(span)
}

/// Something that sleeps until a time and must look again when a manual clock moves.
pub(crate) trait Sleeper: Send + Sync {
    /// Wakes the sleeper if it sleeps until a time that has come.
    fn ring(&self);
    /// Returns once everything due at the clock's present time has been done, or the sleeper is
    /// gone.
    fn settle(&self);
}

/// Tells the time: the system's monotonic clock, or one that only a test moves.
///
/// Clones are the same clock.
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    System { origin: Instant },
    Manual(Arc<Manual>),
}

impl Clock {
    /// The system's monotonic clock; its origin is this call.
    pub fn system() -> Clock {
        Clock(Kind::System { origin: Instant::now() })
    }

    /// A clock that stands still until its [`ManualClock`] moves it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use watertight::time::{Clock, Time};
    ///
    /// let (clock, hand) = Clock::manual();
    /// assert_eq!(clock.now(), Time::ZERO);
    /// hand.advance(Duration::from_secs(29));
    /// assert_eq!(clock.now() - Time::ZERO, Duration::from_secs(29));
    /// ```
    pub fn manual() -> (Clock, ManualClock) {
        let manual = Arc::new(Manual::default());
        (Clock(Kind::Manual(Arc::clone(&manual))), ManualClock(manual))
    }

    /// The present time.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            Kind::System { origin } => Time::ZERO + origin.elapsed(),
            Kind::Manual(manual) => Time(manual.now.load(Ordering::SeqCst)),
        }
    }

    /// The instant at which this clock shows `time`; `None` on a manual clock, which only its hand
    /// moves, and for times that no instant can express ("never").
    pub(crate) fn instant(&self, time: Time) -> Option<Instant> {
        match &self.0 {
            Kind::System { origin } => origin.checked_add(Duration::from_nanos(time.0)),
            Kind::Manual(_) => None,
        }
    }

    /// Has `sleeper` rung whenever a manual clock moves; nothing on the system's clock.
    pub(crate) fn register(&self, sleeper: Weak<dyn Sleeper>) {
        if let Kind::Manual(manual) = &self.0 {
            let mut sleepers = manual.sleepers.lock().expect("no sleeper panics under this lock");
            sleepers.retain(|known| known.strong_count() > 0);
            sleepers.push(sleeper);
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::System { .. } => "system",
            Kind::Manual(_) => "manual",
        };
        write!(f, "Clock({kind}, {:?})", self.now())
    }
}

/// The time of day, which alone tells how far off a date is. It may jump; nothing waits by it.
pub(crate) fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

#[derive(Default)]
struct Manual {
    now: AtomicU64,
    sleepers: Mutex<Vec<Weak<dyn Sleeper>>>,
}

/// The hand of a manual clock. Clones move the same clock.
#[derive(Clone)]
pub struct ManualClock(Arc<Manual>);

impl ManualClock {
    /// Moves the clock forward by `span`, and returns when every runtime on this clock has done
    /// what is due by then: waiters expired, deadlines answered. Blocks until then.
    ///
    /// A runtime sees one jump, not the moments in between: step as finely as the test needs. The
    /// clock never gets to [`Time::MAX`], which is "never".
    pub fn advance(&self, span: Duration) {
        let step = saturating_nanos(span);
        let _ = self.0.now.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            Some(now.saturating_add(step).min(Time::MAX.0 - 1))
        });
        let sleepers: Vec<_> = {
            let known = self.0.sleepers.lock().expect("no sleeper panics under this lock");
            known.iter().filter_map(Weak::upgrade).collect()
        };
        for sleeper in &sleepers {
            sleeper.ring();
        }
        for sleeper in &sleepers {
            sleeper.settle();
        }
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", Time(self.0.now.load(Ordering::SeqCst)))
    }
}
