//! The knobs of one partition's admission, and what each value means.

use std::fmt;
use std::time::Duration;

use crate::call::Tenant;

/// How waiting calls are given to free slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// In order of arrival, whoever's they are.
    #[default]
    Fifo,
    /// The tenant that was least recently given a slot comes first.
    RoundRobin,
    /// Each slot serves its home tenants, or stays idle.
    Strict,
    /// Each slot serves its home tenants first; a slot whose home has nobody waiting is lent to
    /// others. A lent slot is never taken back before its call ends.
    Borrow,
}

impl Dispatch {
    /// All of them.
    pub const ALL: [Dispatch; 4] = [
        Dispatch::Fifo,
        Dispatch::RoundRobin,
        Dispatch::Strict,
        Dispatch::Borrow,
    ];

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
    /// Overdue calls that are made up for by a slot of their own, at most: 0 (none) to 4,096.
    pub replace_overdue: u32,
    /// The longest a call is meant to run, for hints: an overdue call is not expected back sooner.
    pub run_limit: Duration,
    /// How long an overdue call has to end after it is called off, before it is ended by force.
    pub cancel_grace: Duration,
}

/// A knob with a value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The knob.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub rule: &'static str,
    /// What to do.
    pub fix: &'static str,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyError {
            key,
            value,
            rule,
            fix,
        } = self;
        write!(f, "{key} = {value}: {rule}; {fix}")
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// The most slots a partition may have; each is a thread.
    pub const SLOTS_MAX: u32 = 4096;
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
            replace_overdue: 0,
            run_limit: Duration::from_secs(30),
            cancel_grace: Duration::from_millis(100),
        }
    }

    /// Checks every knob.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn check(&self) -> Result<(), PolicyError> {
        let error = |key, value: u64, rule, fix| {
            Err(PolicyError {
                key,
                value: value.to_string(),
                rule,
                fix,
            })
        };
        if !(1..=Policy::SLOTS_MAX).contains(&self.slots) {
            return error(
                "slots",
                self.slots.into(),
                "must be 1 to 4096",
                "size it by peak calls per second × p99 seconds × headroom",
            );
        }
        if self.queue > Policy::QUEUE_MAX {
            return error(
                "queue",
                self.queue.into(),
                "must be 0 to 1000000",
                "keep it near 2 × slots; a longer queue only turns overload into latency",
            );
        }
        if self.replace_overdue > Policy::SLOTS_MAX {
            return error(
                "replace_overdue",
                self.replace_overdue.into(),
                "must be 0 to 4096",
                "each is a spare thread and connection; a few are enough",
            );
        }
        if self.tenant_max == Some(0) {
            return error(
                "tenant_max",
                0,
                "must be at least 1",
                "leave it out to let one tenant hold every slot",
            );
        }
        let homes: u64 = self.homes.iter().map(|(_, slots)| u64::from(*slots)).sum();
        if homes > u64::from(self.slots) {
            return error(
                "tenant_slots",
                homes,
                "must not add up to more than slots",
                "lower the home slots or raise slots",
            );
        }
        Ok(())
    }
}
