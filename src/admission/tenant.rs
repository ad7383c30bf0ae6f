//! The tenants that have something in the partition right now, and what is remembered of them.

use std::collections::{BTreeSet, HashMap};

use super::counts::Totals;
use super::policy::{Dispatch, Policy};
use super::snapshot::TenantCounts;
use super::turns::{Turn, Turns};
use super::waiting::Line;
use crate::call::Tenant;

/// The tenant of calls made on nobody's behalf; its entry is never given away.
const NOBODY: u32 = 0;
/// Room for this many is kept when the last tenant has left.
const ENTRIES_KEPT: usize = 1024;
/// How far a tenant of weight 1 is set back for a slot; one of weight n, by an n-th of it.
const STRIDE: u64 = 1 << 16;

/// One tenant.
#[derive(Debug)]
pub(super) struct TenantState {
    pub(super) name: Option<Tenant>,
    pub(super) home: u32,
    /// Slots it holds, overdue ones included.
    pub(super) holding: u32,
    pub(super) line: Line,
    pub(super) totals: Totals,
    stride: u64,
    pass: u64,
    /// Twice the number of the dispatch that was its last; odd: just below that dispatch.
    stamp: u64,
    /// Its entry in the order of turns, while it has one.
    turn: Option<Turn>,
}

impl TenantState {
    fn is_idle(&self) -> bool {
        self.holding == 0 && self.line.len == 0
    }

    pub(super) fn counts(&self) -> TenantCounts {
        TenantCounts { totals: self.totals, holding: self.holding, waiting: self.line.len }
    }
}

/// What a policy says of a tenant.
#[derive(Clone, Copy, Debug)]
struct Listed {
    home: u32,
    stride: u64,
}

/// The tenants with calls in the partition, forgotten when they have none.
#[derive(Debug)]
pub(super) struct Tenants {
    pub(super) all: Vec<TenantState>,
    unused: Vec<u32>,
    by_name: HashMap<Tenant, u32>,
    turns: Turns,
    /// Tenants by how many of their calls wait, then by the newest of them, for the fair share of
    /// a full queue.
    by_waiting: BTreeSet<(u32, u64, u32)>,
    /// How many wait, by home.
    pub(super) waiting_in: Vec<u32>,
    listed: HashMap<Tenant, Listed>,
    unlisted: Listed,
    in_order_of_arrival: bool,
    cap: u32,
    dispatched: u64,
    /// The pass of the latest dispatch: a newcomer is set back from here.
    pass: u64,
    /// The tenant of the latest dispatch. It is remembered until there is another, so that it does
    /// not come first again.
    latest: u32,
    /// What forgotten tenants had counted.
    pub(super) forgotten: Totals,
}

