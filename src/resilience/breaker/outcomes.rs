//! The recent outcomes of a breaker, over a number of calls or a span of time.

use std::ops::{AddAssign, SubAssign};

use super::Window;
use super::policy::WINDOW_CALLS_MAX;
use crate::resilience::window::SlidingWindow;
use crate::time::Time;

/// Counts of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) slow: u64,
}

impl Tally {
    /// One call.
    pub(super) fn call(failed: bool, slow: bool) -> Tally {
        Tally { calls: 1, failed: u64::from(failed), slow: u64::from(slow) }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.calls += more.calls;
        self.failed += more.failed;
        self.slow += more.slow;
    }
}

impl SubAssign for Tally {
    fn sub_assign(&mut self, less: Tally) {
        self.calls -= less.calls;
        self.failed -= less.failed;
        self.slow -= less.slow;
    }
}

/// The outcomes in a breaker's window.
#[derive(Clone, Debug)]
pub(super) enum Outcomes {
    Count(Ring),
    Time(SlidingWindow<Tally>),
}

impl Outcomes {
    pub(super) fn new(window: Window) -> Outcomes {
        match window {
            Window::Count(calls) => Outcomes::Count(Ring::new(calls)),
            Window::Time(span) => Outcomes::Time(SlidingWindow::new(span)),
        }
    }

    /// Adds one call; what the window holds then.
    pub(super) fn add(&mut self, now: Time, call: Tally) -> Tally {
        match self {
            Outcomes::Count(ring) => ring.add(call),
            Outcomes::Time(window) => {
                window.add(now, call);
                window.total(now)
            }
        }
    }

    pub(super) fn tally(&mut self, now: Time) -> Tally {
        match self {
            Outcomes::Count(ring) => ring.tally,
            Outcomes::Time(window) => window.total(now),
        }
    }
}

/// The last calls, two bits each.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    calls: usize,
    next: usize,
    tally: Tally,
    failed: Bits,
    slow: Bits,
}

impl Ring {
    fn new(calls: u32) -> Ring {
        Ring {
            calls: calls as usize,
            next: 0,
            tally: Tally::default(),
            failed: Bits::default(),
            slow: Bits::default(),
        }
    }

    fn add(&mut self, call: Tally) -> Tally {
        let (failed, slow) = (call.failed > 0, call.slow > 0);
        let oldest =
            Tally::call(self.failed.replace(self.next, failed), self.slow.replace(self.next, slow));
        if self.tally.calls == self.calls as u64 {
            self.tally -= oldest;
        }
        self.tally += call;
        self.next = if self.next + 1 == self.calls { 0 } else { self.next + 1 };
        self.tally
    }
}

#[derive(Clone, Debug, Default)]
struct Bits([u64; WINDOW_CALLS_MAX as usize / 64]);

impl Bits {
    /// Sets the bit at `index`; what it was.
    fn replace(&mut self, index: usize, bit: bool) -> bool {
        let (word, at) = (&mut self.0[index / 64], index % 64);
        let was = *word >> at & 1 == 1;
        *word = *word & !(1 << at) | u64::from(bit) << at;
        was
    }
}
