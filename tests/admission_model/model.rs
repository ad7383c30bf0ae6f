//! The rules of admission once more, as lists and loops: nothing is indexed, counted or kept in
//! order that could be looked up instead.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use watertight::admission::{Dispatch, Policy, Rejection};
use watertight::outcome::{BusyReason, TimeoutClock};
use watertight::time::Time;

use crate::observed::{Answer, Observed, Start};

/// A tenant's number; 0 is nobody.
pub(crate) type Tenant = u8;

/// An offer, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    pub(crate) tenant: Tenant,
    pub(crate) wait_until: Time,
    pub(crate) deadline: Time,
    pub(crate) run_for: Duration,
    pub(crate) reentrant: bool,
    /// Whether the reserve has a slot for it.
    pub(crate) reserve: bool,
}

/// As the scheduler's totals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) offered: u64,
    pub(crate) finished: u64,
    pub(crate) overdue: u64,
    pub(crate) rejected: u64,
    pub(crate) withdrawn: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) call: u32,
    pub(crate) since: Time,
    pub(crate) offered: Offered,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    Spare,
    Free,
    Running { due: Time, clock: TimeoutClock },
    Overdue { abort_at: Option<Time>, replaced: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) home: usize,
    pub(crate) tenant: Tenant,
    /// Whether its overdue call asked for a spare and got none.
    pub(crate) asked: bool,
}

impl Slot {
    pub(crate) fn occupied(&self) -> bool {
        matches!(self.state, State::Running { .. } | State::Overdue { .. })
    }
}

/// What is remembered of a tenant. Of two, the one with the lower memory was served less recently.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Memory {
    /// What it was given, by its weight.
    pass: f64,
    /// The dispatch that was its last…
    dispatch: u64,
    /// …or only just below that one.
    served: bool,
}

pub(crate) struct Model {
    pub(crate) policy: Policy,
    pub(crate) now: Time,
    pub(crate) slots: Vec<Slot>,
    /// In order of arrival.
    pub(crate) waiting: Vec<Waiter>,
    pub(crate) closed: bool,
    /// The homes of slots that are the reserve's.
    pub(crate) borrowed: Vec<usize>,
    pub(crate) returned: u32,
    /// What has become of the offers of every tenant that is remembered…
    pub(crate) counts: BTreeMap<Tenant, Counts>,
    /// …and of those that are not.
    pub(crate) forgotten: Counts,
    pub(crate) latest: Option<Tenant>,
    memory: HashMap<Tenant, Memory>,
    dispatches: u64,
    pass: f64,
    calls: u32,
}

impl Model {
    pub(crate) fn new(policy: &Policy) -> Model {
        let blank = Slot { state: State::Free, home: 0, tenant: 0, asked: false };
        let mut slots = Vec::new();
        if matches!(policy.dispatch, Dispatch::Strict | Dispatch::Borrow) {
            for (home, (_, count)) in policy.homes.iter().enumerate() {
                slots.extend((0..*count).map(|_| Slot { home, ..blank }));
            }
        }
        let mut model = Model {
            policy: policy.clone(),
            now: Time::ZERO,
            slots,
            waiting: Vec::new(),
            closed: false,
            borrowed: Vec::new(),
            returned: 0,
            counts: BTreeMap::new(),
            forgotten: Counts::default(),
            latest: None,
            memory: HashMap::new(),
            dispatches: 0,
            pass: 0.0,
            calls: 0,
        };
        let everybody = model.home_of(u8::MAX);
        model.slots.resize(policy.slots as usize, Slot { home: everybody, ..blank });
        let spares = policy.replace_overdue + policy.reserve_max;
        let spare = Slot { state: State::Spare, ..blank };
        model.slots.extend((0..spares).map(|_| spare));
        model
    }

