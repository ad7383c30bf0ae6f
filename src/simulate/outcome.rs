//! What became of every request, tick by tick and in sum.

use serde::Serialize;

use super::scenario::Scenario;

/// A simulation from its first tick to its last. As JSON it is complete: whoever has it can draw
/// every state without working anything out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The inputs.
    pub scenario: Scenario,
    /// All requests, by number.
    pub requests: Vec<Request>,
    /// Every tick, from the first on.
    pub ticks: Vec<Tick>,
    /// The sums of each tenant at the last tick.
    pub tenants: BySide<Tally>,
    /// The sum of both.
    pub all: Tally,
}

/// One thing of tenant A's and one of tenant B's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BySide<T> {
    /// A's.
    pub a: T,
    /// B's.
    pub b: T,
}

/// One of the two tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The tenant whose requests may stall.
    A,
    /// The tenant that suffers from it, or does not.
    B,
}

/// One request, as it stands at the last tick. All times are ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Request {
    /// Its number, from 0 in order of offer.
    pub id: u32,
    /// Whose it is.
    pub tenant: Side,
    /// When it was offered.
    pub arrived: u32,
    /// When it got a slot.
    pub started: Option<u32>,
    /// When it completed, timed out or was rejected.
    pub ended: Option<u32>,
    /// The slot it had, for good.
    pub slot: Option<u32>,
    /// Whether that slot is the other tenant's home.
    pub borrowed: bool,
    /// How it ended, or where it is.
    pub state: State,
}

/// How a request ended, or where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It held its slot for as long as it had to.
    Completed,
    /// There was no room to wait.
    Rejected,
    /// Its deadline came first, while it waited or ran.
    TimedOut,
    /// It waits.
    Waiting,
    /// It holds a slot.
    Running,
}

/// The state after one tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tick {
    /// Its number.
    pub tick: u32,
    /// The request in each slot.
    pub slots: Vec<Option<u32>>,
    /// The requests that wait, first comes first.
    pub waiting: BySide<Vec<u32>>,
}

/// Requests by what became of them. `offered` is always the sum of the other five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// All.
    pub offered: u32,
    /// Those that held their slot for as long as they had to.
    pub completed: u32,
    /// Those that found no room to wait.
    pub rejected: u32,
    /// Those whose deadline came first.
    pub timed_out: u32,
    /// Those that wait.
    pub waiting: u32,
    /// Those that hold a slot.
    pub running: u32,
    /// Ticks from arrival to completion, of which 95 % of the completed took no more: the nearest
    /// rank. It leaves failures out, so it can look well while most requests fail.
    pub p95: Option<u32>,
    /// Whether enough completed.
    pub gate: Gate,
}

/// Whether the completion rate reaches the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Nothing was offered.
    None,
    /// A request still waits or runs.
    Pending,
    /// It does.
    Pass,
    /// It does not.
    Fail,
}

/// The sums at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tallies {
    /// Each tenant's.
    pub tenants: BySide<Tally>,
    /// Both together.
    pub all: Tally,
}

impl Outcome {
    pub(super) fn new(scenario: Scenario, requests: Vec<Request>, ticks: Vec<Tick>) -> Outcome {
        let last = ticks.last().map_or(0, |tick| tick.tick);
        let Tallies { tenants, all } = tallies(&requests, last, scenario.target_percent);
        Outcome { scenario, requests, ticks, tenants, all }
    }

    /// The sums as they stood after `tick`.
    pub fn tallies_at(&self, tick: u32) -> Tallies {
        tallies(&self.requests, tick, self.scenario.target_percent)
    }
}

impl Request {
    /// What it was after `tick`; `None` before its arrival.
    pub fn state_at(&self, tick: u32) -> Option<State> {
        let by_then = |moment: Option<u32>| moment.is_some_and(|moment| moment <= tick);
        if self.arrived > tick {
            None
        } else if by_then(self.ended) {
            Some(self.state)
        } else if by_then(self.started) {
            Some(State::Running)
        } else {
            Some(State::Waiting)
        }
    }
}

fn tallies(requests: &[Request], tick: u32, target_percent: u32) -> Tallies {
    let of = |side| requests.iter().filter(move |request| request.tenant == side);
    Tallies {
        tenants: BySide {
            a: Tally::of(of(Side::A), tick, target_percent),
            b: Tally::of(of(Side::B), tick, target_percent),
        },
        all: Tally::of(requests.iter(), tick, target_percent),
    }
}

impl Tally {
    fn of<'r>(
        requests: impl Iterator<Item = &'r Request>,
        tick: u32,
        target_percent: u32,
    ) -> Tally {
        let mut tally = Tally {
            offered: 0,
            completed: 0,
            rejected: 0,
            timed_out: 0,
            waiting: 0,
            running: 0,
            p95: None,
            gate: Gate::None,
        };
        let mut latencies = Vec::new();
        for request in requests {
            let Some(state) = request.state_at(tick) else {
                continue;
            };
            tally.offered += 1;
            match state {
                State::Completed => {
                    tally.completed += 1;
                    latencies.extend(request.ended.map(|ended| ended - request.arrived));
                }
                State::Rejected => tally.rejected += 1,
                State::TimedOut => tally.timed_out += 1,
                State::Waiting => tally.waiting += 1,
                State::Running => tally.running += 1,
            }
        }
        tally.p95 = nearest_rank(&mut latencies, 95);
        tally.gate = tally.gate(target_percent);
        tally
    }

    fn gate(&self, target_percent: u32) -> Gate {
        if self.offered == 0 {
            Gate::None
        } else if self.waiting + self.running > 0 {
            Gate::Pending
        } else if self.completed * 100 >= target_percent * self.offered {
            Gate::Pass
        } else {
            Gate::Fail
        }
    }
}

/// The smallest value that at least `percent` % of all do not exceed.
fn nearest_rank(values: &mut [u32], percent: usize) -> Option<u32> {
    values.sort_unstable();
    let rank = (percent * values.len()).div_ceil(100);
    values.get(rank.checked_sub(1)?).copied()
}
