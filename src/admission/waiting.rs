//! The waiting room: who waits, in which order, and until when.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decision::Offer;
use crate::outcome::TimeoutClock;
use crate::time::Time;

/// Room for this many is kept when the last waiter has left.
const SEATS_KEPT: usize = 1024;

/// Whether `due` is past or present; [`Time::MAX`], "never", is not even at the end of time.
#[inline]
pub(super) fn has_come(due: Time, now: Time) -> bool {
    due <= now && due < Time::MAX
}

/// A waiting call, until it starts or is turned away. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    at: u32,
    arrival: u64,
}

/// One waiting call.
#[derive(Debug)]
pub(super) struct Waiter<T> {
    pub(super) payload: T,
    pub(super) tenant: u32,
    pub(super) since: Time,
    pub(super) deadline: Time,
    pub(super) run_for: Duration,
    pub(super) attempt: u32,
    arrival: u64,
    until: Time,
    /// Neighbours in its tenant's line.
    before: Option<u32>,
    after: Option<u32>,
}

impl<T> Waiter<T> {
    pub(super) fn new(tenant: u32, arrival: u64, since: Time, offer: Offer<T>) -> Waiter<T> {
        Waiter {
            tenant,
            arrival,
            since,
            payload: offer.payload,
            until: offer.wait_until,
            deadline: offer.deadline,
            run_for: offer.run_for,
            attempt: offer.attempt,
            before: None,
            after: None,
        }
    }

    /// The limit that ends its wait: its caller's deadline, or `None`, the wait itself.
    pub(super) fn clock(&self) -> Option<TimeoutClock> {
        (self.deadline <= self.until).then_some(TimeoutClock::Deadline)
    }

    fn due(&self) -> Time {
        self.until.min(self.deadline)
    }
}

/// One tenant's line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) head: Option<u32>,
    pub(super) tail: Option<u32>,
    pub(super) len: u32,
    /// The arrivals of head and tail, if there is one.
    pub(super) oldest: u64,
    pub(super) newest: u64,
}

/// All waiting calls of a partition. Every step is O(log n); memory follows the most that waited
/// since it was last empty.
#[derive(Debug)]
pub(super) struct WaitingRoom<T> {
    seats: Vec<Option<Waiter<T>>>,
    empty: Vec<u32>,
    by_due: BTreeSet<(Time, u64, u32)>,
}

impl<T> WaitingRoom<T> {
    pub(super) fn new() -> WaitingRoom<T> {
        WaitingRoom { seats: Vec::new(), empty: Vec::new(), by_due: BTreeSet::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        (self.seats.len() - self.empty.len()) as u32
    }

    /// When the next waiter expires.
    #[inline]
    pub(super) fn next_due(&self) -> Time {
        self.by_due.first().map_or(Time::MAX, |&(due, ..)| due)
    }

    /// The waiter that expires next, if it does so by `now`.
    #[inline]
    pub(super) fn expired(&self, now: Time) -> Option<u32> {
        self.by_due.first().filter(|&&(due, ..)| has_come(due, now)).map(|&(.., at)| at)
    }

    /// Any waiter.
    pub(super) fn any(&self) -> Option<u32> {
        self.by_due.first().map(|&(.., at)| at)
    }

    /// The seat of `id`, if it still waits.
    pub(super) fn find(&self, id: WaiterId) -> Option<u32> {
        let waiter = self.get(id.at)?;
        (waiter.arrival == id.arrival).then_some(id.at)
    }

    /// The waiter at `at`.
    pub(super) fn get(&self, at: u32) -> Option<&Waiter<T>> {
        self.seats.get(at as usize)?.as_ref()
    }

    fn get_mut(&mut self, at: Option<u32>) -> Option<&mut Waiter<T>> {
        self.seats.get_mut(at? as usize)?.as_mut()
    }

    /// Seats a waiter at the end of `line`.
    pub(super) fn join(&mut self, mut waiter: Waiter<T>, line: &mut Line) -> WaiterId {
        waiter.before = line.tail;
        let arrival = waiter.arrival;
        let due = waiter.due();
        let at = if let Some(at) = self.empty.pop() {
            self.seats[at as usize] = Some(waiter);
            at
        } else {
            self.seats.push(Some(waiter));
            (self.seats.len() - 1) as u32
        };
        if let Some(last) = self.get_mut(line.tail) {
            last.after = Some(at);
        } else {
            line.head = Some(at);
            line.oldest = arrival;
        }
        line.tail = Some(at);
        line.newest = arrival;
        line.len += 1;
        self.by_due.insert((due, arrival, at));
        WaiterId { at, arrival }
    }

    /// Takes the waiter at `at` out of its `line`; `None`, which cannot be, if nobody sits there.
    pub(super) fn leave(&mut self, at: u32, line: &mut Line) -> Option<Waiter<T>> {
        let waiter = self.seats.get_mut(at as usize)?.take()?;
        self.empty.push(at);
        self.by_due.remove(&(waiter.due(), waiter.arrival, at));
        match self.get_mut(waiter.before) {
            Some(before) => before.after = waiter.after,
            None => line.head = waiter.after,
        }
        match self.get_mut(waiter.after) {
            Some(after) => after.before = waiter.before,
            None => line.tail = waiter.before,
        }
        line.oldest = self.arrival(line.head);
        line.newest = self.arrival(line.tail);
        line.len = line.len.saturating_sub(1);
        if self.by_due.is_empty() && self.seats.len() > SEATS_KEPT {
            self.seats = Vec::new();
            self.empty = Vec::new();
        }
        Some(waiter)
    }

    fn arrival(&self, at: Option<u32>) -> u64 {
        at.and_then(|at| self.get(at)).map_or(0, |waiter| waiter.arrival)
    }
}
