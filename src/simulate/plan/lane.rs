//! One partition as it is simulated.

use std::time::Duration;

use super::call::{Answer, Call, End, Throw, Trouble};
use super::input::{LONGEST, Plan, duration};
use super::partition::PartitionPlan;
use super::report::PartitionTally;
use crate::admission::Scheduler;
use crate::resilience::RetryAfter;
use crate::resilience::breaker::{Admit, Breaker, Change, Ended};
use crate::resilience::budget::Budget;
use crate::simulate::InputError;
use crate::time::Time;

/// A partition's scheduler with the door before it, and who runs.
pub(super) struct Lane {
    pub(super) scheduler: Scheduler<Call>,
    breaker: Option<Breaker>,
    pub(super) budget: Budget,
    pub(super) running: Vec<Option<Running>>,
    pub(super) in_flight: u32,
    pub(super) overdue: u32,
    pub(super) max_wait: Duration,
    pub(super) run_limit: Duration,
    /// How long a body may resist before it is answered for.
    pub(super) run_for: Duration,
    pub(super) replaces: bool,
    pub(super) troubles: Vec<Trouble>,
    /// The next time its scheduler is woken.
    pub(super) armed: Time,
    pub(super) tally: PartitionTally,
}

pub(super) struct Running {
    /// The call; `None`: it has been answered for.
    pub(super) call: Option<Call>,
    pub(super) started: Time,
    /// How it will end.
    pub(super) end: End,
}

impl Lane {
    pub(super) fn new(plan: &Plan, of: &PartitionPlan) -> Result<Lane, InputError> {
        let policy = of.policy();
        let troubles = plan.faults.iter().filter(|fault| fault.partition == of.name);
        let breaker = of.breaker.as_ref().map(|breaker| breaker.policy("breaker")).transpose()?;
        let budget = of.retry_budget.policy("retry_budget")?;
        Ok(Lane {
            running: (0..of.all_slots()).map(|_| None).collect(),
            breaker: breaker.map(|policy| Breaker::new(policy).expect("it has been checked")),
            budget: Budget::new(budget).expect("it has been checked"),
            in_flight: 0,
            overdue: 0,
            max_wait: duration(of.max_wait_ms).unwrap_or(LONGEST),
            run_limit: policy.run_limit,
            run_for: policy.run_limit + policy.cancel_grace,
            replaces: policy.replace_overdue > 0,
            troubles: troubles.map(Trouble::from).collect(),
            armed: Time::MAX,
            tally: PartitionTally::default(),
            scheduler: Scheduler::new(policy).expect("the plan has been checked"),
        })
    }

    /// Asks the breaker to let `call` in; `Err`: how long it stays shut.
    pub(super) fn admit(&mut self, now: Time, call: &mut Call) -> Result<(), Duration> {
        let Some(breaker) = &mut self.breaker else { return Ok(()) };
        let left = call.deadline - now;
        match breaker.admit(now, (self.max_wait + self.run_for).min(left)) {
            Admit::Pass(epoch) | Admit::Probe(epoch) => {
                call.epoch = Some(epoch);
                Ok(())
            }
            Admit::Open(after) => Err(after.get()),
        }
    }

    /// Tells the breaker how a call ended that it let in; whether that opened it.
    pub(super) fn judge(&mut self, now: Time, call: &mut Call, answer: Answer) -> bool {
        let (Some(breaker), Some(epoch)) = (&mut self.breaker, call.epoch.take()) else {
            return false;
        };
        let Some(ended) = Ended::of(&answer.result()) else {
            breaker.give_back(epoch);
            return false;
        };
        let ran = answer.ran.unwrap_or_default();
        let change = breaker.record(now, epoch, ended, ran, call.chance(Throw::CoolDown).bits());
        let opened = matches!(change, Some(Change::Opened { .. }));
        self.tally.breaker_openings += u64::from(opened);
        opened
    }

    /// How long the breaker stays shut.
    pub(super) fn shut_for(&mut self, now: Time) -> Option<Duration> {
        let breaker = self.breaker.as_mut()?;
        breaker.snapshot(now).retry_after.map(RetryAfter::get)
    }

    /// Takes note of a call that has started.
    pub(super) fn started(&mut self, waited: Duration) {
        self.in_flight += 1;
        let tally = &mut self.tally;
        tally.in_flight_max = tally.in_flight_max.max(self.in_flight);
        tally.waited.record(waited);
        tally.borrowed_max = tally.borrowed_max.max(self.scheduler.gauges().borrowed);
    }
}
