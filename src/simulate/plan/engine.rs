//! The order of events, and who is asked what.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::agenda::{Agenda, What};
use super::arrivals::{Arrival, Source};
use super::call::{Answer, Call, End, Throw};
use super::input::{Plan, duration};
use super::lane::{Lane, Running};
use super::report::{Report, ReserveReport, Tables};
use crate::admission::{Decision, Effects, Offer, Rejected, Rejection, Reserve, SlotId, Started};
use crate::outcome::{BusyReason, TimeoutClock};
use crate::resilience::retry::{self, Attempt, Retry};
use crate::simulate::InputError;
use crate::time::Time;

/// Something that happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When.
    pub at: Time,
    /// The call: its number, from 0 in order of offer.
    pub call: u64,
    /// The load it belongs to: its place in the plan.
    pub load: usize,
    /// What.
    pub what: Happening,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It waits for a slot.
    Waits,
    /// It has a slot.
    Starts {
        /// The slot.
        slot: SlotId,
        /// Whether it is another tenant's home.
        borrowed: bool,
    },
    /// An attempt ended like this, and another will be made.
    Retries(End),
    /// It is answered.
    Ends(End),
}

/// Plays `plan` to its end.
///
/// # Errors
///
/// A field of the plan whose value is not allowed.
pub fn run(plan: &Plan) -> Result<Report, InputError> {
    run_observed(plan, |_| {})
}

/// As [`run`], and tells `observe` what happens to each call, in order.
///
/// # Errors
///
/// A field of the plan whose value is not allowed.
pub fn run_observed(plan: &Plan, observe: impl FnMut(&Event)) -> Result<Report, InputError> {
    plan.check()?;
    let mut engine = Engine::new(plan, observe)?;
    for load in 0..plan.loads.len() as u32 {
        engine.await_arrival(load);
    }
    while let Some(due) = engine.agenda.next() {
        engine.now = due.at;
        match due.what {
            What::Finish { partition, slot } => engine.finish(partition as usize, slot),
            What::Wake { partition } => {
                engine.lanes[partition as usize].armed = Time::MAX;
                engine.settle(partition as usize);
            }
            What::Arrive { load } => engine.arrive(load),
            What::Retry { call } => engine.retry(call),
        }
    }
    Ok(engine.report(plan))
}

struct Engine<O> {
    now: Time,
    lanes: Vec<Lane>,
    reserve: Reserve,
    reserve_used_max: u32,
    /// When the last call had ended, and the last slot was free, so far.
    ended: Time,
    loads: Vec<Caller>,
    agenda: Agenda,
    /// Calls that will be attempted again, with their partitions: as many as the budgets allow.
    asleep: HashMap<u64, (usize, Call)>,
    calls: u64,
    calls_max: u64,
    cut_short: bool,
    /// Whether any load attempts calls again.
    retries: bool,
    effects: Effects<Call>,
    /// Partitions that the reserve has handed a slot which they have not been told of.
    granted: VecDeque<usize>,
    tables: Tables,
    observe: O,
}

struct Caller {
    source: Source,
    next: Option<Arrival>,
    deadline: Duration,
    retry: Option<retry::Policy>,
}

impl Caller {
    fn new(plan: &Plan, at: usize, tables: &mut Tables) -> Result<Caller, InputError> {
        let load = &plan.loads[at];
        let place = format!("loads[{at}].retry");
        Ok(Caller {
            source: Source::new(plan, at, load, tables),
            next: None,
            deadline: load.deadline_ms.and_then(duration).unwrap_or(Duration::MAX),
            retry: load.retry.as_ref().map(|retry| retry.policy(&place)).transpose()?,
        })
    }
}

impl<O: FnMut(&Event)> Engine<O> {
    fn new(plan: &Plan, observe: O) -> Result<Engine<O>, InputError> {
        let mut tables = Tables::default();
        let callers = (0..plan.loads.len()).map(|at| Caller::new(plan, at, &mut tables));
        let loads = callers.collect::<Result<_, _>>()?;
        let lanes = plan.partitions.iter().map(|of| Lane::new(plan, of));
        Ok(Engine {
            now: Time::ZERO,
            lanes: lanes.collect::<Result<_, _>>()?,
            reserve: Reserve::new(plan.reserve),
            reserve_used_max: 0,
            ended: Time::ZERO,
            loads,
            agenda: Agenda::default(),
            asleep: HashMap::new(),
            calls: 0,
            calls_max: plan.calls_max,
            cut_short: false,
            retries: plan.loads.iter().any(|load| load.retry.is_some()),
            effects: Effects::default(),
            granted: VecDeque::new(),
            tables,
            observe,
        })
    }

