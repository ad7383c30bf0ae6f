//! When a call that gets no slot is likely to find one.

use std::time::Duration;

use super::scheduler::Scheduler;
use super::slots::State;
use crate::time::Time;

/// The most slots a hint looks at.
const SAMPLE: usize = 64;

/// What the slots promise at one moment. Made once for all hints of a step, so that a thousand
/// waiters that expire together do not each look at every slot.
pub(super) struct Outlook {
    /// What is likely left of the runs under way, shortest first: of every `step`-th of them.
    left: [Duration; SAMPLE],
    sampled: usize,
    step: usize,
    occupied: usize,
    whole_run: Duration,
}

impl Outlook {
    /// When a slot is likely free for a call with `ahead` others before it: the median of what is
    /// left of the runs under way, in order of their ends, then whole runs for those ahead who
    /// need a second round. At least 1 ms.
    pub(super) fn hint(&self, ahead: u32) -> Duration {
        let ahead = ahead as usize;
        let rounds = ahead.checked_div(self.occupied).unwrap_or(0) as u32;
        let rank = ahead.checked_rem(self.occupied).unwrap_or(0) / self.step;
        let next = self.left[..self.sampled].get(rank);
        let more = self.whole_run.saturating_mul(rounds);
        let hint = next.copied().unwrap_or_default().saturating_add(more);
        hint.max(Duration::from_millis(1))
    }
}

impl<T> Scheduler<T> {
    /// What the slots promise now. A pass over the slots.
    pub(super) fn outlook(&self, now: Time) -> Outlook {
        let runs = self.estimate.ready();
        let occupied = (self.slots.running + self.slots.overdue) as usize;
        let step = occupied.div_ceil(SAMPLE).max(1);
        let mut left = [Duration::ZERO; SAMPLE];
        let mut sampled = 0;
        for (slot, left) in self.slots.occupied().step_by(step).zip(&mut left) {
            let age = now - slot.started;
            *left = match slot.state {
                State::Overdue => age.max(self.policy.run_limit),
                _ => runs.remaining(age).min(slot.due - now),
            };
            sampled += 1;
        }
        left[..sampled].sort_unstable();
        Outlook {
            left,
            sampled,
            step,
            occupied,
            whole_run: runs.median().unwrap_or_default(),
        }
    }
}
