//! The scheduler: offers, starts, waits, ends.

use std::time::Duration;

use super::decision::{Decision, Effects, Offer, Overdue, Rejected, Rejection, Started};
use super::estimate::Estimate;
use super::policy::{Dispatch, Policy, PolicyError};
use super::slots::{SlotId, Slots, State};
use super::tenant::Tenants;
use super::waiting::{Waiter, WaiterId, WaitingRoom};
use crate::call::Tenant;
use crate::outcome::{BusyReason, TimeoutClock};
use crate::time::Time;

/// The most slots a hint looks at.
const HINT_SAMPLE: usize = 64;

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
    policy: Policy,
    slots: Slots,
    tenants: Tenants,
    room: WaitingRoom<T>,
    estimate: Estimate,
    totals: Totals,
    closed: bool,
    broken: bool,
}

/// What has become of all offers so far. Each offer is in one of these, waits, or runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Offers made.
    pub offered: u64,
    /// Runs that ended before anybody answered for them.
    pub finished: u64,
    /// Runs that were answered for before they ended: limits, deadlines, cancels.
    pub overdue: u64,
    /// Offers and waiters turned away, for whatever reason.
    pub rejected: u64,
    /// Waiters that were taken back.
    pub withdrawn: u64,
}

/// How full the partition is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Slots by the policy, spares not counted.
    pub slots: u32,
    /// Calls that run and are waited for.
    pub running: u32,
    /// Calls that run although they have been answered for.
    pub overdue: u32,
    /// Slots that a call could start in.
    pub free: u32,
    /// Overdue calls that a spare slot makes up for.
    pub replaced: u32,
    /// Calls that wait.
    pub waiting: u32,
    /// Tenants that are remembered.
    pub tenants: usize,
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

    /// Does what is due at `now` and gives free slots to waiters, lowest slot first. A waiter that
    /// is due at this instant is never started.
    pub fn dispatch(&mut self, now: Time, effects: &mut Effects<T>) {
        self.expire(now, effects);
        self.answer_due(now, effects);
        while self.room.len() > 0
            && self.slots.free_count > 0
            && let Some((slot, tenant)) = self.next_start()
        {
            let head = self
                .tenants
                .get(tenant)
                .line
                .head
                .expect("it is somebody's turn");
            // It starts before it leaves its line: a tenant with neither would be forgotten.
            let &Waiter {
                deadline, run_for, ..
            } = self.room.get(head);
            let borrowed = self.start(now, slot, tenant, deadline, run_for);
            let waiter = self.take_waiter(head);
            let waited = now - waiter.since;
            effects.started.push(Started {
                slot,
                payload: waiter.payload,
                waited,
                borrowed,
            });
        }
        self.assert_invariants();
    }

    /// When [`Scheduler::dispatch`] next has something to do if nothing else happens. It may be
    /// too early, never too late.
    pub fn next_due(&self) -> Time {
        self.room.next_due().min(self.slots.next_due())
    }

    /// How full the partition is.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            slots: self.policy.slots,
            running: self.slots.running,
            overdue: self.slots.overdue,
            free: self.slots.free_count,
            replaced: self.slots.replaced,
            waiting: self.room.len(),
            tenants: self.tenants.remembered(),
        }
    }

    /// What has become of all offers so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether an assertion failed: the partition has closed itself for good.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether offers are refused.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn decide(&mut self, now: Time, offer: Offer<T>, effects: &mut Effects<T>) -> Decision<T> {
        if self.closed {
            return self.refuse(offer.payload, Rejection::Closed, None);
        }
        if offer.deadline <= now {
            return self.refuse(offer.payload, Rejection::Deadline, None);
        }
        let tenant = self.tenants.enter(offer.tenant.as_ref());
        if let Some(slot) = self.eligible(tenant) {
            let borrowed = self.start(now, slot, tenant, offer.deadline, offer.run_for);
            let waited = Duration::ZERO;
            return Decision::Start(Started {
                slot,
                payload: offer.payload,
                waited,
                borrowed,
            });
        }
        if let Some(reason) = self.no_room(now, tenant, &offer, effects) {
            let ahead = self.room.len();
            let hint = (reason != BusyReason::Reentrant).then(|| self.hint(now, ahead));
            self.tenants.leave(tenant);
            return self.refuse(offer.payload, Rejection::Busy(reason), hint);
        }
        Decision::Wait(self.wait(now, tenant, offer))
    }

    fn refuse(
        &mut self,
        payload: T,
        rejection: Rejection,
        retry_after: Option<Duration>,
    ) -> Decision<T> {
        self.totals.rejected += 1;
        let waited = Duration::ZERO;
        Decision::Reject(Rejected {
            rejection,
            payload,
            waited,
            retry_after,
        })
    }

    /// The slot an offer of `tenant` may go straight into: never past a waiter that could have it.
    fn eligible(&self, tenant: u32) -> Option<SlotId> {
        if self.slots.free_count == 0 || !self.tenants.below_cap(tenant) {
            return None;
        }
        let home = self.tenants.get(tenant).home;
        if self.tenants.next_in(home).is_some() {
            return None;
        }
        let own = self.slots.free_in(home);
        if own.is_some() || self.policy.dispatch != Dispatch::Borrow {
            return own;
        }
        match self.tenants.next_anywhere() {
            Some(_) => None,
            None => self.slots.free_where(|_| true),
        }
    }

    /// Why the offer may not wait, if so. A full queue makes room for a tenant with fewer waiting
    /// than the one with most, whose newest waiter loses its place.
    fn no_room(
        &mut self,
        now: Time,
        tenant: u32,
        offer: &Offer<T>,
        effects: &mut Effects<T>,
    ) -> Option<BusyReason> {
        if offer.reentrant {
            return Some(BusyReason::Reentrant);
        }
        if offer.wait_until <= now || self.policy.queue == 0 {
            return Some(self.full());
        }
        let waiting = self.tenants.get(tenant).line.len;
        if self.policy.tenant_queue.is_some_and(|most| waiting >= most) {
            return Some(BusyReason::TenantQueueFull);
        }
        if self.room.len() < self.policy.queue {
            return None;
        }
        let (longest, most) = self.tenants.longest_line()?;
        if most <= waiting + 1 {
            return Some(BusyReason::QueueFull);
        }
        let newest = self.tenants.get(longest).line.tail?;
        let waiter = self.take_waiter(newest);
        self.turn_away(now, waiter, Rejection::Busy(BusyReason::Displaced), effects);
        None
    }

    fn wait(&mut self, now: Time, tenant: u32, offer: Offer<T>) -> WaiterId {
        let waiter = Waiter::new(tenant, self.totals.offered, now, offer);
        let room = &mut self.room;
        let id = self.tenants.line(tenant, |line| room.join(waiter, line));
        self.settle(tenant);
        id
    }

    /// Which waiter starts next, and where: the lowest slot whose home has a turn; failing that,
    /// under `Borrow`, the lowest slot of a home without one.
    fn next_start(&self) -> Option<(SlotId, u32)> {
        let home = self
            .slots
            .free_where(|home| self.tenants.next_in(home).is_some());
        if let Some(slot) = home {
            return Some((slot, self.tenants.next_in(self.slots.get(slot).home)?));
        }
        if self.policy.dispatch != Dispatch::Borrow {
            return None;
        }
        Some((
            self.slots.free_where(|_| true)?,
            self.tenants.next_anywhere()?,
        ))
    }

    /// Gives `slot` to `tenant`; whether it is another tenant's home.
    fn start(
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

    fn take_waiter(&mut self, at: u32) -> Waiter<T> {
        let tenant = self.room.get(at).tenant;
        let room = &mut self.room;
        let waiter = self.tenants.line(tenant, |line| room.leave(at, line));
        self.settle(tenant);
        waiter
    }

    /// Brings the order of turns up to date after a change to `tenant`.
    #[inline]
    fn settle(&mut self, tenant: u32) {
        let head = self.tenants.get(tenant).line.head;
        let first = head.map(|at| self.room.get(at).arrival);
        self.tenants.set_turn(tenant, first);
        self.tenants.leave(tenant);
    }

    fn expire(&mut self, now: Time, effects: &mut Effects<T>) {
        while let Some(at) = self.room.expired(now) {
            let waiter = self.take_waiter(at);
            let rejection = match waiter.clock() {
                Some(TimeoutClock::Deadline) => Rejection::Deadline,
                Some(TimeoutClock::Run) | None => Rejection::Busy(self.full()),
            };
            self.turn_away(now, waiter, rejection, effects);
        }
    }

    fn turn_away(
        &mut self,
        now: Time,
        waiter: Waiter<T>,
        rejection: Rejection,
        effects: &mut Effects<T>,
    ) {
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

    fn answer_due(&mut self, now: Time, effects: &mut Effects<T>) {
        let Effects { overdue, abort, .. } = effects;
        let first = overdue.len();
        self.slots.take_due(now, |slot, held| {
            if held.state == State::Running {
                overdue.push(Overdue {
                    slot,
                    clock: held.clock,
                });
            } else {
                abort.push(slot);
            }
        });
        for due in &overdue[first..] {
            self.answer(now, due.slot);
        }
    }

    fn full(&self) -> BusyReason {
        if self.slots.running == 0 && self.slots.free_count == 0 && self.slots.overdue > 0 {
            BusyReason::SlotsStuck
        } else {
            BusyReason::SlotsFull
        }
    }

    /// When a slot is likely free for a call with `ahead` others before it: the median of what is
    /// left of the runs under way, in order of their ends, then whole runs for those ahead who
    /// need a second round.
    fn hint(&self, now: Time, ahead: u32) -> Duration {
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

    /// Checks the two identities that hold between any two steps. If one does not, the partition
    /// closes itself for good: its callers are refused, nobody else is touched.
    fn assert_invariants(&mut self) {
        let Slots {
            running,
            overdue,
            free_count,
            replaced,
            ..
        } = self.slots;
        let slots_add_up = running + overdue + free_count == self.policy.slots + replaced;
        let t = &self.totals;
        let accounted = t.finished + t.overdue + t.rejected + t.withdrawn;
        let in_hand = u64::from(self.room.len()) + u64::from(running);
        if !slots_add_up || t.offered != accounted + in_hand {
            self.broken = true;
            self.closed = true;
        }
    }
}
