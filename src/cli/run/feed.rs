//! What has been read and is not offered yet: which call is next, and when.
//!
//! A call waits here for its tenant's earlier turn, for its time, for the hint of its last attempt,
//! or, with neither turn nor time, for room in its partition. It is a pure structure: the time and
//! the partitions' state are told.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::call::Call;
use crate::call::Tenant;
use crate::time::Time;

/// How many calls are held at once, and how many bytes of lines; then reading pauses.
const HELD_MAX: usize = 4096;
const HELD_BYTES_MAX: usize = 16 << 20;

/// Calls on their way from the input to the runtime.
#[derive(Default)]
pub(super) struct Feed {
    /// May be offered now, whatever their partition says.
    ready: VecDeque<Call>,
    /// By time, then in order of arrival here.
    timed: BTreeMap<(Time, u64), Call>,
    next_timed: u64,
    /// By tenant, while a turn of theirs has not ended.
    turns: HashMap<Option<Tenant>, Turns>,
    /// By partition.
    backlogs: BTreeMap<Arc<str>, Backlog>,
    held: usize,
    held_bytes: usize,
}

/// One tenant's present turn, and what belongs to later ones.
struct Turns {
    present: u64,
    /// Calls of the present turn without a final outcome.
    open: usize,
    later: VecDeque<Call>,
}

/// Calls that wait for room in one partition. Tenants take turns.
#[derive(Default)]
struct Backlog {
    lanes: VecDeque<(Option<Tenant>, VecDeque<Call>)>,
}

impl Feed {
    /// Whether another call may be read.
    pub(super) fn has_room(&self) -> bool {
        self.held < HELD_MAX && self.held_bytes < HELD_BYTES_MAX
    }

    /// How many calls are held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes a call that was read. `partition` is its tool's; a call of no partition is refused by
    /// the runtime at once, so it waits for none.
    pub(super) fn push(&mut self, call: Call, partition: Option<&Arc<str>>, start: Time) {
        self.hold(&call);
        match (call.turn, call.at, partition) {
            (Some(turn), ..) => self.push_turn(turn, call, start),
            (None, None, Some(partition)) => {
                let backlog = self.backlogs.entry(Arc::clone(partition)).or_default();
                backlog.push(call);
            }
            (None, ..) => self.schedule(call, start),
        }
    }

    /// Takes back a call that is to be offered again at `at`.
    pub(super) fn retry(&mut self, call: Call, at: Time) {
        self.hold(&call);
        self.put_timed(call, at);
    }

    /// The next call that is to be offered by `now` come what may, and how late it is for its
    /// `at_ms`.
    pub(super) fn due(&mut self, now: Time, start: Time) -> Option<(Call, Duration)> {
        if let Some(call) = self.ready.pop_front() {
            self.release(&call);
            return Some((call, Duration::ZERO));
        }
        let first = self.timed.first_entry().filter(|first| first.key().0 <= now)?;
        let call = first.remove();
        self.release(&call);
        let late = match call.at {
            Some(at) if call.offers == 0 && call.turn.is_none() => now - (start + at),
            _ => Duration::ZERO,
        };
        Some((call, late))
    }

    /// When [`Feed::due`] has something next.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.timed.first_key_value().map(|((at, _), _)| *at)
    }

    /// Partitions that calls wait for.
    pub(super) fn waited_for(&self) -> Vec<Arc<str>> {
        self.backlogs.keys().cloned().collect()
    }

    /// The next call for `partition`, of a tenant for whom it is not full.
    pub(super) fn next_for(
        &mut self,
        partition: &Arc<str>,
        is_full: impl Fn(Option<&Tenant>) -> bool,
    ) -> Option<Call> {
        let backlog = self.backlogs.get_mut(partition)?;
        let call = backlog.next(is_full)?;
        if backlog.lanes.is_empty() {
            self.backlogs.remove(partition);
        }
        self.release(&call);
        Some(call)
    }

    /// `call` has its final outcome: its tenant's next turn may begin.
    pub(super) fn ended(&mut self, call: &Call, start: Time) {
        if call.turn.is_none() {
            return;
        }
        let Some(turns) = self.turns.get_mut(&call.tenant) else {
            return;
        };
        turns.open -= 1;
        if turns.open > 0 {
            return;
        }
        let Some(first) = turns.later.front() else {
            self.turns.remove(&call.tenant);
            return;
        };
        turns.present = first.turn.unwrap_or_default();
        let present = turns.present;
        let later = std::mem::take(&mut turns.later);
        let (now, later): (VecDeque<_>, _) =
            later.into_iter().partition(|call| call.turn == Some(present));
        turns.later = later;
        turns.open = now.len();
        now.into_iter().for_each(|call| self.schedule(call, start));
    }

    /// Everything that is held, in the order it was read.
    pub(super) fn drain(&mut self) -> Vec<Call> {
        let Feed { ready, timed, turns, backlogs, .. } = std::mem::take(self);
        let later = turns.into_values().flat_map(|turns| turns.later);
        let lanes = backlogs.into_values().flat_map(|backlog| backlog.lanes);
        let backlog = lanes.flat_map(|(_, calls)| calls);
        let mut all: Vec<_> = ready.into_iter().chain(timed.into_values()).collect();
        all.extend(later.chain(backlog));
        all.sort_by_key(|call| call.about.line);
        all
    }

    fn push_turn(&mut self, turn: u64, call: Call, start: Time) {
        let turns = self.turns.entry(call.tenant.clone()).or_insert(Turns {
            present: turn,
            open: 0,
            later: VecDeque::new(),
        });
        if turns.present == turn {
            turns.open += 1;
            self.schedule(call, start);
        } else {
            turns.later.push_back(call);
        }
    }

    fn schedule(&mut self, call: Call, start: Time) {
        match call.at {
            Some(at) => self.put_timed(call, start + at),
            None => self.ready.push_back(call),
        }
    }

    fn put_timed(&mut self, call: Call, at: Time) {
        self.timed.insert((at, self.next_timed), call);
        self.next_timed += 1;
    }

    fn hold(&mut self, call: &Call) {
        self.held += 1;
        self.held_bytes += call.bytes;
    }

    fn release(&mut self, call: &Call) {
        self.held -= 1;
        self.held_bytes -= call.bytes;
    }
}

impl Backlog {
    fn push(&mut self, call: Call) {
        match self.lanes.iter_mut().find(|(tenant, _)| *tenant == call.tenant) {
            Some((_, lane)) => lane.push_back(call),
            None => self.lanes.push_back((call.tenant.clone(), VecDeque::from([call]))),
        }
    }

    fn next(&mut self, is_full: impl Fn(Option<&Tenant>) -> bool) -> Option<Call> {
        let open = |(tenant, _): &(Option<Tenant>, _)| !is_full(tenant.as_ref());
        let at = self.lanes.iter().position(open)?;
        let (tenant, mut lane) = self.lanes.remove(at)?;
        let call = lane.pop_front()?;
        if !lane.is_empty() {
            self.lanes.push_back((tenant, lane));
        }
        Some(call)
    }
}