impl Tenants {
    /// Nobody yet. Home slots count only where `policy` goes by them, and so do weights.
    pub(super) fn new(policy: &Policy) -> Tenants {
        let mut listed = HashMap::new();
        let mut unlisted = Listed { home: 0, stride: 0 };
        match policy.dispatch {
            Dispatch::Fifo => {}
            Dispatch::RoundRobin => {
                unlisted.stride = STRIDE;
                for (name, weight) in &policy.weights {
                    let stride = STRIDE / u64::from((*weight).max(1));
                    listed.insert(name.clone(), Listed { home: 0, stride });
                }
            }
            Dispatch::Strict | Dispatch::Borrow => {
                unlisted.home = policy.homes.len() as u32;
                for ((name, _), home) in policy.homes.iter().zip(0..) {
                    listed.insert(name.clone(), Listed { home, stride: 0 });
                }
            }
        }
        let mut tenants = Tenants {
            all: Vec::new(),
            unused: Vec::new(),
            by_name: HashMap::new(),
            turns: Turns::new(unlisted.home as usize + 1),
            by_waiting: BTreeSet::new(),
            waiting_in: vec![0; unlisted.home as usize + 1],
            listed,
            unlisted,
            in_order_of_arrival: policy.dispatch == Dispatch::Fifo,
            cap: policy.tenant_max.unwrap_or(u32::MAX),
            dispatched: 0,
            pass: 0,
            latest: NOBODY,
            forgotten: Totals::default(),
        };
        tenants.add(None, unlisted);
        tenants
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &TenantState {
        &self.all[at as usize]
    }

    /// The tenant of an offer. One that had nothing in the partition has no memory: it is put just
    /// below the latest dispatch, so that it neither overtakes who has waited for longer nor stands
    /// behind those who come later.
    #[inline]
    pub(super) fn enter(&mut self, name: Option<&Tenant>) -> u32 {
        let at = match name {
            None if self.latest == NOBODY || !self.get(NOBODY).is_idle() => return NOBODY,
            None => NOBODY,
            Some(name) => match self.by_name.get(name) {
                Some(&known) => return known,
                None => self.add_named(name),
            },
        };
        let state = &mut self.all[at as usize];
        state.pass = self.pass + state.stride;
        state.stamp = (2 * self.dispatched).saturating_sub(1);
        at
    }

    fn add_named(&mut self, name: &Tenant) -> u32 {
        let listed = self.listed.get(name).copied().unwrap_or(self.unlisted);
        let at = self.add(Some(name.clone()), listed);
        self.by_name.insert(name.clone(), at);
        at
    }

    /// A tenant's home, and whether it may hold one more slot; nobody is remembered for it.
    pub(super) fn look_up(&self, name: Option<&Tenant>) -> (u32, bool) {
        let Some(name) = name else {
            return (self.get(NOBODY).home, self.below_cap(NOBODY));
        };
        match self.by_name.get(name) {
            Some(&at) => (self.get(at).home, self.below_cap(at)),
            None => {
                let listed = self.listed.get(name).copied().unwrap_or(self.unlisted);
                (listed.home, self.cap > 0)
            }
        }
    }

    fn add(&mut self, name: Option<Tenant>, listed: Listed) -> u32 {
        let state = TenantState {
            name,
            home: listed.home,
            holding: 0,
            line: Line::default(),
            totals: Totals::default(),
            stride: listed.stride,
            pass: 0,
            stamp: 0,
            turn: None,
        };
        if let Some(at) = self.unused.pop() {
            self.all[at as usize] = state;
            at
        } else {
            self.all.push(state);
            (self.all.len() - 1) as u32
        }
    }

    /// Forgets a tenant that has nothing in the partition.
    #[inline]
    pub(super) fn leave(&mut self, at: u32) {
        if at != NOBODY && self.get(at).is_idle() {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: u32) {
        if at != self.latest
            && let Some(name) = self.all[at as usize].name.take()
        {
            let counted = std::mem::take(&mut self.all[at as usize].totals);
            self.forgotten.add(&counted);
            self.by_name.remove(&name);
            self.unused.push(at);
        }
        let alone = self.by_name.len() == usize::from(self.latest != NOBODY);
        if alone && self.all.len() > ENTRIES_KEPT && self.get(self.latest).is_idle() {
            self.compact();
        }
    }

    /// Lets the memory of a crowd go when all have left but the latest, which is idle: nothing
    /// refers to it by its place.
    fn compact(&mut self) {
        self.all.swap(1, self.latest.max(1) as usize);
        self.all.truncate(2);
        self.all.shrink_to(ENTRIES_KEPT);
        self.latest = self.latest.min(1);
        self.unused = Vec::new();
        self.by_name = HashMap::new();
        if let Some(name) = self.all[1].name.clone() {
            self.by_name.insert(name, 1);
        } else {
            self.unused.push(1);
        }
    }

    /// Whether the tenant may hold one more slot.
    #[inline]
    pub(super) fn below_cap(&self, at: u32) -> bool {
        self.get(at).holding < self.cap
    }

    /// Notes that the tenant was given a slot; its turn must be set anew.
    #[inline]
    pub(super) fn dispatched(&mut self, at: u32) {
        self.dispatched += 1;
        let before = std::mem::replace(&mut self.latest, at);
        let state = &mut self.all[at as usize];
        state.holding += 1;
        state.stamp = 2 * self.dispatched;
        self.pass = self.pass.max(state.pass);
        state.pass = self.pass + state.stride;
        if before != at {
            self.leave(before);
        }
    }

    /// Notes that the tenant gave a slot back; its turn must be set anew.
    #[inline]
    pub(super) fn released(&mut self, at: u32) {
        let holding = &mut self.all[at as usize].holding;
        *holding = holding.saturating_sub(1);
    }

    /// Changes the tenant's line; its turn must be set anew.
    pub(super) fn line<R>(&mut self, at: u32, change: impl FnOnce(&mut Line) -> R) -> R {
        let state = &mut self.all[at as usize];
        let line = &mut state.line;
        let before = (line.len, line.newest, at);
        let answer = change(line);
        let after = (line.len, line.newest, at);
        let waiting = &mut self.waiting_in[state.home as usize];
        *waiting = waiting.saturating_sub(before.0) + after.0;
        self.by_waiting.remove(&before);
        if line.len > 0 {
            self.by_waiting.insert(after);
        }
        answer
    }

    /// Whether the tenant has a turn, or may come to have one.
    #[inline]
    pub(super) fn may_turn(&self, at: u32) -> bool {
        let state = self.get(at);
        state.line.len > 0 || state.turn.is_some()
    }

    /// Puts the tenant in its place in the order of turns, or out of it if it has nobody waiting
    /// or is at its cap. Whether that changed anything.
    pub(super) fn set_turn(&mut self, at: u32) -> bool {
        let state = &mut self.all[at as usize];
        let waits = state.line.len > 0 && state.holding < self.cap;
        let turn = waits.then(|| {
            let shared = self.in_order_of_arrival;
            Turn {
                pass: state.pass,
                stamp: if shared { 0 } else { state.stamp },
                arrival: state.line.oldest,
                tenant: at,
            }
        });
        if state.turn == turn {
            return false;
        }
        if let Some(turn) = state.turn {
            self.turns.remove(state.home, turn);
        }
        if let Some(turn) = turn {
            self.turns.insert(state.home, turn);
        }
        state.turn = turn;
        true
    }

    /// The tenant of `home` whose turn it is.
    #[inline]
    pub(super) fn next_in(&self, home: u32) -> Option<u32> {
        self.turns.next_in(home)
    }

    /// The tenant whose turn it is, whatever its home.
    #[inline]
    pub(super) fn next_anywhere(&self) -> Option<u32> {
        self.turns.next_anywhere()
    }

    /// The tenant with most calls waiting, and how many; of several, the one whose newest came last.
    pub(super) fn longest_line(&self) -> Option<(u32, u32)> {
        self.by_waiting.last().map(|&(waiting, _, tenant)| (tenant, waiting))
    }

    /// How many tenants are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.by_name.len()
    }
}
