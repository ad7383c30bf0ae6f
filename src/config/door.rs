//! `min_run`, `rate`, `burst` and `[partition.….breaker]`: what stands before a partition's slots.

use std::time::Duration;

use super::fault::Faults;
use super::policy::Knobs;
use super::raw::{Either, Field, Read, Table};
use crate::resilience::breaker::{Policy, Window};
use crate::resilience::deadline::MinRun;
use crate::resilience::rate::{Rate, RateLimit};
use crate::runtime::PartitionSpec;

/// The word for a `min_run` that is learnt.
const AUTO: &str = "auto";

/// Reads the keys of the door from a partition's `table`.
pub(super) fn read(spec: &mut PartitionSpec, table: &mut Table<'_>, faults: &mut Faults<'_>) {
    min_run(spec, table, faults);
    rate(spec, table, faults);
    let Some(mut table) = table.table("breaker", faults) else {
        return;
    };
    let policy = breaker(Knobs { policy: Policy::default(), table: &mut table, faults });
    table.finish(faults);
    *spec = spec.clone().breaker(policy);
}

fn min_run(spec: &mut PartitionSpec, table: &mut Table<'_>, faults: &mut Faults<'_>) {
    let Some(Field { value, place }) = table.take::<Either<Auto, Duration>>("min_run", faults)
    else {
        return;
    };
    let min_run = match value {
        Either::First(Auto) => MinRun::Auto,
        Either::Second(span) => MinRun::Fixed(span),
    };
    // A knob of its own that is wrong has been reported already.
    let sound = spec.check().is_ok();
    *spec = spec.clone().min_run(min_run);
    if let (true, Err(fault)) = (sound, spec.check()) {
        faults.add(&place, fault.error.rule, fault.error.fix);
    }
}

fn rate(spec: &mut PartitionSpec, table: &mut Table<'_>, faults: &mut Faults<'_>) {
    let rate = table.take::<String>("rate", faults);
    let burst = table.take::<u32>("burst", faults);
    let rate = rate.and_then(|Field { value, place }| {
        let rate = value.parse::<Rate>();
        rate.inspect_err(|error| faults.add(&place, error.rule, error.fix)).ok()
    });
    if let Some(rate) = rate {
        *spec = spec.clone().rate(rate);
    }
    let Some(Field { value: burst, place }) = burst else {
        return;
    };
    let Some(rate) = rate else {
        faults.add(&place, "means nothing without a rate", "add `rate`, or leave burst out");
        return;
    };
    match RateLimit::new(rate, burst) {
        Ok(_) => *spec = spec.clone().burst(burst),
        Err(error) => faults.add(&place, error.rule, error.fix),
    }
}

#[derive(Clone, Copy, Debug)]
struct Auto;

impl Read for Auto {
    const RULE: &'static str = Duration::RULE;
    const FIX: &'static str = Duration::FIX;

    fn read(value: &toml::de::DeValue<'_>) -> Option<Auto> {
        (value.as_str()? == AUTO).then_some(Auto)
    }
}

/// Reads every knob of a breaker.
fn breaker(mut knobs: Knobs<'_, '_, '_, Policy>) -> Policy {
    knobs.take("window", |policy, window: Either<u32, Duration>| {
        policy.window = match window {
            Either::First(calls) => Window::Count(calls),
            Either::Second(span) => Window::Time(span),
        };
        if let Window::Count(calls) = policy.window {
            policy.minimum_calls = policy.minimum_calls.min(calls);
        }
    });
    knobs.take("minimum_calls", |policy, calls: u32| policy.minimum_calls = calls);
    knobs.take("failure_rate", |policy, rate: f64| policy.failure_rate = rate);
    knobs.take("slow_call", |policy, span: Duration| policy.slow_call = span);
    knobs.take("slow_call_rate", |policy, rate: f64| policy.slow_call_rate = rate);
    knobs.take("cool_down_max", |policy, span: Duration| {
        policy.cool_down_max = span;
        policy.cool_down = policy.cool_down.min(span);
    });
    knobs.take("cool_down", |policy, span: Duration| policy.cool_down = span);
    knobs.take("cool_down_growth", |policy, factor: f64| policy.cool_down_growth = factor);
    knobs.take("cool_down_jitter", |policy, share: f64| policy.cool_down_jitter = share);
    knobs.take("probes", |policy, probes: u32| policy.probes = probes);
    knobs.take("count_timeouts", |policy, count: bool| policy.count_timeouts = count);
    knobs.take("count_refusals", |policy, count: bool| policy.count_refusals = count);
    knobs.policy
}
