//! The waiting room: who waits, in which order, and until when.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decision::Offer;
use crate::outcome::TimeoutClock;
use crate::time::Time;

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
    pub(super) arrival: u64,
    pub(super) since: Time,
    pub(super) until: Time,
    pub(super) deadline: Time,
    pub(super) run_for: Duration,
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
}

/// All waiting calls of a partition. Every step is O(log n); memory follows the most that waited.
#[derive(Debug)]
pub(super) struct WaitingRoom<T> {
    seats: Vec<Option<Waiter<T>>>,
    empty: Vec<u32>,
    by_due: BTreeSet<(Time, u64, u32)>,
}

impl<T> WaitingRoom<T> {
    pub(super) fn new() -> WaitingRoom<T> {
        WaitingRoom {
            seats: Vec::new(),
            empty: Vec::new(),
            by_due: BTreeSet::new(),
        }
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
        self.by_due
            .first()
            .filter(|&&(due, ..)| due <= now)
            .map(|&(.., at)| at)
    }

    pub(super) fn get(&self, at: u32) -> &Waiter<T> {
        self.seats[at as usize]
            .as_ref()
            .expect("a line only holds waiters")
    }

    /// The seat of `id`, if it still waits.
    pub(super) fn find(&self, id: WaiterId) -> Option<u32> {
        let waiter = self.seats.get(id.at as usize)?.as_ref()?;
        (waiter.arrival == id.arrival).then_some(id.at)
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
        match line.tail {
            Some(tail) => self.seat(tail).after = Some(at),
            None => line.head = Some(at),
        }
        line.tail = Some(at);
        line.len += 1;
        self.by_due.insert((due, arrival, at));
        WaiterId { at, arrival }
    }

    /// Takes the waiter at `at` out of `line`.
    pub(super) fn leave(&mut self, at: u32, line: &mut Line) -> Waiter<T> {
        let waiter = self.seats[at as usize]
            .take()
            .expect("a line only holds waiters");
        self.empty.push(at);
        self.by_due.remove(&(waiter.due(), waiter.arrival, at));
        match waiter.before {
            Some(before) => self.seat(before).after = waiter.after,
            None => line.head = waiter.after,
        }
        match waiter.after {
            Some(after) => self.seat(after).before = waiter.before,
            None => line.tail = waiter.before,
        }
        line.len -= 1;
        waiter
    }

    fn seat(&mut self, at: u32) -> &mut Waiter<T> {
        self.seats[at as usize]
            .as_mut()
            .expect("a line only holds waiters")
    }

    /// Any waiter.
    pub(super) fn any(&self) -> Option<u32> {
        self.by_due.first().map(|&(.., at)| at)
    }
}
