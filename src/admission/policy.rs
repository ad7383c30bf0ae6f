//! The knobs of one partition's admission, and what each value means.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use crate::call::Tenant;
pub use crate::error::PolicyError;

/// How waiting calls are given to free slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// In order of arrival, whoever's they are.
    #[default]
    Fifo,
    /// The tenant that was least recently given a slot comes first.
    RoundRobin,
    /// Each slot serves its home tenants, or stays idle. Tenants that share a home take turns as
    /// in `RoundRobin`.
    Strict,
    /// Each slot serves its home tenants first; a slot whose home has nobody waiting is lent to
    /// others. A lent slot is never taken back before its call ends. Tenants that share a home, or
    /// want to be lent a slot, take turns as in `RoundRobin`.
    Borrow,
}

impl Dispatch {
    /// All of them.
    pub const ALL: [Dispatch; 4] =
        [Dispatch::Fifo, Dispatch::RoundRobin, Dispatch::Strict, Dispatch::Borrow];

    /// Its name in files: `fifo`, `round_robin`, `strict`, `borrow`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dispatch::Fifo => "fifo",
            Dispatch::RoundRobin => "round_robin",
            Dispatch::Strict => "strict",
            Dispatch::Borrow => "borrow",
        }
    }
}

/// What one partition's scheduler goes by. [`Policy::check`] says what is allowed.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Calls that run at once: 1 to 4,096.
    pub slots: u32,
    /// Calls that may wait: 0 (none) to 1,000,000.
    pub queue: u32,
    /// Who comes next.
    pub dispatch: Dispatch,
    /// Most slots one tenant may hold at once; `None`: all.
    pub tenant_max: Option<u32>,
    /// Most calls of one tenant that may wait; `None`: as many as the queue holds.
    pub tenant_queue: Option<u32>,
    /// Home slots by tenant, from slot 0 on; the rest are home to everybody else. Only `Strict`
    /// and `Borrow` look at them.
    pub homes: Vec<(Tenant, u32)>,
    /// Weights by tenant, 1 to 1,000; 1 for everybody else. Only `RoundRobin` looks at them: of
    /// tenants that always wait, one of weight 3 is given three slots for every one of the others.
    /// This is stride scheduling (C. A. Waldspurger and W. E. Weihl, MIT/LCS/TM-528, 1995).
    pub weights: Vec<(Tenant, u32)>,
    /// Slots of the reserve that it may hold above its own, at most: 0 (never) to 4,096.
    pub reserve_max: u32,
    /// Overdue calls that are made up for by a slot of their own, at most: 0 (none) to 4,096.
    pub replace_overdue: u32,
    /// The longest a call is meant to run, for hints: an overdue call is not expected back sooner.
    pub run_limit: Duration,
    /// How long an overdue call has to end after it is called off, before it is ended by force.
    pub cancel_grace: Duration,
    /// Decides by how much the hints of further attempts at the same calls differ. Partitions of
    /// one backend should not share it, or their callers come back together.
    pub jitter_seed: u64,
}

impl Policy {
    /// The most slots a partition may have; each is a thread.
    pub const SLOTS_MAX: u32 = 4096;
    /// The most that one tenant can weigh.
    pub const WEIGHT_MAX: u32 = 1000;
    /// The most calls that may wait.
    pub const QUEUE_MAX: u32 = 1_000_000;

    /// First come, first served, in `slots` slots, with room for twice as many to wait.
    pub fn new(slots: u32) -> Policy {
        Policy {
            slots,
            queue: slots.saturating_mul(2),
            dispatch: Dispatch::Fifo,
            tenant_max: None,
            tenant_queue: None,
            homes: Vec::new(),
            weights: Vec::new(),
            reserve_max: 0,
            replace_overdue: 0,
            run_limit: Duration::from_secs(30),
            cancel_grace: Duration::from_millis(100),
            jitter_seed: 0,
        }
    }

    /// Checks every knob.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn check(&self) -> Result<(), PolicyError> {
        let homes: u64 = self.homes.iter().map(|&(_, slots)| u64::from(slots)).sum();
        let rules = [
            (
                "slots",
                (1..=Policy::SLOTS_MAX).contains(&self.slots),
                u64::from(self.slots),
                "must be 1 to 4096",
                "size it by peak calls per second × p99 seconds × headroom",
            ),
            (
                "queue",
                self.queue <= Policy::QUEUE_MAX,
                self.queue.into(),
                "must be 0 to 1000000",
                "keep it near 2 × slots; a longer queue only turns overload into latency",
            ),
            (
                "replace_overdue",
                self.replace_overdue <= Policy::SLOTS_MAX,
                self.replace_overdue.into(),
                "must be 0 to 4096",
                "each is a spare thread and connection; a few are enough",
            ),
            (
                "reserve_max",
                self.reserve_max <= Policy::SLOTS_MAX,
                self.reserve_max.into(),
                "must be 0 to 4096",
                "each is a spare thread and connection; a few are enough",
            ),
            (
                "tenant_max",
                self.tenant_max != Some(0),
                0,
                "must be at least 1",
                "leave it out to let one tenant hold every slot",
            ),
            (
                "tenant_slots",
                homes <= self.slots.into(),
                homes,
                "must not add up to more than slots",
                "lower the home slots or raise slots",
            ),
        ];
        for (key, allowed, value, rule, fix) in rules {
            if !allowed {
                return Err(error(key, value, rule, fix));
            }
        }
        listed_once("tenant_slots", &self.homes)?;
        listed_once("tenant_weights", &self.weights)?;
        weights_in_range(&self.weights)
    }
}

fn weights_in_range(weights: &[(Tenant, u32)]) -> Result<(), PolicyError> {
    let beyond = |&&(_, weight): &&(Tenant, u32)| !(1..=Policy::WEIGHT_MAX).contains(&weight);
    weights.iter().find(beyond).map_or(Ok(()), |(_, weight)| {
        let rule = "must be 1 to 1000";
        Err(error("tenant_weights", weight, rule, "only the ratio of two weights counts"))
    })
}

fn error(
    key: &'static str,
    value: impl fmt::Display,
    rule: &'static str,
    fix: &'static str,
) -> PolicyError {
    PolicyError { key, value: value.to_string(), rule, fix }
}

/// Refuses a list that names a tenant twice, or more of them than a partition can have slots.
fn listed_once(key: &'static str, tenants: &[(Tenant, u32)]) -> Result<(), PolicyError> {
    if tenants.len() > Policy::SLOTS_MAX as usize {
        return Err(error(
            key,
            tenants.len(),
            "must list at most 4096 tenants",
            "leave out those that are like everybody else",
        ));
    }
    let mut seen = HashSet::new();
    match tenants.iter().find(|(tenant, _)| !seen.insert(tenant)) {
        Some((tenant, _)) => {
            Err(error(key, tenant.as_str(), "must list a tenant once", "keep one of its lines"))
        }
        None => Ok(()),
    }
}
