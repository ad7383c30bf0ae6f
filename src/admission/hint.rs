//! When a call that gets no slot is likely to find one.

use std::time::Duration;

use super::scheduler::Scheduler;
use super::slots::State;
use crate::time::Time;

/// The most slots a hint looks at.
const HINT_SAMPLE: usize = 64;

impl<T> Scheduler<T> {
    /// When a slot is likely free for a call with `ahead` others before it: the median of what is
    /// left of the runs under way, in order of their ends, then whole runs for those ahead who
    /// need a second round.
    pub(super) fn hint(&self, now: Time, ahead: u32) -> Duration {
        let runs = self.estimate.ready();
        let occupied = (self.slots.running + self.slots.overdue) as usize;
        let step = occupied.div_ceil(HINT_SAMPLE).max(1);
        let mut left = [Duration::ZERO; HINT_SAMPLE];
        let mut sampled = 0;
        for (slot, left) in self.slots.occupied().step_by(step).zip(&mut left) {
            let age = now - slot.started;
            *left = match slot.state {
                State::Overdue => age.max(self.policy.run_limit),
                _ => runs.remaining(age).min(slot.due - now),
            };
            sampled += 1;
        }
        let left = &mut left[..sampled];
        left.sort_unstable();
        let ahead = ahead as usize;
        let rounds = ahead.checked_div(occupied).unwrap_or(0) as u32;
        let next = left.get(ahead.checked_rem(occupied).unwrap_or(0) / step);
        let whole_run = runs.median().unwrap_or_default();
        let hint = next.copied().unwrap_or_default() + whole_run.saturating_mul(rounds);
        hint.max(Duration::from_millis(1))
    }
}
