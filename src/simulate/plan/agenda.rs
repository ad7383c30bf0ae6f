//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::admission::SlotId;
use crate::time::Time;

/// Everything that is due, earliest first. At one instant slots are freed, then the partitions look
/// around, then calls come, new ones and retries; within each, first planned is first.
#[derive(Default)]
pub(super) struct Agenda {
    due: BinaryHeap<Reverse<Due>>,
    planned: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at: Time,
    rank: u8,
    planned: u64,
    pub(super) what: What,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The work in a slot ends.
    Finish { partition: u32, slot: SlotId },
    /// A partition's scheduler has something to do by itself.
    Wake { partition: u32 },
    /// The next call of a load comes.
    Arrive { load: u32 },
    /// A call comes again.
    Retry { call: u64 },
}

impl Agenda {
    pub(super) fn plan(&mut self, at: Time, what: What) {
        let rank = match what {
            What::Finish { .. } => 0,
            What::Wake { .. } => 1,
            What::Arrive { .. } | What::Retry { .. } => 2,
        };
        self.due.push(Reverse(Due { at, rank, planned: self.planned, what }));
        self.planned += 1;
    }

    pub(super) fn next(&mut self) -> Option<Due> {
        self.due.pop().map(|Reverse(due)| due)
    }
}
