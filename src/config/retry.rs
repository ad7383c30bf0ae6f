//! `[tool.….retry]`, `idempotent` and `[partition.….retry_budget]`: what is attempted again.

use std::time::Duration;

use super::fault::Faults;
use super::policy::Knobs;
use super::raw::Table;
use crate::resilience::budget;
use crate::resilience::retry::{Kinds, Policy};
use crate::runtime::PartitionSpec;

/// Reads how calls of a tool are retried; `None`: they are not.
pub(super) fn read(tool: &mut Table<'_>, faults: &mut Faults<'_>) -> Option<Policy> {
    let idempotent = tool.take::<bool>("idempotent", faults);
    let Some(mut table) = tool.table("retry", faults) else {
        if let Some(idempotent) = idempotent {
            let rule = "means nothing without a retry table";
            faults.add(&idempotent.place, rule, "add `retry = {}`, or leave it out");
        }
        return None;
    };
    let mut knobs = Knobs { policy: Policy::default(), table: &mut table, faults };
    knobs.take("attempts", |policy, attempts: u32| policy.attempts = attempts);
    knobs.take("backoff_max", |policy, span: Duration| {
        policy.backoff_max = span;
        policy.backoff = policy.backoff.min(span);
    });
    knobs.take("backoff", |policy, span: Duration| policy.backoff = span);
    let mut policy = knobs.policy;
    if let Some(on) = kinds(&mut table, faults) {
        policy.on = on;
    }
    policy.idempotent = idempotent.is_some_and(|idempotent| idempotent.value);
    table.finish(faults);
    Some(policy)
}

fn kinds(table: &mut Table<'_>, faults: &mut Faults<'_>) -> Option<Kinds> {
    let words = table.list::<String>("on", faults)?;
    for word in &words {
        if let Err(error) = Kinds::parse([&*word.value]) {
            faults.add(&word.place, error.rule, error.fix);
        }
    }
    Kinds::parse(words.iter().map(|word| &*word.value)).ok()
}

/// Reads a partition's budget of retries.
pub(super) fn read_budget(
    spec: &mut PartitionSpec,
    partition: &mut Table<'_>,
    faults: &mut Faults<'_>,
) {
    let Some(mut table) = partition.table("retry_budget", faults) else {
        return;
    };
    let mut knobs = Knobs { policy: budget::Policy::default(), table: &mut table, faults };
    knobs.take("ratio", |policy, ratio: f64| policy.ratio = ratio);
    knobs.take("floor", |policy, floor: u32| policy.floor = floor);
    knobs.take("window", |policy, span: Duration| policy.window = span);
    *spec = spec.clone().retry_budget(knobs.policy);
    table.finish(faults);
}
