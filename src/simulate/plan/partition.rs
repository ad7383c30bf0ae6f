//! The partitions of a plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use super::input::{LONGEST, duration, time};
use super::protection::{BreakerPlan, BudgetPlan, at};
use crate::admission::{Dispatch, Policy};
use crate::call::Tenant;
use crate::simulate::InputError;
use crate::simulate::scenario::{dispatch_by_name, dispatch_names};

/// One partition; what its knobs mean is said at [`Policy`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PartitionPlan {
    /// Its name, that loads and faults go by.
    pub name: String,
    /// Calls that run at once.
    pub slots: u32,
    /// Calls that may wait. Defaults to twice the slots.
    pub queue: Option<u32>,
    /// How long they may wait. Defaults to 50.
    #[serde(default = "max_wait_ms")]
    pub max_wait_ms: f64,
    /// How long they may run. Defaults to 30,000.
    #[serde(default = "run_limit_ms")]
    pub run_limit_ms: f64,
    /// How long work that resists its end goes on before its caller is answered. Defaults to 100.
    #[serde(default = "cancel_grace_ms")]
    pub cancel_grace_ms: f64,
    /// Who comes next. Defaults to `fifo`.
    #[serde(default, deserialize_with = "dispatch")]
    pub dispatch: Dispatch,
    /// Most slots of one tenant. Defaults to all.
    pub tenant_max: Option<u32>,
    /// Most waiting calls of one tenant. Defaults to the whole queue.
    pub tenant_queue: Option<u32>,
    /// Home slots by tenant, for `strict` and `borrow`. Defaults to none.
    #[serde(default)]
    pub tenant_slots: BTreeMap<String, u32>,
    /// Weights by tenant, for `round_robin`. Defaults to 1 for everybody.
    #[serde(default)]
    pub weights: BTreeMap<String, u32>,
    /// Slots of the reserve that it may use. Defaults to 0.
    #[serde(default)]
    pub reserve_max: u32,
    /// Overdue calls that a spare slot makes up for. Defaults to 0.
    #[serde(default)]
    pub replace_overdue: u32,
    /// The breaker before it. Defaults to none.
    pub breaker: Option<BreakerPlan>,
    /// How many retries it takes. Defaults to the usual budget.
    #[serde(default)]
    pub retry_budget: BudgetPlan,
}

fn max_wait_ms() -> f64 {
    50.0
}

fn run_limit_ms() -> f64 {
    30_000.0
}

fn cancel_grace_ms() -> f64 {
    100.0
}

fn dispatch<'de, D: Deserializer<'de>>(from: D) -> Result<Dispatch, D::Error> {
    let name = String::deserialize(from)?;
    let refuse =
        || de::Error::custom(format_args!("dispatch `{name}` must be {}", dispatch_names()));
    dispatch_by_name(&name).ok_or_else(refuse)
}

impl PartitionPlan {
    pub(super) fn check(&self, place: &str) -> Result<(), InputError> {
        time(&format!("{place}.max_wait_ms"), self.max_wait_ms)?;
        time(&format!("{place}.run_limit_ms"), self.run_limit_ms)?;
        time(&format!("{place}.cancel_grace_ms"), self.cancel_grace_ms)?;
        if let Some(breaker) = &self.breaker {
            breaker.policy(&format!("{place}.breaker"))?;
        }
        self.retry_budget.policy(&format!("{place}.retry_budget"))?;
        self.policy().check().map_err(|error| at(place, error))
    }

    /// Its own slots, and those that it may get.
    pub(super) fn all_slots(&self) -> u32 {
        self.slots + self.replace_overdue + self.reserve_max
    }

    /// What its scheduler goes by.
    pub fn policy(&self) -> Policy {
        let by_tenant = |of: &BTreeMap<String, u32>| -> Vec<(Tenant, u32)> {
            let pairs = of.iter().map(|(name, &n)| (Tenant::new(name.as_str()), n));
            pairs.collect()
        };
        let preset = Policy::new(self.slots);
        Policy {
            queue: self.queue.unwrap_or(preset.queue),
            dispatch: self.dispatch,
            tenant_max: self.tenant_max,
            tenant_queue: self.tenant_queue,
            homes: by_tenant(&self.tenant_slots),
            weights: by_tenant(&self.weights),
            reserve_max: self.reserve_max,
            replace_overdue: self.replace_overdue,
            run_limit: duration(self.run_limit_ms).unwrap_or(LONGEST),
            cancel_grace: duration(self.cancel_grace_ms).unwrap_or(LONGEST),
            ..preset
        }
    }
}
