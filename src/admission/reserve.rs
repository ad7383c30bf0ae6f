//! The reserve: slots that several partitions may use above their own.

use std::collections::{BTreeSet, VecDeque};

/// Counts the reserve's free slots and keeps the line of partitions that want one.
///
/// Taking a slot or else getting in line is one step, and a slot that is given back goes straight
/// to the first in line: no partition ever waits beside a free slot. A partition is in line at
/// most once and gets one slot each time, so that partitions take turns. Every step is O(log n).
///
/// Whoever changes a partition ends with [`dispatch`](super::Scheduler::dispatch), gives back what
/// was [returned](super::Effects::returned), and takes as long as the partition [wants
/// more](super::Scheduler::wants_reserve). Whoever releases a slot owes a
/// [grant](super::Scheduler::grant_reserve) to the partition that comes next.
///
/// ```
/// use watertight::admission::{Effects, Offer, Policy, Reserve, Scheduler};
/// use watertight::time::Time;
///
/// let (search, tickets) = (0, 1);
/// let mut reserve = Reserve::new(1);
/// assert!(reserve.take_or_register(tickets), "it is free");
///
/// let now = Time::ZERO;
/// let mut effects = Effects::default();
/// let policy = Policy { reserve_max: 1, ..Policy::new(1) };
/// let mut scheduler = Scheduler::new(policy)?;
/// let _starts = scheduler.offer(now, Offer::new("first"), &mut effects);
/// let _waits = scheduler.offer(now, Offer::new("second"), &mut effects);
/// scheduler.dispatch(now, &mut effects);
/// assert!(scheduler.wants_reserve() && !reserve.take_or_register(search));
///
/// assert_eq!(reserve.release(), Some(search), "tickets gives it back, and search is next");
/// scheduler.grant_reserve(now, &mut effects);
/// assert_eq!(effects.started[0].payload, "second");
/// # Ok::<(), watertight::admission::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reserve {
    slots: u32,
    free: u32,
    line: VecDeque<usize>,
    in_line: BTreeSet<usize>,
}

impl Reserve {
    /// A reserve of `slots` free slots; none is a reserve that never lends.
    pub fn new(slots: u32) -> Reserve {
        Reserve { slots, free: slots, line: VecDeque::new(), in_line: BTreeSet::new() }
    }

    /// Takes a free slot, if there is one. Nobody is in line then.
    pub fn take(&mut self) -> bool {
        let taken = self.free > 0;
        self.free -= u32::from(taken);
        taken
    }

    /// Takes a free slot; if there is none, `partition` is in line from now on, and
    /// [`Reserve::release`] will hand it one.
    pub fn take_or_register(&mut self, partition: usize) -> bool {
        let taken = self.take();
        if !taken && self.slots > 0 && self.in_line.insert(partition) {
            self.line.push_back(partition);
        }
        taken
    }

    /// Gives a slot back. It belongs to the partition that is returned, which must be granted it;
    /// `None`: nobody was in line, and it is free.
    pub fn release(&mut self) -> Option<usize> {
        if self.free == self.slots {
            return None;
        }
        let next = self.line.pop_front();
        match &next {
            Some(partition) => {
                self.in_line.remove(partition);
            }
            None => self.free += 1,
        }
        next
    }

    /// All its slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots that nobody has.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Partitions in line.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_take_turns_and_wait_once() {
        let mut reserve = Reserve::new(2);
        assert!(reserve.take_or_register(0) && reserve.take_or_register(0));
        for _ in 0..3 {
            assert!(!reserve.take_or_register(2));
            assert!(!reserve.take_or_register(1));
        }
        assert_eq!(reserve.waiting(), 2);
        assert_eq!(reserve.release(), Some(2));
        assert!(!reserve.take_or_register(2));
        assert_eq!(reserve.release(), Some(1));
        assert_eq!(reserve.release(), Some(2));
        assert_eq!((reserve.release(), reserve.free()), (None, 1));
    }

    #[test]
    fn nothing_is_lent_that_is_not_there() {
        let mut reserve = Reserve::new(0);
        assert!(!reserve.take_or_register(5));
        assert_eq!((reserve.waiting(), reserve.release()), (0, None));

        let mut reserve = Reserve::new(1);
        assert_eq!(reserve.release(), None, "nothing had been taken");
        assert_eq!(reserve.free(), 1);
        assert!(reserve.take() && !reserve.take());
    }
}