    pub(crate) fn offer(&mut self, offered: Offered) -> Observed {
        let mut seen = Observed::default();
        self.expire(&mut seen);
        let call = self.calls;
        self.calls += 1;
        self.count(offered.tenant).offered += 1;
        let answer = self.decide(call, offered, &mut seen);
        if matches!(answer, Answer::Reject(_)) {
            self.count(offered.tenant).rejected += 1;
        }
        self.forget();
        seen.answer = Some(answer);
        seen
    }

    fn decide(&mut self, call: u32, offered: Offered, seen: &mut Observed) -> Answer {
        let tenant = offered.tenant;
        if self.closed {
            return Answer::Reject(Rejection::Closed);
        }
        if offered.deadline <= self.now {
            return Answer::Reject(Rejection::Deadline);
        }
        self.meet(tenant);
        if let Some(slot) = self.slot_for_newcomer(tenant) {
            return Answer::Start(self.start(slot, call, self.now, &offered));
        }
        if self.newcomer_may_borrow(tenant) && offered.reserve {
            let slot = self.borrow(tenant);
            return Answer::Start(self.start(slot, call, self.now, &offered));
        }
        let busy = |reason| Answer::Reject(Rejection::Busy(reason));
        if offered.reentrant {
            return busy(BusyReason::Reentrant);
        }
        if offered.wait_until <= self.now || self.policy.queue == 0 {
            return busy(self.full());
        }
        let own = self.waiting_of(tenant);
        if self.policy.tenant_queue.is_some_and(|most| own >= most as usize) {
            return busy(BusyReason::TenantQueueFull);
        }
        if self.waiting.len() >= self.policy.queue as usize {
            // Of the tenants with most waiting, the newest waiter of all.
            let most = self.waiting.iter().map(|w| self.waiting_of(w.offered.tenant)).max();
            let most = most.unwrap_or(0);
            if own + 1 >= most {
                return busy(BusyReason::QueueFull);
            }
            let of_longest = |w: &Waiter| self.waiting_of(w.offered.tenant) == most;
            let at = self.waiting.iter().rposition(of_longest).unwrap();
            let loser = self.waiting.remove(at);
            self.reject(&loser, Rejection::Busy(BusyReason::Displaced), seen);
        }
        self.waiting.push(Waiter { call, since: self.now, offered });
        Answer::Wait
    }

    /// The free slot a newcomer goes straight into: a home slot before a borrowed one, the lowest
    /// first, and never past a waiter that may start and has the better claim.
    fn slot_for_newcomer(&self, tenant: Tenant) -> Option<usize> {
        if self.at_cap(tenant) {
            return None;
        }
        let home = self.home_of(tenant);
        let ready = |claims: &dyn Fn(usize) -> bool| {
            let mut others = self.waiting.iter().map(|w| w.offered.tenant);
            others.any(|other| !self.at_cap(other) && claims(self.home_of(other)))
        };
        let own = self.free_slots().find(|&slot| self.slots[slot].home == home);
        match own {
            Some(slot) => (!ready(&|other| other == home)).then_some(slot),
            None if self.policy.dispatch == Dispatch::Borrow && !ready(&|_| true) => {
                self.free_slots().next()
            }
            None => None,
        }
    }

    fn newcomer_may_borrow(&self, tenant: Tenant) -> bool {
        let mut others = self.waiting.iter().map(|w| w.offered.tenant);
        self.borrowed.len() < self.policy.reserve_max as usize
            && !self.at_cap(tenant)
            && others.all(|other| self.at_cap(other))
    }

    pub(crate) fn dispatch(&mut self) -> Observed {
        let mut seen = Observed::default();
        self.expire(&mut seen);
        while self.answer_due(&mut seen) {}
        while let Some((slot, waiter)) = self.next_start() {
            self.start_waiter(slot, waiter, &mut seen);
        }
        self.forget();
        seen.returned = std::mem::take(&mut self.returned);
        seen
    }

