//! When a call that gets no slot is likely to find one.

use std::time::Duration;

use super::policy::Dispatch;
use super::scheduler::Scheduler;
use super::slots::{Slot, State};
use crate::time::Time;

/// The most slots a hint looks at.
const SAMPLE: usize = 64;

/// What the slots that may serve a tenant promise at one moment. Used for several hints of one
/// step, so that a thousand waiters that expire together do not each look at every slot.
pub(super) struct Outlook {
    /// Whom it is for; `None`: for every tenant that any slot may serve.
    tenant: Option<u32>,
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
    fn hint(&self, ahead: u32) -> Duration {
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
    /// When a slot is likely free for another call of `tenant`.
    pub(super) fn hint(&self, now: Time, tenant: u32) -> Duration {
        self.outlook(now, tenant).hint(self.ahead(tenant))
    }

    /// The same for one of several calls of one step, of which `last` is the latest outlook.
    pub(super) fn hint_again(
        &self,
        now: Time,
        tenant: u32,
        last: &mut Option<Outlook>,
    ) -> Duration {
        let wanted = self.is_restricted(tenant).then_some(tenant);
        let known = last.take().filter(|last| last.tenant == wanted);
        let outlook = known.unwrap_or_else(|| self.outlook(now, tenant));
        last.insert(outlook).hint(self.ahead(tenant))
    }

    /// Whether there are slots that may come free and yet not serve `tenant`.
    fn is_restricted(&self, tenant: u32) -> bool {
        self.policy.dispatch == Dispatch::Strict || !self.tenants.below_cap(tenant)
    }

    /// How many wait for the slots that may serve `tenant`.
    fn ahead(&self, tenant: u32) -> u32 {
        let state = self.tenants.get(tenant);
        if !self.tenants.below_cap(tenant) {
            state.line.len
        } else if self.policy.dispatch == Dispatch::Strict {
            self.tenants.waiting_in[state.home as usize]
        } else {
            self.room.len()
        }
    }

    /// What the slots promise now: to a tenant at its cap, those that it holds; under `Strict`,
    /// those of its home; else all of them. Passes over the slots.
    fn outlook(&self, now: Time, tenant: u32) -> Outlook {
        let home = self.tenants.get(tenant).home;
        let capped = !self.tenants.below_cap(tenant);
        let strict = self.policy.dispatch == Dispatch::Strict;
        let serves = |slot: &&Slot| {
            (!capped || slot.tenant == tenant) && (capped || !strict || slot.home == home)
        };
        let slots = || self.slots.occupied().filter(serves);
        let runs = self.estimate.ready();
        let occupied = slots().count();
        // Nothing is known before the first run has ended: a small share of the longest one.
        let first_guess = self.policy.run_limit / 100;
        let step = occupied.div_ceil(SAMPLE).max(1);
        let mut left = [Duration::ZERO; SAMPLE];
        let mut sampled = 0;
        for (slot, left) in slots().step_by(step).zip(&mut left) {
            let age = now - slot.started;
            *left = match slot.state {
                State::Overdue => age.max(self.policy.run_limit),
                _ => {
                    let unknown =
                        if runs.median().is_none() { first_guess } else { Duration::ZERO };
                    runs.remaining(age).max(unknown).min(slot.due - now)
                }
            };
            sampled += 1;
        }
        left[..sampled].sort_unstable();
        Outlook {
            tenant: self.is_restricted(tenant).then_some(tenant),
            left,
            sampled,
            step,
            occupied,
            whole_run: runs.median().unwrap_or_default(),
        }
    }
}
