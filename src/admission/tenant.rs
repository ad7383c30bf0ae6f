//! The tenants that have something in the partition right now, and whose turn it is.

use std::collections::{BTreeSet, HashMap};

use super::policy::Dispatch;
use super::waiting::Line;
use crate::call::Tenant;

/// The tenant of calls made on nobody's behalf; it is never forgotten.
pub(super) const NOBODY: u32 = 0;

/// One tenant.
#[derive(Debug)]
pub(super) struct TenantState {
    name: Option<Tenant>,
    pub(super) home: u32,
    /// Slots it holds, overdue ones included.
    pub(super) holding: u32,
    pub(super) line: Line,
    /// Twice the number of the dispatch that was its last; odd: just below that dispatch.
    stamp: u64,
    /// Its entry in the order of turns, while it has one.
    turn: Option<(u64, u64)>,
}

/// The tenants with calls in the partition, forgotten when they have none.
#[derive(Debug)]
pub(super) struct Tenants {
    all: Vec<TenantState>,
    unused: Vec<u32>,
    by_name: HashMap<Tenant, u32>,
    /// Whose turn it is, by home: (stamp, arrival of the first waiter, tenant).
    turns: Vec<BTreeSet<(u64, u64, u32)>>,
    /// Tenants by how many of their calls wait, for the fair share of a full queue.
    by_waiting: BTreeSet<(u32, u32)>,
    homes: HashMap<Tenant, u32>,
    dispatch: Dispatch,
    cap: u32,
    dispatched: u64,
    latest: u32,
}

impl Tenants {
    /// `homes` in order of their slots; everybody else's home is the one after them.
    pub(super) fn new(dispatch: Dispatch, cap: Option<u32>, homes: &[Tenant]) -> Tenants {
        let homes: HashMap<_, _> = homes
            .iter()
            .zip(0..)
            .map(|(name, home)| (name.clone(), home))
            .collect();
        let rest = homes.len() as u32;
        let mut tenants = Tenants {
            all: Vec::new(),
            unused: Vec::new(),
            by_name: HashMap::new(),
            turns: vec![BTreeSet::new(); rest as usize + 1],
            by_waiting: BTreeSet::new(),
            homes,
            dispatch,
            cap: cap.unwrap_or(u32::MAX),
            dispatched: 0,
            latest: NOBODY,
        };
        tenants.add(None, rest);
        tenants
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &TenantState {
        &self.all[at as usize]
    }

    /// The tenant of an offer; a new one has no memory.
    #[inline]
    pub(super) fn enter(&mut self, name: Option<&Tenant>) -> u32 {
        let Some(name) = name else { return NOBODY };
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let rest = self.turns.len() as u32 - 1;
        let home = self.homes.get(name).copied().unwrap_or(rest);
        self.add(Some(name.clone()), home)
    }

    /// A tenant's home, and whether it may hold one more slot; nobody is remembered for it.
    pub(super) fn look_up(&self, name: Option<&Tenant>) -> (u32, bool) {
        let rest = self.turns.len() as u32 - 1;
        let Some(name) = name else {
            return (rest, self.below_cap(NOBODY));
        };
        match self.by_name.get(name) {
            Some(&at) => (self.get(at).home, self.below_cap(at)),
            None => (self.homes.get(name).copied().unwrap_or(rest), self.cap > 0),
        }
    }

    fn add(&mut self, name: Option<Tenant>, home: u32) -> u32 {
        let state = TenantState {
            name: name.clone(),
            home,
            holding: 0,
            line: Line::default(),
            stamp: (2 * self.dispatched).saturating_sub(1),
            turn: None,
        };
        let at = if let Some(at) = self.unused.pop() {
            self.all[at as usize] = state;
            at
        } else {
            self.all.push(state);
            (self.all.len() - 1) as u32
        };
        if let Some(name) = name {
            self.by_name.insert(name, at);
        }
        at
    }

    /// Forgets a tenant that has nothing in the partition; the one served last is remembered, so
    /// that it does not come first again.
    #[inline]
    pub(super) fn leave(&mut self, at: u32) {
        let state = &self.all[at as usize];
        if at == NOBODY || at == self.latest || state.holding > 0 || state.line.len > 0 {
            return;
        }
        if let Some(name) = self.all[at as usize].name.take() {
            self.by_name.remove(&name);
            self.unused.push(at);
        }
    }

    /// Whether the tenant may hold one more slot.
    #[inline]
    pub(super) fn below_cap(&self, at: u32) -> bool {
        self.get(at).holding < self.cap
    }

    /// Notes that the tenant was given a slot.
    #[inline]
    pub(super) fn dispatched(&mut self, at: u32) {
        self.dispatched += 1;
        let before = self.latest;
        self.latest = at;
        let state = &mut self.all[at as usize];
        state.holding += 1;
        state.stamp = 2 * self.dispatched;
        if before != at {
            self.leave(before);
        }
    }

    /// Notes that the tenant gave a slot back; its turn must be set anew.
    #[inline]
    pub(super) fn released(&mut self, at: u32) {
        self.all[at as usize].holding -= 1;
    }

    /// Changes the tenant's line; its turn must be set anew.
    pub(super) fn line<R>(&mut self, at: u32, change: impl FnOnce(&mut Line) -> R) -> R {
        let line = &mut self.all[at as usize].line;
        let before = line.len;
        let answer = change(line);
        let after = line.len;
        self.by_waiting.remove(&(before, at));
        if after > 0 {
            self.by_waiting.insert((after, at));
        }
        answer
    }

    /// Puts the tenant in its place in the order of turns, or out of it if it has nobody waiting
    /// or is at its cap. `first` is the arrival of its first waiter.
    pub(super) fn set_turn(&mut self, at: u32, first: Option<u64>) {
        let below_cap = self.below_cap(at);
        let state = &mut self.all[at as usize];
        let stamp = if self.dispatch == Dispatch::Fifo {
            0
        } else {
            state.stamp
        };
        let turn = first.filter(|_| below_cap).map(|arrival| (stamp, arrival));
        if state.turn == turn {
            return;
        }
        let turns = &mut self.turns[state.home as usize];
        if let Some((stamp, arrival)) = state.turn {
            turns.remove(&(stamp, arrival, at));
        }
        if let Some((stamp, arrival)) = turn {
            turns.insert((stamp, arrival, at));
        }
        state.turn = turn;
    }

    /// The tenant of `home` whose turn it is.
    #[inline]
    pub(super) fn next_in(&self, home: u32) -> Option<u32> {
        self.turns[home as usize]
            .first()
            .map(|&(.., tenant)| tenant)
    }

    /// The tenant whose turn it is, whatever its home.
    pub(super) fn next_anywhere(&self) -> Option<u32> {
        self.turns
            .iter()
            .filter_map(BTreeSet::first)
            .min()
            .map(|&(.., tenant)| tenant)
    }

    /// The tenant with most calls waiting, and how many.
    pub(super) fn longest_line(&self) -> Option<(u32, u32)> {
        self.by_waiting
            .last()
            .map(|&(waiting, tenant)| (tenant, waiting))
    }

    /// How many tenants are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.by_name.len()
    }
}