    /// The slot that is filled next, and the place of the waiter that fills it.
    fn next_start(&self) -> Option<(usize, usize)> {
        for slot in self.free_slots() {
            let home = self.slots[slot].home;
            if let Some(waiter) = self.first_waiter(|other| self.home_of(other) == home) {
                return Some((slot, waiter));
            }
        }
        if self.policy.dispatch != Dispatch::Borrow {
            return None;
        }
        Some((self.free_slots().next()?, self.first_waiter(|_| true)?))
    }

    /// Among the waiters of eligible tenants below their cap, the one whose turn it is.
    fn first_waiter(&self, eligible: impl Fn(Tenant) -> bool) -> Option<usize> {
        let may_start = |w: &&Waiter| eligible(w.offered.tenant) && !self.at_cap(w.offered.tenant);
        let mut ready: Vec<&Waiter> = self.waiting.iter().filter(may_start).collect();
        if self.policy.dispatch != Dispatch::Fifo {
            // Heads of the tenants' lines, in order of arrival; `min_by` keeps the first of equals.
            let mut heads: Vec<&Waiter> = Vec::new();
            for waiter in ready {
                if !heads.iter().any(|head| head.offered.tenant == waiter.offered.tenant) {
                    heads.push(waiter);
                }
            }
            let memory = |w: &Waiter| self.memory[&w.offered.tenant];
            let least = heads.iter().map(|w| memory(w)).min_by(|a, b| a.partial_cmp(b).unwrap());
            ready = heads.into_iter().filter(|w| Some(memory(w)) == least).collect();
        }
        let first = ready.first()?.call;
        self.waiting.iter().position(|w| w.call == first)
    }

    pub(crate) fn wants_reserve(&self) -> bool {
        self.borrowed.len() < self.policy.reserve_max as usize
            && self.next_start().is_none()
            && self.first_waiter(|_| true).is_some()
    }

    pub(crate) fn grant_reserve(&mut self) -> Observed {
        let mut seen = self.dispatch();
        if self.wants_reserve() {
            let waiter = self.first_waiter(|_| true).unwrap();
            let slot = self.borrow(self.waiting[waiter].offered.tenant);
            self.start_waiter(slot, waiter, &mut seen);
            self.forget();
        } else {
            seen.returned += 1;
        }
        seen
    }

    fn borrow(&mut self, tenant: Tenant) -> usize {
        let home = self.home_of(tenant);
        self.borrowed.push(home);
        self.activate_spare(home)
    }

    fn start_waiter(&mut self, slot: usize, waiter: usize, seen: &mut Observed) {
        let waiter = self.waiting.remove(waiter);
        let start = self.start(slot, waiter.call, waiter.since, &waiter.offered);
        seen.started.push(start);
    }

    fn start(&mut self, slot: usize, call: u32, since: Time, offered: &Offered) -> Start {
        let end = self.now + offered.run_for;
        let (due, clock) = if offered.deadline <= end {
            (offered.deadline, TimeoutClock::Deadline)
        } else {
            (end, TimeoutClock::Run)
        };
        self.slots[slot].state = State::Running { due, clock };
        self.slots[slot].tenant = offered.tenant;
        self.dispatches += 1;
        self.latest = Some(offered.tenant);
        let stride = 1.0 / self.weight(offered.tenant);
        let memory = self.memory.entry(offered.tenant).or_default();
        self.pass = self.pass.max(memory.pass);
        *memory = Memory { pass: self.pass + stride, dispatch: self.dispatches, served: true };
        Start {
            call,
            slot: slot as u32,
            waited: self.now - since,
            borrowed: self.slots[slot].home != self.home_of(offered.tenant),
        }
    }

    /// A tenant without anything in the partition has no memory: it is stamped just below the
    /// latest dispatch, unless that was its own.
    fn meet(&mut self, tenant: Tenant) {
        if self.holding(tenant) == 0 && self.waiting_of(tenant) == 0 && self.latest != Some(tenant)
        {
            let stride = 1.0 / self.weight(tenant);
            let memory =
                Memory { pass: self.pass + stride, dispatch: self.dispatches, served: false };
            self.memory.insert(tenant, memory);
        }
    }
}
