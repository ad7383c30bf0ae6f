//! The scheduler: offers, starts, waits, ends.

use std::time::Duration;

use super::counts::Totals;
use super::decision::{Decision, Effects, Offer, Rejected, Rejection};
use super::estimate::Estimate;
use super::policy::{Dispatch, Policy, PolicyError};
use super::slots::{SlotId, Slots, State};
use super::tenant::Tenants;
use super::waiting::{Waiter, WaiterId, WaitingRoom};
use crate::call::Tenant;
use crate::outcome::{BusyReason, TimeoutClock};
use crate::time::Time;

/// Decides for one partition who starts, waits or is turned away. Every step is O(log n) in
/// tenants and waiters.
///
/// `offer`, `finish`, `withdraw`, `drain` and `close` never start a waiter; [`Scheduler::dispatch`]
/// does, and is called last whenever something changed.
///
/// ```
/// use watertight::admission::{Decision, Effects, Offer, Policy, Scheduler};
/// use watertight::time::Time;
///
/// let now = Time::ZERO;
/// let mut scheduler = Scheduler::new(Policy::new(1))?;
/// let mut effects = Effects::default();
///
/// let Decision::Start(first) = scheduler.offer(now, Offer::new("first"), &mut effects) else {
///     unreachable!("the slot is free");
/// };
/// assert!(matches!(scheduler.offer(now, Offer::new("second"), &mut effects), Decision::Wait(_)));
///
/// scheduler.finish(now, first.slot);
/// scheduler.dispatch(now, &mut effects);
/// assert_eq!(effects.started[0].payload, "second");
/// # Ok::<(), watertight::admission::PolicyError>(())
/// ```
#[derive(Debug)]
pub struct Scheduler<T> {
    pub(super) policy: Policy,
    pub(super) slots: Slots,
    pub(super) tenants: Tenants,
    pub(super) room: WaitingRoom<T>,
    pub(super) estimate: Estimate,
    pub(super) totals: Totals,
    pub(super) closed: bool,
    pub(super) broken: bool,
}

/// A call that has given its slot back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How long it ran.
    pub ran: Duration,
    /// Whether it had been answered for before.
    pub was_overdue: bool,
}

impl<T> Scheduler<T> {
    /// An empty scheduler that goes by `policy`.
    ///
    /// # Errors
    ///
    /// A knob of `policy` whose value is not allowed.
    pub fn new(policy: Policy) -> Result<Scheduler<T>, PolicyError> {
        policy.check()?;
        let shared = matches!(policy.dispatch, Dispatch::Fifo | Dispatch::RoundRobin);
        let listed: &[(Tenant, u32)] = if shared { &[] } else { &policy.homes };
        let (names, mut homes): (Vec<_>, Vec<_>) = listed.iter().cloned().unzip();
        homes.push(policy.slots - homes.iter().sum::<u32>());
        Ok(Scheduler {
            slots: Slots::new(&homes, policy.replace_overdue),
            tenants: Tenants::new(policy.dispatch, policy.tenant_max, &names),
            room: WaitingRoom::new(),
            estimate: Estimate::new(),
            totals: Totals::default(),
            closed: false,
            broken: false,
            policy,
        })
    }

    /// A call asks for a slot. Waiters that are due leave first, so that they never count as full.
    pub fn offer(&mut self, now: Time, offer: Offer<T>, effects: &mut Effects<T>) -> Decision<T> {
        self.assert_invariants();
        self.expire(now, effects);
        self.totals.offered += 1;
        let decision = self.decide(now, offer, effects);
        self.assert_invariants();
        decision
    }

    /// The call in `slot` has really ended; `None` if none runs there.
    pub fn finish(&mut self, now: Time, slot: SlotId) -> Option<Finished> {
        self.assert_invariants();
        let held = *self.slots.get(slot);
        let was_overdue = match held.state {
            State::Running => false,
            State::Overdue => true,
            State::Free | State::Retired => return None,
        };
        self.slots.release(slot);
        self.tenants.released(held.tenant);
        self.settle(held.tenant);
        let ran = now - held.started;
        self.estimate.record(ran);
        if !was_overdue {
            self.totals.finished += 1;
        }
        self.assert_invariants();
        Some(Finished { ran, was_overdue })
    }