    fn tell(&mut self, call: &Call, what: Happening) {
        let event = Event { at: self.now, call: call.number, load: call.load as usize, what };
        (self.observe)(&event);
    }

    fn await_arrival(&mut self, load: u32) {
        let caller = &mut self.loads[load as usize];
        caller.next = caller.source.next();
        if let Some(arrival) = &caller.next {
            self.agenda.plan(arrival.at, What::Arrive { load });
        }
    }

    fn arrive(&mut self, load: u32) {
        let caller = &mut self.loads[load as usize];
        let Some(arrival) = caller.next.take() else { return };
        if self.calls == self.calls_max {
            self.cut_short = true;
            return;
        }
        let call = Call {
            number: self.calls,
            load,
            tool: arrival.tool,
            tenant: arrival.tenant,
            offered: self.now,
            deadline: self.now + caller.deadline,
            service: arrival.service,
            seed: arrival.seed,
            attempt: 1,
            epoch: None,
        };
        self.calls += 1;
        let lane = &mut self.lanes[arrival.partition];
        lane.tally.counts.offered += 1;
        self.tables.count(&call, |tally| tally.counts.offered += 1);
        if self.retries {
            lane.budget.first_attempt(self.now);
        }
        self.offer(arrival.partition, call);
        self.await_arrival(load);
    }

    fn retry(&mut self, call: u64) {
        let Some((at, mut call)) = self.asleep.remove(&call) else { return };
        call.attempt += 1;
        self.lanes[at].budget.start(self.now);
        self.lanes[at].tally.counts.retries += 1;
        self.tables.count(&call, |tally| tally.counts.retries += 1);
        self.offer(at, call);
    }

    fn offer(&mut self, at: usize, mut call: Call) {
        let lane = &mut self.lanes[at];
        if let Err(after) = lane.admit(self.now, &mut call) {
            return self.answer(at, call, Answer::of_wait(End::CircuitOpen, Some(after)));
        }
        let waits = Event {
            at: self.now,
            call: call.number,
            load: call.load as usize,
            what: Happening::Waits,
        };
        let offer = Offer {
            tenant: call.tenant.as_ref().map(|known| known.tenant.clone()),
            wait_until: self.now + lane.max_wait,
            deadline: call.deadline,
            run_for: lane.run_for,
            ..Offer::new(call)
        };
        let reserve = || self.reserve.take();
        let scheduler = &mut lane.scheduler;
        let decision = scheduler.offer_or_borrow(self.now, offer, &mut self.effects, reserve);
        match decision {
            Decision::Start(started) => self.begin(at, started),
            Decision::Wait(_) => (self.observe)(&waits),
            Decision::Reject(rejected) => self.turn_away(at, rejected),
        }
        self.act(at);
        self.settle(at);
    }

    /// Has the partition do what is due and start what it can, with slots of the reserve where it
    /// has none of its own; and others with slots that it has given back.
    fn settle(&mut self, at: usize) {
        self.lanes[at].scheduler.dispatch(self.now, &mut self.effects);
        self.act(at);
        self.ask_reserve(at);
        while let Some(next) = self.granted.pop_front() {
            self.grant(next);
            self.ask_reserve(next);
        }
    }

    fn ask_reserve(&mut self, at: usize) {
        while self.lanes[at].scheduler.wants_reserve() && self.reserve.take_or_register(at) {
            self.grant(at);
        }
        self.arm(at);
    }

    fn grant(&mut self, at: usize) {
        self.lanes[at].scheduler.grant_reserve(self.now, &mut self.effects);
        self.act(at);
    }

