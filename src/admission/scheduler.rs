//! The scheduler: offers, starts, waits, ends.

use std::time::Duration;

use super::counts::Totals;
use super::decision::{Effects, Rejected, Rejection};
use super::estimate::Estimate;
use super::hint::Hints;
use super::policy::{Dispatch, Policy, PolicyError};
use super::slots::{SlotId, Slots, State};
use super::tenant::Tenants;
use super::waiting::{Waiter, WaiterId, WaitingRoom};
use crate::outcome::TimeoutClock;
use crate::time::Time;

/// Decides for one partition who starts, waits or is turned away.
///
/// `offer`, `finish`, `withdraw`, `drain` and `close` never start a waiter; [`Scheduler::dispatch`]
/// does, and is called last whenever something changed.
///
/// Every step is O(log n) in tenants and waiters for each waiter that it starts or turns away, and
/// looks at one bit a slot at most; only where calls fall due, and for a hint, at every slot.
/// Memory is bounded by slots and queue, and a crowd that has left leaves none behind.
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
    pub(super) hints: Hints,
    pub(super) totals: Totals,
    pub(super) closed: bool,
    pub(super) broken: bool,
}

/// A call that has given its slot back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
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
        let mut homes: Vec<u32> = match policy.dispatch {
            Dispatch::Fifo | Dispatch::RoundRobin => Vec::new(),
            Dispatch::Strict | Dispatch::Borrow => {
                policy.homes.iter().map(|&(_, slots)| slots).collect()
            }
        };
        homes.push(policy.slots - homes.iter().sum::<u32>());
        Ok(Scheduler {
            slots: Slots::new(&homes, policy.replace_overdue, policy.reserve_max),
            tenants: Tenants::new(&policy),
            room: WaitingRoom::new(),
            estimate: Estimate::new(),
            hints: Hints::new(policy.jitter_seed),
            totals: Totals::default(),
            closed: false,
            broken: false,
            policy,
        })
    }

    /// The call in `slot` has really ended; `None` if none runs there.
    #[inline]
    pub fn finish(&mut self, now: Time, slot: SlotId) -> Option<Finished> {
        self.assert_invariants();
        let held = self.slots.get(slot)?;
        let (tenant, started) = (held.tenant, held.started);
        let was_overdue = match held.state {
            State::Running => false,
            State::Overdue => true,
            State::Free | State::Retired => return None,
        };
        self.slots.release(slot);
        self.tenants.released(tenant);
        if !was_overdue {
            self.count(tenant, |totals| &mut totals.finished);
        }
        self.settle(tenant);
        let ran_ns = now.as_nanos().saturating_sub(started.as_nanos());
        self.estimate.record(ran_ns);
        self.hints.last_end = now;
        self.assert_invariants();
        Some(Finished { ran_ns, was_overdue })
    }

    /// Takes a waiting call back; `None` if it waits no more.
    pub fn withdraw(&mut self, now: Time, id: WaiterId) -> Option<(T, Duration)> {
        self.assert_invariants();
        let at = self.room.find(id)?;
        let waiter = self.take_waiter(at)?;
        self.count(waiter.tenant, |totals| &mut totals.withdrawn);
        self.settle(waiter.tenant);
        self.assert_invariants();
        Some((waiter.payload, now - waiter.since))
    }

    /// Answers for the call in `slot` before it has ended: it is overdue from now on. Whether it
    /// was running.
    pub fn answer(&mut self, now: Time, slot: SlotId) -> bool {
        self.assert_invariants();
        let Some(held) = self.slots.get(slot) else {
            return false;
        };
        let (state, tenant) = (held.state, held.tenant);
        if state == State::Running {
            let abort_at = now + self.policy.cancel_grace;
            self.slots.make_overdue(slot, abort_at);
            self.count(tenant, |totals| &mut totals.overdue);
        }
        self.assert_invariants();
        state == State::Running
    }

    /// Makes up for the overdue call in `slot` with a spare slot; whether there was one to give.
    /// If not, it gets the next that comes back.
    pub fn replace(&mut self, slot: SlotId) -> bool {
        self.assert_invariants();
        let replaced = self.slots.replace(slot);
        self.assert_invariants();
        replaced
    }

    /// Turns every waiter away.
    pub fn drain(&mut self, now: Time, effects: &mut Effects<T>) {
        self.assert_invariants();
        self.turn_all_away(now, Rejection::Drained, effects);
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
        self.slots.get(slot).is_some_and(|slot| slot.state == State::Running)
    }

    /// How long the call in `slot` has been running, and whether it is overdue; `None`: the slot is
    /// not held.
    pub fn occupant(&self, slot: SlotId, now: Time) -> Option<(Duration, bool)> {
        let held = self.slots.get(slot)?;
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

    /// Gives `slot` to `tenant`, which must be settled afterwards.
    #[inline]
    pub(super) fn start(
        &mut self,
        now: Time,
        slot: SlotId,
        tenant: u32,
        deadline: Time,
        run_until: Time,
    ) {
        let (due, clock) = if deadline <= run_until {
            (deadline, TimeoutClock::Deadline)
        } else {
            (run_until, TimeoutClock::Run)
        };
        self.slots.take(slot, tenant, now, due, clock);
        self.tenants.dispatched(tenant);
    }

    /// Whether `slot` is another tenant's home.
    pub(super) fn is_borrowed(&self, slot: SlotId, tenant: u32) -> bool {
        let home = self.tenants.get(tenant).home;
        self.slots.get(slot).is_some_and(|slot| slot.home != home)
    }

    /// Takes a waiter out of its line. Its tenant must be settled afterwards: not in here, because
    /// a tenant that is about to start must not be forgotten in between.
    pub(super) fn take_waiter(&mut self, at: u32) -> Option<Waiter<T>> {
        let tenant = self.room.get(at)?.tenant;
        let room = &mut self.room;
        self.tenants.line(tenant, |line| room.leave(at, line))
    }

    /// Brings the order of turns up to date after a change to `tenant`, and forgets it if it has
    /// nothing left.
    #[inline]
    pub(super) fn settle(&mut self, tenant: u32) {
        if self.tenants.may_turn(tenant) && self.tenants.set_turn(tenant) {
            let home = self.tenants.get(tenant).home;
            let wanted = self.tenants.next_in(home).is_some();
            self.slots.set_wanted(home, wanted);
        }
        self.tenants.leave(tenant);
    }

    /// Answers a waiter that gets no slot.
    pub(super) fn turn_away(
        &mut self,
        now: Time,
        waiter: Waiter<T>,
        rejection: Rejection,
        retry_after: Option<Duration>,
        effects: &mut Effects<T>,
    ) {
        self.count(waiter.tenant, |totals| &mut totals.rejected);
        self.settle(waiter.tenant);
        effects.rejected.push(Rejected {
            rejection,
            payload: waiter.payload,
            waited: now - waiter.since,
            retry_after,
        });
    }

    pub(super) fn turn_all_away(
        &mut self,
        now: Time,
        rejection: Rejection,
        effects: &mut Effects<T>,
    ) {
        while let Some(at) = self.room.any() {
            let Some(waiter) = self.take_waiter(at) else {
                return self.fail();
            };
            self.turn_away(now, waiter, rejection, None, effects);
        }
    }
}
