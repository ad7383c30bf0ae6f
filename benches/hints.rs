//! How true hints are: of callers who come back exactly at `retry_after_ms`, which share is let in,
//! and how long the slot had been free until then. `cargo bench --bench hints`
//!
//! The scheduler itself is driven on virtual time, without a queue: a call starts or is refused.
//! Seeds are fixed, so the figures are exact and always the same. Fresh callers come by the load's
//! plan. Whoever is refused comes back at its hint, in whole milliseconds, up to five attempts; it
//! competes with fresh callers and is let in or refused like them. At one instant, calls end before
//! others come. Measured are those who come back before the last fresh caller:
//!
//! - *let in*: the share of them that start at once;
//! - *idle*: how long the slot that such a caller gets had been free. The mean is what is bounded
//!   for random service times, its median in parts of the same caller's hint for fixed ones.
//!
//! The best constant is what somebody would find who knew the load and tried: the same callers come
//! back after always the same time, for every time from 5 ms to 8.6 s in quarter octaves. Of all
//! that let in as many as any within one point, the one with the least idle time is the best.
//!
//! The Erlang B floor is what coming back at just any time would give: one less the share of calls
//! that find all slots taken by the Erlang B formula (A. K. Erlang, 1917), at the load of all
//! offers, returns included. It holds for calls that come independently; in waves and while slots
//! hang, being let in is harder than that.
//!
//! The hints of throttling, the rate and the breaker are measured on the machines alone: of those
//! who come back exactly then, how many the door lets in. All of a throttled door's callers are.
//! They are not spaced: an open breaker's callers are told the time to the next probe, which is one
//! of them, and those that it keeps out are told when it will be over at the latest.
//!
//! Bounds: with fixed service times, at least 90 % are let in, after a median of at most 25 % of
//! their hints. With random ones, at most 10 points fewer than with the best constant, after at
//! most 1.25 of its idle time. A partition that is offered far more than it can do, and one that
//! hardly ever refuses, are printed without a bound.

#![allow(clippy::print_stdout, reason = "its figures are its product")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use watertight::admission::{Decision, Effects, Offer, Policy, Scheduler};
use watertight::time::Time;

#[path = "../tests/hints_support/mod.rs"]
mod support;

use support::compare::compare;
use support::door;
use support::load::{Hints, Service, play};
use support::loads::{self, Shape};

const CALLS: u32 = 20_000;
const REFUSALS: u32 = 5_000;
/// A load with one wave that hangs is played so often, each time with calls of its own.
const HANGS: u64 = 20;

fn main() {
    for slots in [1, 8, 64, 4096] {
        println!("a refusal with its hint: {:.1} µs in a partition of {slots}", refusal_us(slots));
    }
    let bounded = [Shape::Steady(0.7), Shape::Steady(0.95), Shape::Waves, Shape::Hang];
    let all_hold = bounded.map(|shape| measure(8, shape, 1)).into_iter().all(|holds| holds);
    println!("without a bound:");
    for (slots, share) in [(8, 1.3), (1, 0.7), (40, 0.7), (40, 0.95)] {
        measure(slots, Shape::Steady(share), 4);
    }
    let waves = loads::load(8, Shape::Waves, loads::FIXED, CALLS);
    let [told, first] = [Hints::AsTold, Hints::AsTheFirst].map(|hints| play(waves, hints).share());
    println!(
        "waves that are refused: {told:.1} % let in; if all of them went by the first's hint, \
         {first:.1} %"
    );
    let doors = [("throttled", door::throttled()), ("rate", door::rated())];
    for (what, seen) in doors.into_iter().chain([("circuit_open", door::broken())]) {
        println!(
            "{what}: {} came back, {:.1} % let in; the first time {} of {}",
            seen.returns,
            seen.share(),
            seen.first_let_in,
            seen.first_returns
        );
    }
    assert!(all_hold, "a bound is broken");
}

/// Prints a line for each kind of service, against every `step`-th constant; whether the bounds
/// hold for all.
fn measure(slots: u32, shape: Shape, step: usize) -> bool {
    let mut all_hold = true;
    for service in loads::services() {
        let verdict = compare(&loads::load(slots, shape, service, CALLS), step, HANGS);
        let holds = verdict.holds();
        let kind = match service {
            Service::Fixed(_) => "fixed",
            Service::Exponential { .. } => "exponential",
            Service::Lognormal { .. } => "lognormal",
            Service::Pareto { .. } => "pareto",
        };
        let said = if holds { "holds " } else { "BROKEN" };
        println!("{said} {:<12} {slots:2} {kind:<11} {verdict}", format!("{shape:?}"));
        all_hold &= holds;
    }
    all_hold
}

/// What a refusal costs while every slot is held and the ledger is full.
fn refusal_us(slots: u32) -> f64 {
    let mut scheduler = Scheduler::new(Policy { queue: 0, ..Policy::new(slots) }).expect("right");
    let mut effects = Effects::default();
    let mut now = Time::ZERO;
    let mut offer =
        |scheduler: &mut Scheduler<()>, now| scheduler.offer(now, Offer::new(()), &mut effects);
    for run in 0..1000 {
        let Decision::Start(started) = offer(&mut scheduler, now) else { unreachable!() };
        now = now + Duration::from_millis(100 + run % 100);
        scheduler.finish(now, started.slot);
    }
    (0..slots).for_each(|_| drop(black_box(offer(&mut scheduler, now))));
    let start = Instant::now();
    for _ in 0..REFUSALS {
        now = now + Duration::from_micros(100);
        drop(black_box(offer(&mut scheduler, now)));
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(REFUSALS)
}
