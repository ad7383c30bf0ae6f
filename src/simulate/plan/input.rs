//! What is planned: partitions, loads, faults.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::arrivals::Arrivals;
use super::chance::Distribution;
use super::partition::PartitionPlan;
use super::protection::RetryPlan;
use crate::simulate::InputError;

const PARTITIONS_MAX: usize = 1000;
const LOADS_MAX: usize = 1000;
const FAULTS_MAX: usize = 10_000;
const CALLS_MAX: u64 = 1_000_000_000;
/// Slots of all partitions together, spare ones included.
const SLOTS_MAX: u64 = 1_000_000;
/// Tenants that one load draws from, at most.
pub(super) const TENANTS_MAX: u32 = 1_000_000;
/// The longest time there is in a plan: some 115 days.
pub(super) const LONGEST: Duration = Duration::from_millis(10_000_000_000);

/// A demand and the partitions that meet it, with what goes wrong meanwhile.
///
/// As JSON, fields that have a default may be left out, and no others are known.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// What all chance comes from. Defaults to 0.
    #[serde(default)]
    pub seed: u64,
    /// Calls arrive from 0 on and before this time; then those that are there end. At most 1e10.
    pub duration_ms: f64,
    /// At most so many calls are made; then arrivals stop, and the report says so. Defaults to ten
    /// million; at most 1e9.
    #[serde(default = "calls_max")]
    pub calls_max: u64,
    /// Slots that partitions may use above their own. Defaults to 0.
    #[serde(default)]
    pub reserve: u32,
    /// The partitions: 1 to 1,000.
    pub partitions: Vec<PartitionPlan>,
    /// Who calls: 1 to 1,000 loads.
    pub loads: Vec<Load>,
    /// What goes wrong. Defaults to nothing.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// Calls of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Load {
    /// The tool that is called, for the report. Defaults to its partition's name; a trace's calls
    /// are of their own tools.
    pub tool: Option<String>,
    /// The partition that is called.
    pub partition: String,
    /// On whose behalf. Defaults to nobody's; a trace's calls are their sessions'.
    pub tenant: Option<String>,
    /// Instead of one tenant: each call is one of so many tenants', drawn evenly; 1 to 1,000,000.
    pub tenants: Option<u32>,
    /// When the calls come.
    pub arrivals: Arrivals,
    /// How long they run. A trace brings its own times; there it may be left out.
    pub service: Option<Distribution>,
    /// How long their callers want to wait for the answer in all. Defaults to for ever.
    pub deadline_ms: Option<f64>,
    /// How calls are attempted again that ended badly. Defaults to not at all.
    pub retry: Option<RetryPlan>,
}

/// What happens to calls of one partition that start within a time. Where several faults are at
/// work, each does its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Fault {
    /// The partition.
    pub partition: String,
    /// From this time on …
    pub from_ms: f64,
    /// … and before this one.
    pub until_ms: f64,
    /// They take so long instead.
    pub service: Option<Distribution>,
    /// They take so many times as long. Defaults to 1.
    #[serde(default = "one")]
    pub slower: f64,
    /// They do not end before the fault does. Defaults to false.
    #[serde(default)]
    pub hang: bool,
    /// Their work goes on past every limit: their callers are answered, their slots stay taken.
    /// Defaults to false.
    #[serde(default)]
    pub resist: bool,
    /// The share of them that fails when it ends (`server_down`), 0 to 1. Defaults to 0.
    #[serde(default)]
    pub fail: f64,
}

fn calls_max() -> u64 {
    10_000_000
}

fn one() -> f64 {
    1.0
}

/// A time of a plan; `None`: it is none.
pub(super) fn duration(ms: f64) -> Option<Duration> {
    let longest = LONGEST.as_secs_f64() * 1e3;
    (0.0..=longest).contains(&ms).then(|| Duration::from_nanos((ms * 1e6) as u64))
}

impl Plan {
    /// Reads and checks a plan that names no files.
    ///
    /// # Errors
    ///
    /// The text is no plan; line and column, or the field, its value and what is allowed.
    pub fn from_json(text: &str) -> Result<Plan, InputError> {
        Plan::from_json_with(text, |_| Err(io::Error::other("there are no files here; write rows")))
    }

