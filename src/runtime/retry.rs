//! Calls that are attempted again: what a call carries for it, and where it sleeps in between.
//!
//! A call sleeps under its partition's gate, in order of the time when it is offered again; it holds
//! nothing meanwhile. The timekeeper wakes it, or whichever section comes first after that time. It
//! then goes through the door like a new call, with the same ticket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::actions::{Actions, Answer};
use super::cell::{Call, Unanswered};
use super::random::random;
use super::state::{Offered, Running, State, Who, cancelled};
use crate::admission::{Offer, PolicyError};
use crate::call::Tenant;
use crate::outcome::{CallError, CancelledBy, EarlierAttempt, Executed, Timing};
use crate::resilience::Random;
use crate::resilience::budget::{self, Budget};
use crate::resilience::retry::{Attempt, Policy, Retry};
use crate::time::Time;

/// The most calls that sleep in one partition, whatever its budget.
pub(super) const ASLEEP_MAX: usize = 1024;

/// What a call that may be attempted again carries for it.
pub(crate) struct Again {
    policy: Policy,
    tenant: Option<Tenant>,
    /// Whether it is made from inside its own partition.
    reentrant: bool,
    /// Its own lock, which is the last to be taken.
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    earlier: Vec<EarlierAttempt>,
    asleep: Option<Place>,
}

/// When a sleeping call is offered again, and a number that tells those of the same time apart.
type Place = (Time, u64);

impl Again {
    pub(super) fn new(policy: Policy, tenant: Option<Tenant>, reentrant: bool) -> Again {
        Again { policy, tenant, reentrant, progress: Mutex::default() }
    }

    /// Whether `attempt` may be followed by another.
    pub(super) fn may_follow(&self, attempt: &Attempt<'_>) -> bool {
        self.policy.rules_out(attempt).is_none()
    }

    /// The attempts before the present one.
    pub(super) fn earlier(&self) -> Vec<EarlierAttempt> {
        self.progress.lock().earlier.clone()
    }
}

/// A partition's retries: their budget, and the calls that sleep.
pub(super) struct Retries {
    budget: Budget,
    asleep: BTreeMap<Place, Arc<dyn Call>>,
    scheduled: u64,
    random: Random,
}

impl Retries {
    pub(super) fn new(policy: budget::Policy) -> Result<Retries, PolicyError> {
        let budget = Budget::new(policy)?;
        Ok(Retries { budget, asleep: BTreeMap::new(), scheduled: 0, random: random() })
    }

    /// How many calls sleep, and how many have so far.
    pub(super) fn figures(&self) -> (usize, u64) {
        (self.asleep.len(), self.scheduled)
    }

    /// When the next call is offered again; [`Time::MAX`]: nobody sleeps.
    fn next_due(&self) -> Time {
        self.asleep.first_key_value().map_or(Time::MAX, |((due, _), _)| *due)
    }

    /// Puts `call` to sleep, whose attempt ended in `error`, if it may be attempted again.
    fn sleep(
        &mut self,
        now: Time,
        (call, again): (&Arc<dyn Call>, &Again),
        (error, timing): (&CallError, Timing),
        min_run: Duration,
    ) -> bool {
        if self.asleep.len() >= ASLEEP_MAX {
            return false;
        }
        let about = call.about();
        let deadline = about.deadline;
        let attempt = Attempt {
            left: (deadline < Time::MAX).then(|| deadline - now),
            min_run,
            ..about.ended_in(error)
        };
        let random = self.random.next();
        let Retry::After(wait) = again.policy.decide(now, attempt, &mut self.budget, random) else {
            return false;
        };
        self.scheduled += 1;
        let place = (now + wait, self.scheduled);
        let mut progress = again.progress.lock();
        progress.earlier.push(EarlierAttempt::new(error, timing, wait));
        progress.asleep = Some(place);
        about.rest();
        self.asleep.insert(place, Arc::clone(call));
        true
    }

    /// A call whose time has come by `now`.
    fn wake(&mut self, now: Time) -> Option<Arc<dyn Call>> {
        if self.next_due() > now {
            return None;
        }
        let (_, call) = self.asleep.pop_first()?;
        self.budget.start(now);
        Some(call)
    }

