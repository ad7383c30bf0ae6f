//! The order of events within a tick.

use super::outcome::{BySide, Outcome, Request, Side, State, Tick};
use super::scenario::Scenario;
use crate::admission::{Decision, Effects, Offer, Policy, Scheduler, SlotId, Started};
use crate::call::Tenant;
use crate::time::Time;

/// The last tick at which requests arrive.
pub const LAST_ARRIVALS: u32 = 11;
/// The last tick of a simulation; requests may still wait or run after it.
pub const LAST_TICK: u32 = 20;

/// Runs `scenario` from its first tick to its last. The same scenario always has the same outcome.
///
/// At each tick, in this order: what is done completes, what is due times out, free slots go to
/// waiting requests, and the new requests are offered, A's before B's. So a completion at the very
/// deadline counts, and a slot that comes free is never given past a waiting request.
pub fn run(scenario: &Scenario) -> Outcome {
    let mut simulation = Simulation::new(scenario);
    let ticks = (0..=LAST_TICK)
        .map(|tick| {
            simulation.end_due(tick);
            simulation.dispatch(tick);
            if tick <= LAST_ARRIVALS {
                simulation.offer_new(tick);
            }
            simulation.state(tick)
        })
        .collect();
    Outcome::new(scenario.clone(), simulation.requests, ticks)
}

struct Simulation<'s> {
    scenario: &'s Scenario,
    tenants: BySide<Tenant>,
    /// Every decision is this one's; it holds the requests by their numbers.
    scheduler: Scheduler<u32>,
    effects: Effects<u32>,
    requests: Vec<Request>,
    slots: Vec<Option<u32>>,
}

impl<'s> Simulation<'s> {
    fn new(scenario: &'s Scenario) -> Simulation<'s> {
        let tenants = BySide { a: Tenant::new("a"), b: Tenant::new("b") };
        let policy = Policy {
            dispatch: scenario.policy,
            queue: 2 * scenario.max_waiting,
            tenant_queue: Some(scenario.max_waiting),
            homes: vec![(tenants.a.clone(), scenario.reserved_a)],
            ..Policy::new(scenario.slots)
        };
        Simulation {
            scenario,
            tenants,
            scheduler: Scheduler::new(policy).expect("the ranges of a scenario are narrower"),
            effects: Effects::default(),
            requests: Vec::new(),
            slots: vec![None; scenario.slots as usize],
        }
    }

    /// Completes or times out what runs; a completion at the deadline wins.
    fn end_due(&mut self, tick: u32) {
        for (slot, held) in self.slots.iter_mut().enumerate() {
            let Some(id) = *held else { continue };
            let request = &mut self.requests[id as usize];
            let done = request.started.zip(self.scenario.hold(request.tenant));
            let state = if done.is_some_and(|(started, hold)| started + hold <= tick) {
                State::Completed
            } else if request.arrived + self.scenario.timeout(request.tenant) <= tick {
                State::TimedOut
            } else {
                continue;
            };
            request.end(tick, state);
            *held = None;
            self.scheduler.finish(at(tick), SlotId(slot as u32));
        }
    }

    /// Times out what waits, and starts what a slot is free for.
    fn dispatch(&mut self, tick: u32) {
        self.scheduler.dispatch(at(tick), &mut self.effects);
        for rejected in self.effects.rejected.drain(..) {
            self.requests[rejected.payload as usize].end(tick, State::TimedOut);
        }
        for started in std::mem::take(&mut self.effects.started) {
            self.start(tick, &started);
        }
    }

    fn offer_new(&mut self, tick: u32) {
        for _ in 0..self.scenario.arrivals_a {
            self.offer(tick, Side::A);
        }
        if tick.is_multiple_of(self.scenario.every_b) {
            self.offer(tick, Side::B);
        }
    }

    fn offer(&mut self, tick: u32, side: Side) {
        let request = Request::new(self.requests.len() as u32, side, tick);
        let offer = Offer {
            tenant: Some(match side {
                Side::A => self.tenants.a.clone(),
                Side::B => self.tenants.b.clone(),
            }),
            deadline: at(tick + self.scenario.timeout(side)),
            ..Offer::new(request.id)
        };
        self.requests.push(request);
        match self.scheduler.offer(at(tick), offer, &mut self.effects) {
            Decision::Start(started) => self.start(tick, &started),
            Decision::Wait(_) => {}
            Decision::Reject(rejected) => {
                self.requests[rejected.payload as usize].end(tick, State::Rejected);
            }
        }
    }

    fn start(&mut self, tick: u32, started: &Started<u32>) {
        let request = &mut self.requests[started.payload as usize];
        request.started = Some(tick);
        request.slot = Some(started.slot.0);
        request.borrowed = started.borrowed;
        request.state = State::Running;
        self.slots[started.slot.0 as usize] = Some(started.payload);
    }

    fn state(&self, tick: u32) -> Tick {
        let waiting = |side| {
            let waits =
                |request: &&Request| request.tenant == side && request.state == State::Waiting;
            self.requests.iter().filter(waits).map(|request| request.id).collect()
        };
        Tick {
            tick,
            slots: self.slots.clone(),
            waiting: BySide { a: waiting(Side::A), b: waiting(Side::B) },
        }
    }
}

impl Request {
    fn new(id: u32, tenant: Side, arrived: u32) -> Request {
        Request {
            id,
            tenant,
            arrived,
            started: None,
            ended: None,
            slot: None,
            borrowed: false,
            state: State::Waiting,
        }
    }

    fn end(&mut self, tick: u32, state: State) {
        self.ended = Some(tick);
        self.state = state;
    }
}

/// A tick as a time: only the order matters.
fn at(tick: u32) -> Time {
    Time::from_nanos(tick.into())
}