    /// Reads and checks a plan; `open` gives the text of a trace that it names.
    ///
    /// # Errors
    ///
    /// As [`Plan::from_json`]; or a trace cannot be read, or a line of it is none.
    pub fn from_json_with(
        text: &str,
        mut open: impl FnMut(&str) -> io::Result<String>,
    ) -> Result<Plan, InputError> {
        let mut plan: Plan = serde_json::from_str(text).map_err(|error| {
            InputError::new("plan", Value::Null, format!("must be a plan: {error}"))
        })?;
        for (at, load) in plan.loads.iter_mut().enumerate() {
            load.arrivals.load(&format!("loads[{at}].arrivals.trace"), &mut open)?;
            if let Some(service) = &mut load.service {
                service.load(&format!("loads[{at}].service.trace"), &mut open)?;
            }
        }
        for (at, fault) in plan.faults.iter_mut().enumerate() {
            if let Some(service) = &mut fault.service {
                service.load(&format!("faults[{at}].service.trace"), &mut open)?;
            }
        }
        plan.check()?;
        Ok(plan)
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field whose value is not allowed.
    pub fn check(&self) -> Result<(), InputError> {
        time("duration_ms", self.duration_ms)?;
        if !(1..=CALLS_MAX).contains(&self.calls_max) {
            return refuse("calls_max", self.calls_max, "must be 1 to 1000000000");
        }
        count("partitions", self.partitions.len(), 1, PARTITIONS_MAX)?;
        count("loads", self.loads.len(), 1, LOADS_MAX)?;
        count("faults", self.faults.len(), 0, FAULTS_MAX)?;
        for (at, partition) in self.partitions.iter().enumerate() {
            let before = &self.partitions[..at];
            if before.iter().any(|other| other.name == partition.name) {
                let field = format!("partitions[{at}].name");
                return refuse(&field, partition.name.as_str(), "must be given once");
            }
            partition.check(&format!("partitions[{at}]"))?;
        }
        let slots = self.partitions.iter().map(|partition| u64::from(partition.all_slots()));
        let slots: u64 = slots.sum();
        if slots > SLOTS_MAX {
            let rule = "must not add up to more than 1000000 slots, spare ones included";
            return refuse("partitions", slots, rule);
        }
        for (at, load) in self.loads.iter().enumerate() {
            load.check(&format!("loads[{at}]"), self)?;
        }
        for (at, fault) in self.faults.iter().enumerate() {
            fault.check(&format!("faults[{at}]"), self)?;
        }
        Ok(())
    }

    pub(super) fn find(&self, partition: &str) -> Option<usize> {
        let found = |known: &PartitionPlan| known.name == partition;
        self.partitions.iter().position(found)
    }

    fn known(&self, place: &str, partition: &str) -> Result<(), InputError> {
        match self.find(partition) {
            Some(_) => Ok(()),
            None => refuse(place, partition, "must be the name of a partition of this plan"),
        }
    }
}

impl Load {
    fn check(&self, place: &str, plan: &Plan) -> Result<(), InputError> {
        plan.known(&format!("{place}.partition"), &self.partition)?;
        if let Some(tenants) = self.tenants {
            count(&format!("{place}.tenants"), tenants as usize, 1, TENANTS_MAX as usize)?;
        }
        if let Some(ms) = self.deadline_ms {
            time(&format!("{place}.deadline_ms"), ms)?;
        }
        if let Some(retry) = &self.retry {
            retry.policy(&format!("{place}.retry"))?;
        }
        self.arrivals.check(&format!("{place}.arrivals"), plan)?;
        let field = format!("{place}.service");
        match &self.service {
            Some(service) => service.check(&field),
            None if self.arrivals.brings_service() => Ok(()),
            None => refuse(&field, Value::Null, "is missing; only a trace brings its own times"),
        }
    }
}

impl Fault {
    fn check(&self, place: &str, plan: &Plan) -> Result<(), InputError> {
        plan.known(&format!("{place}.partition"), &self.partition)?;
        time(&format!("{place}.from_ms"), self.from_ms)?;
        time(&format!("{place}.until_ms"), self.until_ms)?;
        if self.until_ms < self.from_ms {
            let rule = "must not be before from_ms; swap the two";
            return refuse(&format!("{place}.until_ms"), self.until_ms, rule);
        }
        if let Some(service) = &self.service {
            service.check(&format!("{place}.service"))?;
        }
        if !(0.0..=1e6).contains(&self.slower) {
            let field = format!("{place}.slower");
            return refuse(&field, self.slower, "must be 0 to 1000000");
        }
        if !(0.0..=1.0).contains(&self.fail) {
            return refuse(&format!("{place}.fail"), self.fail, "must be a share from 0 to 1");
        }
        Ok(())
    }
}

impl Distribution {
    fn check(&self, place: &str) -> Result<(), InputError> {
        match self.fault() {
            Some(rule) => refuse(place, format!("{self:?}"), rule),
            None => Ok(()),
        }
    }
}

pub(super) fn refuse(field: &str, value: impl Into<Value>, rule: &str) -> Result<(), InputError> {
    Err(InputError::new(field, value.into(), rule.to_owned()))
}

pub(super) fn time(field: &str, ms: f64) -> Result<(), InputError> {
    match duration(ms) {
        Some(_) => Ok(()),
        None => refuse(field, ms, "must be 0 to 1e10 milliseconds"),
    }
}

fn count(field: &str, given: usize, least: usize, most: usize) -> Result<(), InputError> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    refuse(field, given, &format!("must be {least} to {most}"))
}
