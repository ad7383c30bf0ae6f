//! The hints that have been handed out and whose time has not come: how many callers are about to
//! come back, so that the next one is told to come after them.

use std::collections::VecDeque;

use crate::time::Time;

/// The most entries; past that, one stands for several callers.
const SIZE: usize = 128;

/// Callers that were told to come back, evenly between two times; if it is one caller, at `until`.
#[derive(Clone, Copy, Debug)]
struct Promise {
    from: Time,
    until: Time,
    callers: u32,
    tenant: u32,
    home: u32,
}

impl Promise {
    /// Strikes out those of several whose time has come.
    fn expire(&mut self, now: Time) {
        if now > self.from {
            let (gone, all) = (now - self.from, self.until - self.from);
            let gone = f64::from(self.callers) * (gone.as_secs_f64() / all.as_secs_f64());
            self.callers -= (gone as u32).min(self.callers - 1);
            self.from = now;
        }
    }

    /// When the caller comes who has `before` of them before it.
    fn time(&self, before: u32) -> Time {
        let share = f64::from(before + 1) / f64::from(self.callers);
        self.from + (self.until - self.from).mul_f64(share)
    }
}

/// Whose promises count: everybody's, those of a home, those of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Everybody,
    Home(u32),
    Tenant(u32),
}

/// A ledger of fixed size, in order of time. A step costs a pass over it at most.
#[derive(Debug)]
pub(super) struct Ledger {
    promises: VecDeque<Promise>,
}

impl Ledger {
    pub(super) fn new() -> Ledger {
        Ledger { promises: VecDeque::with_capacity(SIZE) }
    }

    /// Strikes out what was promised for `now` or earlier: whoever took it up has come.
    pub(super) fn expire(&mut self, now: Time) {
        while self.promises.front().is_some_and(|first| first.until <= now) {
            self.promises.pop_front();
        }
        self.promises
            .iter_mut()
            .take_while(|promise| promise.from < now)
            .for_each(|promise| promise.expire(now));
    }

    fn of(&self, whose: Whose) -> impl Iterator<Item = &Promise> {
        self.promises.iter().filter(move |promise| match whose {
            Whose::Everybody => true,
            Whose::Home(home) => promise.home == home,
            Whose::Tenant(tenant) => promise.tenant == tenant,
        })
    }

    /// How many callers are still to come.
    pub(super) fn callers(&self, whose: Whose) -> u32 {
        self.of(whose).fold(0, |sum, promise| sum.saturating_add(promise.callers))
    }

    /// When the caller comes that has `before` others before it.
    pub(super) fn nth(&self, whose: Whose, mut before: u32) -> Option<Time> {
        self.of(whose).find_map(|promise| {
            let left = before.checked_sub(promise.callers);
            before = left.unwrap_or(before);
            left.is_none().then(|| promise.time(before))
        })
    }

    /// Notes that a caller was told to come back `at` then.
    pub(super) fn enter(&mut self, at: Time, tenant: u32, home: u32) {
        if self.promises.len() == SIZE {
            self.halve();
        }
        let after = self.promises.partition_point(|promise| promise.until <= at);
        self.promises.insert(after, Promise { from: at, until: at, callers: 1, tenant, home });
    }

    /// Merges neighbours two by two, as the later's: nobody who is still to come is left out, and
    /// of a large mixed crowd each tenant keeps about its share.
    fn halve(&mut self) {
        for pair in 0..SIZE / 2 {
            let (one, other) = (self.promises[2 * pair], self.promises[2 * pair + 1]);
            let callers = one.callers.saturating_add(other.callers);
            self.promises[pair] = Promise { from: one.from.min(other.from), callers, ..other };
        }
        self.promises.truncate(SIZE / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> Time {
        Time::from_nanos(time)
    }

    #[test]
    fn a_promise_counts_until_its_time_has_come() {
        let mut ledger = Ledger::new();
        for (time, tenant, home) in [(30, 1, 0), (10, 2, 0), (20, 1, 1)] {
            ledger.enter(at(time), tenant, home);
        }
        let mut seen = Vec::new();
        for now in [9, 10, 25, 30] {
            ledger.expire(at(now));
            seen.push(
                [Whose::Everybody, Whose::Tenant(1), Whose::Home(0)].map(|w| ledger.callers(w)),
            );
        }
        assert_eq!(seen, [[3, 2, 2], [2, 2, 1], [1, 1, 1], [0, 0, 0]]);
    }

    #[test]
    fn past_its_size_it_forgets_nobody_and_grows_no_more() {
        let mut ledger = Ledger::new();
        let room = ledger.promises.capacity();
        let crowd = 100_000;
        for time in 0..crowd {
            ledger.enter(at(time), (time % 2) as u32, 0);
            assert!(ledger.promises.len() <= SIZE);
        }
        assert_eq!(ledger.promises.capacity(), room);
        assert_eq!(u64::from(ledger.callers(Whose::Everybody)), crowd);
        for now in (0..crowd).step_by(997) {
            ledger.expire(at(now));
            let (left, late) = (crowd - 1 - now, crowd / (SIZE as u64 / 4));
            let told = u64::from(ledger.callers(Whose::Everybody));
            assert!((left..=left + late).contains(&told), "{told} of {left} at {now}");
        }
        ledger.expire(at(crowd));
        assert_eq!(ledger.callers(Whose::Everybody), 0);
    }
}
