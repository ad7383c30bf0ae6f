//! What the slots promise at one moment: when runs under way are likely to end, and when, after
//! all who come first, one of them leaves a slot free.
//!
//! Each run's end is foreseen as several times, each as likely as the others, from how long runs
//! took that got as old as it is. Their sum over all slots is how many slots will have come free
//! by a time. What newcomers are likely to take in the meantime goes off it; so do those who wait
//! and those who were told to come back. The hint is the first time at which what is left, less
//! its own standard deviation, comes to a slot: for runs that always take as long, to the
//! nanosecond the end of one; where runs differ, as much later as their ends are uncertain.

use super::estimate::Ready;
use super::hint::nanos;
use super::ledger::Whose;
use super::scheduler::Scheduler;
use super::slots::{Slot, State};
use crate::time::Time;

/// The most slots it looks at.
const SAMPLE: usize = 64;
/// The most ends it foresees.
const ENDS: usize = 128;
/// The most for one slot.
const ENDS_EACH: usize = 16;
/// A silence less likely than that means that the backend hangs.
const SILENCE_MIN: f64 = 0.001;
/// No single run makes a silence less likely than that: one may hang without the others.
const SILENCE_OF_ONE_MIN: f64 = 0.03;

/// One of the times at which a run may end: so many whole runs and so many nanoseconds from now.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    round: u64,
    after: u64,
    /// What is added to the variance of the slots free.
    variance: f64,
}

/// What the slots that some callers share promise at one moment. Used for several hints of one
/// step, so that a thousand waiters that expire together do not each look at every slot.
pub(super) struct Outlook {
    pub(super) whose: Whose,
    /// Slots they hold.
    pub(super) occupied: u32,
    /// How long until a slot is likely free again when somebody has taken it, in nanoseconds.
    pub(super) whole_run: u64,
    /// In order of `after`.
    ends: [End; ENDS],
    foreseen: usize,
    /// What each of them counts, in slots.
    weight: f64,
    /// Offers a nanosecond.
    offers: f64,
}

/// A time, and what is to be expected by then.
#[derive(Clone, Copy)]
struct Forecast {
    at: u64,
    /// Slots that nobody has taken; less than none while others come first.
    free: f64,
    variance: f64,
}

impl Forecast {
    /// Goes on to `at`. While a slot is free, newcomers take some.
    fn advance(&mut self, at: u64, offers: f64) {
        if self.free > 0.0 {
            let come = offers * (at - self.at) as f64;
            self.free /= 1.0 + come / (1.0 + self.free);
        }
        self.at = at;
    }

    fn is_likely(&self) -> bool {
        self.free - self.variance.max(0.0).sqrt() >= 0.5
    }
}

impl Outlook {
    /// How long until a slot is likely free when `ahead` others come first, in nanoseconds. If
    /// that is never likely, because newcomers are too many, the best time within a whole run.
    ///
    /// Every slot is taken again as soon as it is free, unless there are more of them than takers.
    pub(super) fn free_after(&self, ahead: u32) -> u64 {
        let ends = &self.ends[..self.foreseen];
        let mut now = Forecast { at: 0, free: -f64::from(ahead), variance: 0.0 };
        let mut best = Forecast { free: 0.0, ..now };
        let mut latest = u64::MAX;
        let mut round = 0;
        while let Some(rounds) = self.rounds_to_skip(round, &mut now.free) {
            round += rounds;
            let start = round.saturating_mul(self.whole_run);
            let taken = (1.0 - now.free.max(0.0) / f64::from(self.occupied)).max(0.0);
            for end in ends.iter().filter(|end| end.round <= round) {
                let at = start.saturating_add(end.after).max(now.at);
                if at > latest || at == u64::MAX {
                    return if best.free > 0.0 { best.at } else { at };
                }
                now.advance(at, self.offers);
                now.free += if end.round == round { self.weight } else { self.weight * taken };
                now.variance += end.variance;
                if now.is_likely() {
                    return at;
                }
                if now.free > best.free {
                    latest = latest.min(at.saturating_add(self.whole_run));
                    best = now;
                }
            }
            round += 1;
        }
        0
    }

