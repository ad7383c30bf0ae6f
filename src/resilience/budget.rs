//! A retry budget: a partition's retries stay a small part of its calls, whatever fails.
//!
//! In any window there is room for `floor` retries a second plus `ratio` of the first attempts in
//! it. A retry takes its room when it is *scheduled*, keeps it while it sleeps, and for one window
//! after it has started; a cancelled one gives it back. So a mass failure cannot schedule more than
//! the budget, however long the back-offs are.
//!
//! | what happens | room taken |
//! | --- | --- |
//! | a call is offered for the first time: [`first_attempt`](Budget::first_attempt) | `ratio` less, for one window |
//! | a retry is scheduled: [`schedule`](Budget::schedule), if there is room for one | one more |
//! | it is cancelled while it sleeps: [`cancel`](Budget::cancel) | one less |
//! | it is offered: [`start`](Budget::start) | the same, for one window from now |
//!
//! ```
//! use std::time::Duration;
//! use watertight::resilience::budget::{Budget, Policy};
//! use watertight::time::Time;
//!
//! let policy = Policy { ratio: 0.1, floor: 0, window: Duration::from_secs(10) };
//! let mut budget = Budget::new(policy)?;
//! let now = Time::ZERO;
//! (0..20).for_each(|_| budget.first_attempt(now));
//!
//! assert!(budget.schedule(now) && budget.schedule(now));
//! assert!(!budget.schedule(now), "a tenth of twenty is two");
//! budget.cancel();
//! assert!(budget.schedule(now));
//! # Ok::<(), watertight::resilience::PolicyError>(())
//! ```

use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

use super::PolicyError;
use super::check::{self, HOUR, millionths};
use super::window::SlidingWindow;
use crate::time::Time;

/// The knobs of a retry budget. [`Budget::new`] checks them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Retries for each first attempt. Defaults to 0.2; 0: only the floor; at most 10.
    pub ratio: f64,
    /// Retries a second that are allowed however few calls there are. Defaults to 1, which is ten
    /// at once in the default window; 0: only the ratio. At most 1,000,000.
    pub floor: u32,
    /// The span over which both are counted, forgotten a tenth of it at a time. Defaults to 10 s;
    /// from 1 s to an hour.
    pub window: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { ratio: 0.2, floor: 1, window: Duration::from_secs(10) }
    }
}

impl Policy {
    /// Checks every knob.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.room().map(drop)
    }

    /// Checks every knob; the room for retries in a window.
    fn room(&self) -> Result<Room, PolicyError> {
        let advice = ("must be a share from 0 to 10", "for one in five write 0.2");
        let per_first = millionths("ratio", self.ratio, 10.0, advice)?;
        let advice = ("must be 1s to 1h", "ten seconds suit most backends");
        check::span("window", self.window, Duration::from_secs(1)..=HOUR, advice)?;
        let rule = "must be 0 to 1000000 a second";
        let advice = (rule, "one or two a second keep a quiet partition going");
        check::count("floor", self.floor, 0..=1_000_000, advice)?;
        let window_micros = self.window.as_micros() as u64;
        Ok(Room { floor: u64::from(self.floor) * window_micros, per_first })
    }
}

/// Retries that a window has room for, in millionths.
#[derive(Clone, Copy, Debug)]
struct Room {
    floor: u64,
    per_first: u64,
}

/// The retry budget of a partition.
#[derive(Clone, Debug)]
pub struct Budget {
    room: Room,
    recent: SlidingWindow<Attempts>,
    sleeping: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    first: u64,
    retries: u64,
}

impl AddAssign for Attempts {
    fn add_assign(&mut self, more: Attempts) {
        self.first += more.first;
        self.retries += more.retries;
    }
}

impl SubAssign for Attempts {
    fn sub_assign(&mut self, less: Attempts) {
        self.first -= less.first;
        self.retries -= less.retries;
    }
}

impl Budget {
    /// A budget of which nothing is spent.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn new(policy: Policy) -> Result<Budget, PolicyError> {
        let (room, recent) = (policy.room()?, SlidingWindow::new(policy.window));
        Ok(Budget { room, recent, sleeping: 0 })
    }

    /// Counts a call that is offered for the first time.
    pub fn first_attempt(&mut self, now: Time) {
        self.recent.add(now, Attempts { first: 1, retries: 0 });
    }

    /// Takes room for one retry; `false` if there is none. Each one taken ends in
    /// [`start`](Budget::start) or [`cancel`](Budget::cancel).
    #[must_use = "without room there must be no retry"]
    pub fn schedule(&mut self, now: Time) -> bool {
        let room = self.balance(now) > 0;
        self.sleeping += u64::from(room);
        room
    }

    /// A scheduled retry is offered now.
    pub fn start(&mut self, now: Time) {
        self.sleeping = self.sleeping.saturating_sub(1);
        self.recent.add(now, Attempts { first: 0, retries: 1 });
    }

    /// A scheduled retry will never be offered.
    pub fn cancel(&mut self) {
        self.sleeping = self.sleeping.saturating_sub(1);
    }

    /// How many retries there is room for at `now`.
    pub fn balance(&mut self, now: Time) -> u64 {
        let Attempts { first, retries } = self.recent.total(now);
        let allowed = self.room.floor + self.room.per_first * first;
        (allowed / 1_000_000).saturating_sub(retries + self.sleeping)
    }

    /// How many retries are scheduled and not offered yet.
    pub fn sleeping(&self) -> u64 {
        self.sleeping
    }
}
