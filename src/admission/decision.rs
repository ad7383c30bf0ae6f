//! What is offered, and what the scheduler says of it.

use std::time::Duration;

use super::slots::SlotId;
use super::waiting::WaiterId;
use crate::call::Tenant;
use crate::outcome::{BusyReason, TimeoutClock};
use crate::time::Time;

/// A call that asks for a slot.
#[derive(Clone, Debug)]
pub struct Offer<T> {
    /// Handed back when the call starts or is turned away.
    pub payload: T,
    /// On whose behalf; nobody's is a tenant like any other.
    pub tenant: Option<Tenant>,
    /// When the call gives up waiting; a time that is not later than now: it never waits.
    pub wait_until: Time,
    /// When its caller has no more use for it; [`Time::MAX`]: never.
    pub deadline: Time,
    /// How long it may run before it is answered for and counted as overdue; [`Duration::MAX`]:
    /// for ever.
    pub run_for: Duration,
    /// Whether it is made from inside this very partition, so that waiting could deadlock.
    pub reentrant: bool,
    /// Which attempt at the same logical call it is, from 1; only the jitter of a hint goes by it.
    pub attempt: u32,
}

impl<T> Offer<T> {
    /// An offer without a limit: it waits and runs for as long as it takes.
    pub fn new(payload: T) -> Offer<T> {
        Offer {
            payload,
            tenant: None,
            wait_until: Time::MAX,
            deadline: Time::MAX,
            run_for: Duration::MAX,
            reentrant: false,
            attempt: 1,
        }
    }

    /// The same offer of `payload`.
    pub(crate) fn with<U>(self, payload: U) -> Offer<U> {
        let Offer { tenant, wait_until, deadline, run_for, reentrant, attempt, .. } = self;
        Offer { payload, tenant, wait_until, deadline, run_for, reentrant, attempt }
    }
}

/// What becomes of an offer.
#[derive(Debug)]
#[must_use]
pub enum Decision<T> {
    /// It has a slot.
    Start(Started<T>),
    /// It waits for one.
    Wait(WaiterId),
    /// It is turned away.
    Reject(Rejected<T>),
}

/// A call that has a slot until [`Scheduler::finish`](super::Scheduler::finish).
#[derive(Debug)]
pub struct Started<T> {
    /// Its slot.
    pub slot: SlotId,
    /// The caller's payload.
    pub payload: T,
    /// How long it waited.
    pub waited: Duration,
    /// Whether it runs in a slot that is another tenant's home.
    pub borrowed: bool,
}

/// A call that gets no slot.
#[derive(Debug)]
pub struct Rejected<T> {
    /// Why.
    pub rejection: Rejection,
    /// The caller's payload.
    pub payload: T,
    /// How long it waited.
    pub waited: Duration,
    /// When a slot is likely free for it.
    pub retry_after: Option<Duration>,
}

/// Why a call gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Something was full.
    Busy(BusyReason),
    /// Its caller's deadline is over.
    Deadline,
    /// The partition takes no calls any more.
    Closed,
    /// It was waiting when the queue was drained.
    Drained,
}

/// A call that is answered for although its work has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The slot it still holds.
    pub slot: SlotId,
    /// The limit that ran out.
    pub clock: TimeoutClock,
}

/// What a step brought about besides its own answer. The caller acts on it after the step.
#[derive(Debug)]
pub struct Effects<T> {
    /// Waiters that have a slot now, in order of start.
    pub started: Vec<Started<T>>,
    /// Waiters that get none.
    pub rejected: Vec<Rejected<T>>,
    /// Running calls whose limit ran out: answer them, and call their work off.
    pub overdue: Vec<Overdue>,
    /// Overdue calls that did not end within the grace: end their work by force.
    pub abort: Vec<SlotId>,
    /// Slots given back to the reserve: release as many.
    pub returned: u32,
}

impl<T> Effects<T> {
    /// Whether there is nothing to act on.
    pub fn is_empty(&self) -> bool {
        self.started.is_empty()
            && self.rejected.is_empty()
            && self.overdue.is_empty()
            && self.abort.is_empty()
            && self.returned == 0
    }
}

impl<T> Default for Effects<T> {
    fn default() -> Effects<T> {
        Effects {
            started: Vec::new(),
            rejected: Vec::new(),
            overdue: Vec::new(),
            abort: Vec::new(),
            returned: 0,
        }
    }
}
