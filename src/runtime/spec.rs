//! What a partition is made of: its knobs, their defaults, and what is allowed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::door;
use crate::admission::{Dispatch, Policy, PolicyError};
use crate::call::Tenant;
use crate::resilience::deadline::MinRun;
use crate::resilience::rate::Rate;
use crate::resilience::{breaker, budget};

/// The knobs of one partition. [`Builder::build`](super::Builder::build) checks them.
///
/// | knob | default | 0 | at most |
/// | --- | --- | --- | --- |
/// | `slots` | 4 | refused | 4,096 |
/// | `queue` | 2 × slots | nobody waits | 1,000,000 |
/// | `max_wait` | 50 ms | nobody waits | 1 h |
/// | `run_limit` | 30 s | refused | 24 h |
/// | `cancel_grace` | 100 ms | ended by force at once | 1 h |
/// | `replace_overdue` | 0 | an overdue call keeps its slot to itself | 4,096 |
/// | `reserve_max` | 0 | never borrows | 4,096 |
/// | `tenant_max` | all slots | refused | any |
/// | `tenant_queue` | the whole queue | no tenant waits | any |
/// | `min_run` | 0 | whatever time is left is enough | `run_limit` |
/// | `rate`, `burst` | no limit, 1 | refused | 1,000,000/s |
/// | `throttle_max` | 60 s | the backend is never left alone | any |
/// | `breaker` | none | | see [`breaker::Policy`] |
///
/// ```
/// use std::time::Duration;
/// use watertight::PartitionSpec;
///
/// let search = PartitionSpec::new("search").slots(4).run_limit(Duration::from_secs(29));
/// assert_eq!(search.name(), "search");
/// ```
#[derive(Clone, Debug)]
pub struct PartitionSpec {
    name: Arc<str>,
    pub(super) policy: Policy,
    pub(super) max_wait: Duration,
    pub(super) door: door::Policy,
    queue_given: bool,
}

/// A knob of a partition with a value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The partition.
    pub partition: String,
    /// The table below the partition's that the knob is in, such as `breaker`; none: its own.
    pub table: Option<&'static str>,
    /// The knob, its value, what is allowed, and what to do.
    pub error: PolicyError,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place(), self.error)
    }
}

impl SpecError {
    /// Of a knob of the partition's own table.
    pub(super) fn new(partition: &str, error: PolicyError) -> SpecError {
        SpecError { partition: partition.to_owned(), table: None, error }
    }

    /// The table that the knob is in: `partition.search`, `partition.search.breaker`.
    pub(crate) fn place(&self) -> String {
        let below = self.table.map(|table| format!(".{table}")).unwrap_or_default();
        format!("partition.{}{below}", self.partition)
    }
}

impl std::error::Error for SpecError {}

impl PartitionSpec {
    /// The longest a call may be made to wait.
    pub const MAX_WAIT_MAX: Duration = Duration::from_secs(60 * 60);
    /// The longest a call may be allowed to run.
    pub const RUN_LIMIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
    /// The longest grace.
    pub const CANCEL_GRACE_MAX: Duration = Duration::from_secs(60 * 60);

    /// A partition with the defaults.
    pub fn new(name: impl Into<Arc<str>>) -> PartitionSpec {
        PartitionSpec {
            name: name.into(),
            policy: Policy::new(4),
            max_wait: Duration::from_millis(50),
            door: door::Policy::default(),
            queue_given: false,
        }
    }

    /// The same knobs under another name.
    #[must_use]
    pub fn renamed(mut self, name: impl Into<Arc<str>>) -> PartitionSpec {
        self.name = name.into();
        self
    }