    /// Takes a waiting call back; `None` if it waits no more.
    pub fn withdraw(&mut self, now: Time, id: WaiterId) -> Option<(T, Duration)> {
        self.assert_invariants();
        let at = self.room.find(id)?;
        let waiter = self.take_waiter(at);
        self.settle(waiter.tenant);
        self.totals.withdrawn += 1;
        self.assert_invariants();
        Some((waiter.payload, now - waiter.since))
    }

    /// Answers for the call in `slot` before it has ended: it is overdue from now on. Whether it
    /// was running.
    pub fn answer(&mut self, now: Time, slot: SlotId) -> bool {
        self.assert_invariants();
        let running = self.slots.get(slot).state == State::Running;
        if running {
            self.slots
                .make_overdue(slot, now + self.policy.cancel_grace);
            self.totals.overdue += 1;
        }
        self.assert_invariants();
        running
    }

    /// Makes up for the overdue call in `slot` with a spare slot; whether there was one to give.
    pub fn replace(&mut self, slot: SlotId) -> bool {
        self.assert_invariants();
        let replaced = self.slots.replace(slot);
        self.assert_invariants();
        replaced
    }

    /// Turns every waiter away.
    pub fn drain(&mut self, now: Time, effects: &mut Effects<T>) {
        self.assert_invariants();
        while let Some(at) = self.room.any() {
            let waiter = self.take_waiter(at);
            self.turn_away(now, waiter, Rejection::Drained, effects);
        }
        self.assert_invariants();
    }

    /// Takes no offers from now on, and turns every waiter away. Running calls run on.
    pub fn close(&mut self, now: Time, effects: &mut Effects<T>) {
        self.closed = true;
        self.drain(now, effects);
    }

    /// Whether the call in `slot` runs and has not been answered for.
    #[inline]
    pub fn is_running(&self, slot: SlotId) -> bool {
        self.slots.get(slot).state == State::Running
    }

    /// How long the call in `slot` has been running, and whether it is overdue; `None`: the slot is
    /// not held.
    pub fn occupant(&self, slot: SlotId, now: Time) -> Option<(Duration, bool)> {
        let held = self.slots.get(slot);
        let overdue = match held.state {
            State::Running => false,
            State::Overdue => true,
            State::Free | State::Retired => return None,
        };
        Some((now - held.started, overdue))
    }

    /// Whether offers are refused.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Gives `slot` to `tenant`; whether it is another tenant's home.
    pub(super) fn start(
        &mut self,
        now: Time,
        slot: SlotId,
        tenant: u32,
        deadline: Time,
        run_for: Duration,
    ) -> bool {
        let run_end = now + run_for;
        let (due, clock) = if deadline <= run_end {
            (deadline, TimeoutClock::Deadline)
        } else {
            (run_end, TimeoutClock::Run)
        };
        self.slots.take(slot, tenant, now, due, clock);
        self.tenants.dispatched(tenant);
        self.settle(tenant);
        self.slots.get(slot).home != self.tenants.get(tenant).home
    }

    /// Takes a waiter out of its line. Its tenant must be settled afterwards: not in here, because
    /// a tenant that is about to start must not be forgotten in between.
    pub(super) fn take_waiter(&mut self, at: u32) -> Waiter<T> {
        let tenant = self.room.get(at).tenant;
        let room = &mut self.room;
        self.tenants.line(tenant, |line| room.leave(at, line))
    }

    /// Brings the order of turns up to date after a change to `tenant`.
    #[inline]
    pub(super) fn settle(&mut self, tenant: u32) {
        let head = self.tenants.get(tenant).line.head;
        let first = head.map(|at| self.room.get(at).arrival);
        self.tenants.set_turn(tenant, first);
        self.tenants.leave(tenant);
    }

    pub(super) fn turn_away(
        &mut self,
        now: Time,
        waiter: Waiter<T>,
        rejection: Rejection,
        effects: &mut Effects<T>,
    ) {
        self.settle(waiter.tenant);
        self.totals.rejected += 1;
        let busy = matches!(rejection, Rejection::Busy(_));
        let retry_after = busy.then(|| self.hint(now, self.room.len()));
        let waited = now - waiter.since;
        effects.rejected.push(Rejected {
            rejection,
            payload: waiter.payload,
            waited,
            retry_after,
        });
    }

    pub(super) fn full(&self) -> BusyReason {
        if self.slots.running == 0 && self.slots.free_count == 0 && self.slots.overdue > 0 {
            BusyReason::SlotsStuck
        } else {
            BusyReason::SlotsFull
        }
    }
}
