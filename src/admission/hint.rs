//! When a call that gets no slot is likely to find one, and what is remembered of having said so.

use std::time::Duration;

use super::ledger::{Ledger, Whose};
use super::outlook::Outlook;
use super::policy::Dispatch;
use super::scheduler::Scheduler;
use crate::outcome::ENOUGH_ATTEMPTS;
use crate::resilience::{Random, share};
use crate::time::Time;

/// Hints are told in whole milliseconds, and at least one.
const MILLISECOND: u64 = 1_000_000;
/// Nobody is expected to come back after more than that.
const PROMISE_MAX: Duration = Duration::from_secs(3600);

/// What hints go by besides slots and waiters.
#[derive(Debug)]
pub(super) struct Hints {
    /// When a run last ended.
    pub(super) last_end: Time,
    pub(super) demand: Demand,
    ledger: Ledger,
    promised: u64,
    random: Random,
}

/// How much is asked of the partition: averages over the last while, by the nanosecond.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Offers made.
    pub(super) offers: f64,
    /// Callers told to come back.
    pub(super) promises: f64,
    since: Time,
    counted: [u64; 2],
}

impl Hints {
    pub(super) fn new(seed: u64) -> Hints {
        Hints {
            last_end: Time::ZERO,
            demand: Demand::default(),
            ledger: Ledger::new(),
            promised: 0,
            random: Random::seeded(seed),
        }
    }

    /// How much later the caller of `attempt` is told to come back, so that those who were refused
    /// together part: nothing at first, then up to a quarter of the way to the next one's hint
    /// with each attempt, all of it at most. Not a share of the hint itself: hints build on each
    /// other, and would run away.
    fn jitter(&mut self, outlook: &Outlook, attempt: u32) -> u64 {
        let next = outlook.whole_run / u64::from(outlook.occupied.max(1));
        let quarters = attempt.saturating_sub(1).min(4);
        let most = Duration::from_nanos((next / 4).saturating_mul(quarters.into()));
        if most.is_zero() { 0 } else { nanos(share(most, self.random.next())) }
    }
}

impl Demand {
    /// Takes in the time since it last did so, if that was at least `while_ns`.
    fn update(&mut self, now: Time, while_ns: u64, counts: [u64; 2]) {
        let span = nanos(now - self.since);
        if span < while_ns.max(1) {
            return;
        }
        let known = if self.since == Time::ZERO { 0.0 } else { 0.5 };
        let average = |known_rate: f64, at: usize| {
            let recent = (counts[at] - self.counted[at]) as f64 / span as f64;
            known * known_rate + (1.0 - known) * recent
        };
        *self = Demand {
            offers: average(self.offers, 0),
            promises: average(self.promises, 1),
            since: now,
            counted: counts,
        };
    }
}

impl<T> Scheduler<T> {
    /// When a slot is likely free for a call of `tenant` that is turned away at its `attempt`-th
    /// attempt. From then on it is expected back.
    pub(super) fn hint(&mut self, now: Time, tenant: u32, attempt: u32) -> Duration {
        self.hint_again(now, tenant, attempt, &mut None)
    }

    /// The same for one of several calls of one step, of which `last` is the latest outlook.
    pub(super) fn hint_again(
        &mut self,
        now: Time,
        tenant: u32,
        attempt: u32,
        last: &mut Option<Outlook>,
    ) -> Duration {
        let a_while = self.estimate.mean().unwrap_or(0).saturating_mul(8);
        let counts = [self.totals.offered, self.hints.promised];
        self.hints.demand.update(now, a_while, counts);
        self.hints.ledger.expire(now);
        let whose = self.rivals(tenant);
        let outlook = last.take().filter(|last| last.whose == whose);
        let outlook = last.insert(outlook.unwrap_or_else(|| self.outlook(now, whose)));
        let left = self.left(now, whose, outlook);
        let left = left.saturating_add(self.hints.jitter(outlook, attempt));
        if left == u64::MAX {
            return Duration::MAX;
        }
        let millis = left.div_ceil(MILLISECOND).max(1);
        let hint = Duration::from_millis(millis);
        if attempt < ENOUGH_ATTEMPTS && hint <= PROMISE_MAX {
            let home = self.tenants.get(tenant).home;
            self.hints.ledger.enter(now + hint, tenant, home);
            self.hints.promised += 1;
        }
        hint
    }

    /// How long until a slot is likely free, in nanoseconds: after those who wait and those who
    /// were told to come back; and a whole run after that one of them who needs the same slot.
    fn left(&self, now: Time, whose: Whose, outlook: &Outlook) -> u64 {
        let callers = self.hints.ledger.callers(whose);
        let left = outlook.free_after(self.waiting(whose).saturating_add(callers));
        let same_slot = callers.checked_sub(outlook.occupied);
        match same_slot.and_then(|before| self.hints.ledger.nth(whose, before)) {
            Some(at) => left.max(nanos(at - now).saturating_add(outlook.whole_run)),
            None => left,
        }
    }

    /// How many wait, of those who may have the same slots.
    fn waiting(&self, whose: Whose) -> u32 {
        match whose {
            Whose::Tenant(tenant) => self.tenants.get(tenant).line.len,
            Whose::Home(home) => self.tenants.waiting_in[home as usize],
            Whose::Everybody => self.room.len(),
        }
    }

    /// Who may have the slots that may serve `tenant`: at its cap, those that it holds; under
    /// `Strict`, those of its home; else all of them.
    fn rivals(&self, tenant: u32) -> Whose {
        if !self.tenants.below_cap(tenant) {
            Whose::Tenant(tenant)
        } else if self.policy.dispatch == Dispatch::Strict {
            Whose::Home(self.tenants.get(tenant).home)
        } else {
            Whose::Everybody
        }
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