    /// Its name: letters, digits, `_`, `-` and `.`, at most 64.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Calls that run at once; each has a thread of its own. Defaults to 4.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> PartitionSpec {
        self.policy.slots = slots;
        if !self.queue_given {
            self.policy.queue = slots.saturating_mul(2);
        }
        self
    }

    /// Calls that may wait; the next is turned away at once. Defaults to 2 × slots.
    #[must_use]
    pub fn queue(mut self, queue: u32) -> PartitionSpec {
        self.policy.queue = queue;
        self.queue_given = true;
        self
    }

    /// How long a call waits for a slot before it is turned away as busy. Defaults to 50 ms.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> PartitionSpec {
        self.max_wait = max_wait;
        self
    }

    /// How long a call may run. Its driver ends the work by then. Defaults to 30 s.
    #[must_use]
    pub fn run_limit(mut self, run_limit: Duration) -> PartitionSpec {
        self.policy.run_limit = run_limit;
        self
    }

    /// How long work has to end by itself, past its limit or after a cancel, before the caller is
    /// answered without it, and before it is ended by force. Defaults to 100 ms.
    #[must_use]
    pub fn cancel_grace(mut self, cancel_grace: Duration) -> PartitionSpec {
        self.policy.cancel_grace = cancel_grace;
        self
    }

    /// How many overdue calls a spare thread and slot make up for, at most. Defaults to 0: a call
    /// that does not end keeps its slot.
    #[must_use]
    pub fn replace_overdue(mut self, spares: u32) -> PartitionSpec {
        self.policy.replace_overdue = spares;
        self
    }

    /// How many slots of the runtime's [reserve](super::Builder::reserve) it may hold above its own,
    /// at most; threads and connections are sized for them. Defaults to 0: never.
    #[must_use]
    pub fn reserve_max(mut self, most: u32) -> PartitionSpec {
        self.policy.reserve_max = most;
        self
    }

    /// Who comes next when a slot is free. Defaults to [`Dispatch::Fifo`].
    #[must_use]
    pub fn dispatch(mut self, dispatch: Dispatch) -> PartitionSpec {
        self.policy.dispatch = dispatch;
        self
    }

    /// The most slots one tenant may hold at once. Defaults to all.
    #[must_use]
    pub fn tenant_max(mut self, most: u32) -> PartitionSpec {
        self.policy.tenant_max = Some(most);
        self
    }

    /// The most calls of one tenant that may wait. Defaults to the whole queue.
    #[must_use]
    pub fn tenant_queue(mut self, most: u32) -> PartitionSpec {
        self.policy.tenant_queue = Some(most);
        self
    }

    /// Slots that are `tenant`'s home, for [`Dispatch::Strict`] and [`Dispatch::Borrow`]; the
    /// remaining slots are everybody else's.
    #[must_use]
    pub fn tenant_slots(mut self, tenant: impl Into<Tenant>, slots: u32) -> PartitionSpec {
        self.policy.homes.push((tenant.into(), slots));
        self
    }

    /// `tenant`'s weight for [`Dispatch::RoundRobin`], 1 to 1,000: of tenants that always wait, one
    /// of weight 3 is given three slots for every one of a tenant that is not listed.
    #[must_use]
    pub fn tenant_weight(mut self, tenant: impl Into<Tenant>, weight: u32) -> PartitionSpec {
        self.policy.weights.push((tenant.into(), weight));
        self
    }

    /// Has a breaker leave the backend alone while it keeps failing. Defaults to none.
    #[must_use]
    pub fn breaker(mut self, policy: breaker::Policy) -> PartitionSpec {
        self.door.breaker = Some(policy);
        self
    }

    /// The most calls that are let in in a span of time; one more is `throttled`, and comes back at
    /// its hint. A call that is let in may still wait for a slot, so that a few may start together
    /// when one comes free. Defaults to no limit.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> PartitionSpec {
        self.door.rate = Some(rate);
        self
    }

    /// How many calls are let in at once after a pause, within the rate. Defaults to 1.
    #[must_use]
    pub fn burst(mut self, burst: u32) -> PartitionSpec {
        self.door.burst = Some(burst);
        self
    }

    /// What a call must have left of its deadline, besides the wait, to be of use; with less it is
    /// refused at once. Defaults to 0: whatever is left is enough.
    #[must_use]
    pub fn min_run(mut self, min_run: MinRun) -> PartitionSpec {
        self.door.min_run = min_run;
        self
    }

    /// The longest pause that the backend can have by answering `throttled`, or by
    /// [saying](crate::call::Run::report_quota) that no calls are left. Defaults to 60 s; 0: it
    /// is never left alone.
    #[must_use]
    pub fn throttle_max(mut self, most: Duration) -> PartitionSpec {
        self.door.throttle.throttle_max = most;
        self
    }

    /// How many retries it takes: a share of its calls, and a floor. Defaults to
    /// [`budget::Policy::default`]. It counts from the first call that may be retried; besides, at
    /// most 1,024 calls sleep at once.
    #[must_use]
    pub fn retry_budget(mut self, policy: budget::Policy) -> PartitionSpec {
        self.door.retry_budget = policy;
        self
    }

    /// What its scheduler goes by.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How long a call waits for a slot: `max_wait`.
    pub fn wait_limit(&self) -> Duration {
        self.max_wait
    }

    /// Calls that may run at once, all told: what threads and physical pools are sized for.
    pub fn capacity(&self) -> u32 {
        let Policy { slots, reserve_max, replace_overdue, .. } = self.policy;
        slots.saturating_add(reserve_max).saturating_add(replace_overdue)
    }

    /// The longest a run keeps its caller: the run limit and the grace.
    pub(super) fn run_for(&self) -> Duration {
        self.policy.run_limit.saturating_add(self.policy.cancel_grace)
    }

    /// What a driver for this partition must know.
    #[cfg(feature = "json")]
    pub fn sizing(&self) -> crate::driver::Sizing {
        crate::driver::Sizing {
            partition: self.shared_name(),
            connections: self.capacity(),
            run_limit: self.policy.run_limit,
        }
    }

    /// Checks every knob.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed.
    pub fn check(&self) -> Result<(), SpecError> {
        let fault = self.name_fault().or_else(|| self.time_fault());
        fault
            .map_or_else(|| self.policy.check(), Err)
            .and_then(|()| self.door.check(self.policy.run_limit))
            .map_err(|error| SpecError::new(&self.name, error))?;
        let of = |table| {
            move |error| SpecError { table: Some(table), ..SpecError::new(&self.name, error) }
        };
        let breaker = self.door.breaker.map_or(Ok(()), |policy| policy.check());
        breaker.map_err(of("breaker"))?;
        self.door.retry_budget.check().map_err(of("retry_budget"))
    }

    fn name_fault(&self) -> Option<PolicyError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let fine = (1..=64).contains(&self.name.len()) && self.name.chars().all(plain);
        (!fine).then(|| PolicyError {
            key: "name",
            value: format!("{:?}", self.name),
            rule: "must be 1 to 64 letters, digits, `_`, `-` or `.`",
            fix: "name the partition after its backend, such as `search`",
        })
    }

    fn time_fault(&self) -> Option<PolicyError> {
        let error = |key, value: Duration, rule, fix| {
            Some(PolicyError { key, value: format!("{value:?}"), rule, fix })
        };
        let Policy { run_limit, cancel_grace, .. } = self.policy;
        if run_limit.is_zero() || run_limit > PartitionSpec::RUN_LIMIT_MAX {
            return error(
                "run_limit",
                run_limit,
                "must be more than 0 and at most 24h",
                "take the longest a useful call takes; it bounds how long a slot is held",
            );
        }
        if self.max_wait > PartitionSpec::MAX_WAIT_MAX {
            return error(
                "max_wait",
                self.max_wait,
                "must be 0 to 1h",
                "keep it to tens of milliseconds; an honest busy beats a long wait",
            );
        }
        if cancel_grace > PartitionSpec::CANCEL_GRACE_MAX {
            return error(
                "cancel_grace",
                cancel_grace,
                "must be 0 to 1h",
                "keep it near 100ms; callers wait for it when a call does not end",
            );
        }
        None
    }
}