    /// Wakes `call` for good, if it sleeps.
    fn remove(&mut self, call: &dyn Call) -> Option<Arc<dyn Call>> {
        let place = call.about().again.as_ref()?.progress.lock().asleep.take()?;
        let call = self.asleep.remove(&place)?;
        self.budget.cancel();
        Some(call)
    }
}

impl State {
    /// Counts a call that is offered for the first time, which may be `retriable`.
    #[inline]
    pub(super) fn first_attempt(&mut self, now: Time, retriable: bool) {
        if retriable && self.retries.is_none() {
            self.retries = Retries::new(self.spec.door.retry_budget).ok().map(Box::new);
        }
        if let Some(retries) = &mut self.retries {
            retries.budget.first_attempt(now);
        }
    }

    /// A run has brought an error instead of a result.
    pub(super) fn ended_badly(
        &mut self,
        now: Time,
        held: Option<Running>,
        unanswered: Unanswered,
        actions: &mut Actions,
    ) {
        let Unanswered { error, timing } = unanswered;
        self.counts.add(&error);
        if let Some(Running { call, .. }) = held {
            self.answer_or_retry(now, call, error, timing, actions);
        }
    }

    /// An attempt has ended badly: the call is attempted again, or that is its answer.
    pub(super) fn answer_or_retry(
        &mut self,
        now: Time,
        call: Arc<dyn Call>,
        error: CallError,
        timing: Timing,
        actions: &mut Actions,
    ) {
        if !self.attempt_again(now, &call, &error, timing) {
            actions.answer(Answer { call, error, timing });
        }
    }

    /// Whether `call`, whose attempt has ended in `error`, is attempted again.
    fn attempt_again(
        &mut self,
        now: Time,
        call: &Arc<dyn Call>,
        error: &CallError,
        timing: Timing,
    ) -> bool {
        let (Some(again), false) = (&call.about().again, self.scheduler.is_closed()) else {
            return false;
        };
        let min_run = self.door.as_mut().map_or(Duration::ZERO, |door| door.min_run(now));
        let Some(retries) = &mut self.retries else {
            return false;
        };
        retries.sleep(now, (call, again), (error, timing), min_run)
    }

    /// When something is due next.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        let due = self.scheduler.next_due();
        self.retries.as_ref().map_or(due, |retries| due.min(retries.next_due()))
    }

    /// Offers those again whose time has come.
    #[inline]
    pub(super) fn wake(&mut self, now: Time, actions: &mut Actions) {
        while let Some(call) = self.retries.as_mut().and_then(|retries| retries.wake(now)) {
            self.offer_again(now, &call, actions);
        }
    }

    fn offer_again(&mut self, now: Time, call: &Arc<dyn Call>, actions: &mut Actions) {
        let about = call.about();
        let Some(again) = &about.again else {
            return;
        };
        let terms = Offer {
            payload: (),
            tenant: again.tenant.clone(),
            wait_until: now + self.spec.max_wait,
            deadline: about.deadline,
            run_for: self.spec.run_for(),
            reentrant: again.reentrant,
            attempt: about.attempt(),
        };
        if let Offered::AtOnce(slot) =
            self.offer(now, terms, || Who::Call(Arc::clone(call)), actions)
        {
            actions.start(self.run(now, Arc::clone(call), slot, Duration::ZERO));
        }
    }

    /// Takes back a call that sleeps; whether it did.
    pub(super) fn cancel_sleep(&mut self, call: &dyn Call, actions: &mut Actions) -> bool {
        let slept = self.retries.as_mut().and_then(|retries| retries.remove(call));
        let found = slept.is_some();
        slept.into_iter().for_each(|call| dismiss(call, CancelledBy::Caller, actions));
        found
    }

    /// Takes back all calls that sleep.
    pub(super) fn end_sleep(&mut self, actions: &mut Actions) {
        while let Some(retries) = &mut self.retries
            && let Some((_, call)) = retries.asleep.pop_first()
        {
            retries.budget.cancel();
            dismiss(call, CancelledBy::Shutdown, actions);
        }
    }
}

/// Answers a call that slept. Its attempts have been counted as they ended.
fn dismiss(call: Arc<dyn Call>, by: CancelledBy, actions: &mut Actions) {
    let error = cancelled(by, Executed::No);
    actions.answer(Answer { call, error, timing: Timing::default() });
}