    /// Acts on what a step of the partition's scheduler has brought about, and on what comes of
    /// that.
    fn act(&mut self, at: usize) {
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            for rejected in effects.rejected.drain(..) {
                self.turn_away(at, rejected);
            }
            for started in effects.started.drain(..) {
                self.begin(at, started);
            }
            let mut replaced = false;
            for overdue in effects.overdue.drain(..) {
                self.answer_overdue(at, overdue.slot, End::Timeout(overdue.clock));
                let lane = &mut self.lanes[at];
                replaced |= lane.replaces && lane.scheduler.replace(overdue.slot);
            }
            // Work that resists its cancel resists its abort, too.
            effects.abort.clear();
            for _ in 0..std::mem::take(&mut effects.returned) {
                self.granted.extend(self.reserve.release());
            }
            if self.effects.is_empty() {
                self.effects = effects;
            }
            if replaced {
                self.lanes[at].scheduler.dispatch(self.now, &mut self.effects);
            }
        }
    }

    /// Plans a look at the partition for when its scheduler next has something to do by itself.
    fn arm(&mut self, at: usize) {
        let lane = &mut self.lanes[at];
        let due = lane.scheduler.next_due();
        if due < lane.armed {
            lane.armed = due;
            self.agenda.plan(due.max(self.now), What::Wake { partition: at as u32 });
        }
    }

    fn begin(&mut self, at: usize, started: Started<Call>) {
        let Started { slot, payload: call, waited, borrowed } = started;
        let lane = &mut self.lanes[at];
        let (ends, end) = call.end(self.now, lane.run_limit, &lane.troubles);
        lane.started(waited);
        let used = self.reserve.slots() - self.reserve.free();
        self.reserve_used_max = self.reserve_used_max.max(used);
        self.agenda.plan(ends, What::Finish { partition: at as u32, slot });
        self.tell(&call, Happening::Starts { slot, borrowed });
        let running = Running { call: Some(call), started: self.now, end };
        self.lanes[at].running[slot.0 as usize] = Some(running);
    }

    fn finish(&mut self, at: usize, slot: SlotId) {
        let lane = &mut self.lanes[at];
        let Some(running) = lane.running[slot.0 as usize].take() else { return };
        lane.scheduler.finish(self.now, slot);
        lane.in_flight -= 1;
        lane.overdue -= u32::from(running.call.is_none());
        let ran = self.now - running.started;
        lane.tally.held += ran.as_nanos();
        self.ended = self.now;
        if let Some(call) = running.call {
            self.answer(at, call, Answer::of_run(running.end, ran));
        }
        self.settle(at);
    }

    fn answer_overdue(&mut self, at: usize, slot: SlotId, end: End) {
        let lane = &mut self.lanes[at];
        let Some(running) = &mut lane.running[slot.0 as usize] else { return };
        let Some(call) = running.call.take() else { return };
        lane.overdue += 1;
        lane.tally.overdue_max = lane.tally.overdue_max.max(lane.overdue);
        let ran = self.now - running.started;
        self.answer(at, call, Answer::of_run(end, ran));
    }

    fn turn_away(&mut self, at: usize, rejected: Rejected<Call>) {
        let Rejected { rejection, payload, mut retry_after, .. } = rejected;
        let end = match rejection {
            Rejection::Busy(reason) => End::Busy(reason),
            Rejection::Deadline => End::Timeout(TimeoutClock::Deadline),
            Rejection::Drained => {
                retry_after = self.lanes[at].shut_for(self.now);
                End::CircuitOpen
            }
            // Only a partition that found itself broken closes here.
            Rejection::Closed => End::Busy(BusyReason::SlotsStuck),
        };
        self.answer(at, payload, Answer::of_wait(end, retry_after));
    }

    /// An attempt has ended. A breaker that this opens sends away who waits.
    fn answer(&mut self, at: usize, mut call: Call, answer: Answer) {
        let lane = &mut self.lanes[at];
        if lane.judge(self.now, &mut call, answer) {
            lane.scheduler.drain(self.now, &mut self.effects);
        }
        if let Some(wait) = self.retry_in(at, &call, answer) {
            self.tell(&call, Happening::Retries(answer.end));
            self.agenda.plan(self.now + wait, What::Retry { call: call.number });
            self.asleep.insert(call.number, (at, call));
            return;
        }
        self.ended = self.now;
        let took = self.now - call.offered;
        self.lanes[at].tally.counts.end(answer.end);
        self.tables.count(&call, |tally| tally.end(answer.end, took));
        self.tell(&call, Happening::Ends(answer.end));
    }

    /// How long until the call is attempted again; `None`: it is not.
    fn retry_in(&mut self, at: usize, call: &Call, answer: Answer) -> Option<Duration> {
        let caller = &self.loads[call.load as usize];
        let policy = caller.retry.as_ref()?;
        let error = answer.result().err()?;
        let attempt = Attempt {
            left: (call.deadline < Time::MAX).then(|| call.deadline - self.now),
            ..Attempt::new(call.attempt, &error)
        };
        let random = call.chance(Throw::Backoff).bits();
        match policy.decide(self.now, attempt, &mut self.lanes[at].budget, random) {
            Retry::After(wait) => Some(wait),
            Retry::No(_) => None,
        }
    }

    fn report(self, plan: &Plan) -> Report {
        let lanes = self.lanes.iter().zip(&plan.partitions);
        let (tools, tenants) = self.tables.reports();
        Report {
            calls: self.calls,
            cut_short: self.cut_short,
            ended_ms: self.ended.as_nanos() as f64 / 1e6,
            partitions: lanes
                .map(|(of, plan)| of.tally.report(&plan.name, plan.slots, self.ended))
                .collect(),
            tools,
            tenants,
            reserve: ReserveReport { slots: self.reserve.slots(), used_max: self.reserve_used_max },
        }
    }
}
