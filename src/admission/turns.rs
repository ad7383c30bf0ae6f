//! The order in which waiting tenants are served.

use std::collections::BTreeSet;

/// A tenant that waits and may start; the least is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// What it was given so far, by its weight.
    pub(super) pass: u64,
    /// When it was last given a slot.
    pub(super) stamp: u64,
    /// The arrival of its first waiter.
    pub(super) arrival: u64,
    pub(super) tenant: u32,
}

/// The turns of all tenants, by home and over all homes.
#[derive(Debug)]
pub(super) struct Turns {
    by_home: Vec<BTreeSet<Turn>>,
    /// Kept only where there is more than one home.
    everywhere: BTreeSet<Turn>,
}

impl Turns {
    pub(super) fn new(homes: usize) -> Turns {
        Turns { by_home: vec![BTreeSet::new(); homes], everywhere: BTreeSet::new() }
    }

    pub(super) fn insert(&mut self, home: u32, turn: Turn) {
        self.by_home[home as usize].insert(turn);
        if self.by_home.len() > 1 {
            self.everywhere.insert(turn);
        }
    }

    pub(super) fn remove(&mut self, home: u32, turn: Turn) {
        self.by_home[home as usize].remove(&turn);
        self.everywhere.remove(&turn);
    }

    /// The tenant of `home` whose turn it is.
    #[inline]
    pub(super) fn next_in(&self, home: u32) -> Option<u32> {
        self.by_home[home as usize].first().map(|turn| turn.tenant)
    }

    /// The tenant whose turn it is, whatever its home.
    #[inline]
    pub(super) fn next_anywhere(&self) -> Option<u32> {
        let turns = match &self.by_home[..] {
            [only] => only,
            _ => &self.everywhere,
        };
        turns.first().map(|turn| turn.tenant)
    }
}