    /// How many whole runs from the `round`-th on bring nothing new: the same slots go to others
    /// each time, which `free` takes in. `None`: there is no slot.
    fn rounds_to_skip(&self, round: u64, free: &mut f64) -> Option<u64> {
        let ends = &self.ends[..self.foreseen];
        if ends.is_empty() {
            return None;
        }
        let next = ends.iter().map(|end| end.round).filter(|&next| next >= round).min();
        let ended = ends.iter().filter(|end| end.round < round).count() as f64 * self.weight;
        let until_next = next.map_or(u64::MAX, |next| next - round);
        let spent = if ended > 0.0 { (-*free / ended).max(0.0) as u64 } else { u64::MAX };
        let skipped = until_next.min(spent);
        *free += skipped as f64 * ended;
        Some(skipped)
    }
}

impl<T> Scheduler<T> {
    /// What the slots that `whose` callers share promise now. Passes over the slots.
    pub(super) fn outlook(&self, now: Time, whose: Whose) -> Outlook {
        let shared = |slot: &&Slot| match whose {
            Whose::Everybody => true,
            Whose::Home(home) => slot.home == home,
            Whose::Tenant(tenant) => slot.tenant == tenant,
        };
        let slots = || self.slots.occupied().filter(shared);
        let runs = self.estimate.ready();
        let occupied = slots().count();
        let step = occupied.div_ceil(SAMPLE).max(1);
        let each = (ENDS / occupied.div_ceil(step).max(1)).min(ENDS_EACH);
        let hangs = self.hangs(now, &runs, slots());
        let whole_run = self.whole_run(&runs, occupied);
        let mut ends = [End::default(); ENDS];
        let mut foreseen = 0;
        for slot in slots().step_by(step) {
            let mut left = [0; ENDS_EACH];
            self.foresee(now, slot, hangs, &runs, &mut left[..each]);
            for (&left, nth) in left[..each].iter().zip(0_u32..) {
                let passed = (2.0 * f64::from(nth) + 1.0) / each as f64;
                let variance = step as f64 / each as f64 * (1.0 - passed);
                let (round, after) = (left / whole_run, left % whole_run);
                ends[foreseen] = End { round, after, variance };
                foreseen += 1;
            }
        }
        ends[..foreseen].sort_unstable_by_key(|end| (end.after, end.round));
        Outlook {
            whose,
            occupied: occupied as u32,
            whole_run,
            ends,
            foreseen,
            weight: step as f64 / each as f64,
            offers: self.hints.demand.offers,
        }
    }

    /// Whether the backend hangs: no run has ended for so long that it cannot be chance.
    fn hangs<'s>(
        &self,
        now: Time,
        runs: &Ready<'_>,
        slots: impl Iterator<Item = &'s Slot>,
    ) -> bool {
        let silent = nanos(now - self.hints.last_end);
        let running = slots.filter(|slot| slot.state == State::Running);
        let of_one = running.map(|slot| runs.silence(nanos(now - slot.started), silent));
        of_one.map(|likely| likely.max(SILENCE_OF_ONE_MIN)).product::<f64>() < SILENCE_MIN
    }

    /// How long a slot is likely held by whoever takes it next: nine runs in ten are over by then.
    /// But callers are spaced no wider than lets twice as many of them come back as are told to,
    /// or hints would grow for ever; and never so close that only one run in ten is over.
    fn whole_run(&self, runs: &Ready<'_>, occupied: usize) -> u64 {
        let promises = self.hints.demand.promises;
        let widest = if promises > 0.0 { 0.5 * occupied as f64 / promises } else { f64::MAX };
        let likely = runs.quantile(0.9).unwrap_or_else(|| self.first_guess());
        let shortest = runs.quantile(0.1).unwrap_or_default();
        likely.min(widest as u64).max(shortest).max(1)
    }

    /// What is said of a run before the first has ended: a small share of the longest one.
    fn first_guess(&self) -> u64 {
        nanos(self.policy.run_limit) / 100
    }

    /// Likely times to the end of the call in `slot`, shortest first. An overdue one is not
    /// expected soon: as long again as it has taken, and at least for the run limit.
    fn foresee(&self, now: Time, slot: &Slot, hangs: bool, runs: &Ready<'_>, left: &mut [u64]) {
        let (age, run_limit) = (nanos(now - slot.started), nanos(self.policy.run_limit));
        if slot.state == State::Overdue {
            return left.fill(age.max(run_limit));
        }
        let limit = if age < run_limit { run_limit - age } else { age };
        let most = limit.min(nanos(slot.due - now));
        if hangs {
            return left.fill(most);
        }
        runs.remaining(age, left);
        let least = if runs.is_empty() { self.first_guess() } else { 0 };
        left.iter_mut().for_each(|left| *left = (*left).max(least).min(most));
    }
}
