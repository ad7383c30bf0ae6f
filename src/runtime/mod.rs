//! Partitions that run: the gate and its scheduler, worker threads, tickets, shutdown.
//!
//! `README.md` in this folder is the written protocol.

mod actions;
mod body;
#[cfg(test)]
mod broken;
mod cell;
mod door;
#[cfg(feature = "json")]
mod family;
mod gate;
mod lender;
mod lineage;
mod observe;
mod partition;
mod permit;
mod random;
mod repeat;
mod retry;
#[cfg(test)]
mod revoked;
mod shutdown;
mod spec;
mod state;
#[cfg(feature = "http")]
mod stream;
mod sync;
mod ticket;
#[cfg(feature = "json")]
mod tools;
mod turn;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use partition::Partition;
pub use permit::Permit;
pub use shutdown::{Leftover, ShutdownReport};
pub use spec::{PartitionSpec, SpecError};
pub use ticket::Ticket;
#[cfg(feature = "json")]
pub use tools::ToolCall;
pub use turn::{Turn, Waker};

use crate::admission::{Policy, PolicyError};
use crate::telemetry::Snapshot;
use crate::time::{Clock, Sleeper};
use lender::{Lender, Membership};
use partition::Shared;

/// Owns the partitions, and knows which tool belongs to which.
///
/// Dropping it is [`Runtime::shutdown`] without a grace.
///
/// ```
/// use watertight::{PartitionSpec, Runtime};
///
/// let runtime = Runtime::builder()
///     .partition(PartitionSpec::new("search").slots(4))
///     .partition(PartitionSpec::new("tickets").slots(2))
///     .build()?;
/// assert_eq!(runtime.partitions().count(), 2);
/// # Ok::<(), watertight::SpecError>(())
/// ```
pub struct Runtime {
    partitions: BTreeMap<Arc<str>, Partition>,
    lender: Arc<Lender>,
    #[cfg(feature = "json")]
    tools: tools::Tools,
}

/// Builds a [`Runtime`].
#[derive(Default)]
pub struct Builder {
    specs: Vec<PartitionSpec>,
    reserve: u32,
    clock: Option<Clock>,
    #[cfg(feature = "json")]
    tools: Vec<tools::Entry>,
    #[cfg(feature = "json")]
    retries: Vec<(Arc<str>, crate::resilience::retry::Policy)>,
}

impl Runtime {
    /// A builder without partitions.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The partition called `name`.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.get(name)
    }

    /// All partitions, in order of their names.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.values()
    }

    /// What every partition looks like right now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            partitions: self.partitions().map(Partition::snapshot).collect(),
            reserve: self.lender.snapshot(),
        }
    }

    /// Ends every partition, and returns within `grace` whatever hangs, give or take a tenth of a
    /// second for its threads to end.
    ///
    /// Nothing new is taken, and what waits is cancelled, at once. What runs may go on until
    /// shortly before the end of the grace; then it is answered `cancelled` and called off, and a
    /// moment later ended by force. A body that does not return all the same is in the report; its
    /// thread ends when it does. A second call finds nothing to do.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let partitions: Vec<_> = self.partitions().cloned().collect();
        shutdown::shutdown(&partitions, grace)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.partitions.keys().collect();
        f.debug_struct("Runtime").field("partitions", &names).finish_non_exhaustive()
    }
}

impl Builder {
    /// Adds a partition.
    #[must_use]
    pub fn partition(mut self, spec: PartitionSpec) -> Builder {
        self.specs.push(spec);
        self
    }

    /// Slots that partitions may use above their own, each up to its
    /// [`reserve_max`](PartitionSpec::reserve_max), as long as they last: 0 (none) to 4,096.
    /// Partitions that want one take turns. Defaults to 0. Nobody's own slots are ever lent.
    #[must_use]
    pub fn reserve(mut self, slots: u32) -> Builder {
        self.reserve = slots;
        self
    }

    /// Has the runtime go by `clock`. Defaults to the system's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// Checks everything and starts the partitions' threads.
    ///
    /// # Errors
    ///
    /// The first knob whose value is not allowed, a name that is given twice, a tool without its
    /// partition, and threads that the operating system refuses. Nothing is left running then.
    pub fn build(self) -> Result<Runtime, SpecError> {
        self.check_reserve()?;
        let mut names = BTreeSet::new();
        for spec in &self.specs {
            spec.check()?;
            if !names.insert(spec.name()) {
                return Err(spec_error(spec.name(), NAMED_TWICE));
            }
        }
        let clock = self.clock.unwrap_or_else(Clock::system);
        let lender = Lender::new(self.reserve);
        let mut runtime = Runtime {
            partitions: BTreeMap::new(),
            lender: Arc::clone(&lender),
            #[cfg(feature = "json")]
            tools: tools::Tools::default(),
        };
        let mut members = Vec::new();
        for spec in self.specs {
            let borrows = self.reserve > 0 && spec.policy.reserve_max > 0;
            let member = borrows.then(|| lender.member(members.len()));
            let partition = start(spec, &clock, member)?;
            members.push(Arc::downgrade(&partition.shared));
            runtime.partitions.insert(Arc::clone(&partition.shared.name), partition);
        }
        lender.open(members);
        #[cfg(feature = "json")]
        for entry in self.tools {
            runtime.add_tool(entry)?;
        }
        #[cfg(feature = "json")]
        for (tool, policy) in self.retries {
            runtime.retry_tool(&tool, policy)?;
        }
        Ok(runtime)
    }

    fn check_reserve(&self) -> Result<(), SpecError> {
        let fault = |partition: &str, key, value: u32, rule, fix| {
            let error = PolicyError { key, value: value.to_string(), rule, fix };
            Err(SpecError::new(partition, error))
        };
        if self.reserve > Policy::SLOTS_MAX {
            let fix = "a few are enough; give partitions slots of their own instead";
            return fault("*", "reserve", self.reserve, "must be 0 to 4096", fix);
        }
        let borrower = self.specs.iter().find(|spec| spec.policy.reserve_max > 0);
        match borrower {
            Some(spec) if self.reserve == 0 => {
                let most = spec.policy.reserve_max;
                let rule = "has no reserve to borrow from";
                fault(spec.name(), "reserve_max", most, rule, "add a reserve, or leave it out")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("partitions", &self.specs).finish_non_exhaustive()
    }
}

fn start(
    spec: PartitionSpec,
    clock: &Clock,
    member: Option<Membership>,
) -> Result<Partition, SpecError> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let (name, workers) = (spec.shared_name(), spec.capacity());
    let fail = |error| SpecError::new(&name, error);
    let (shared, inbox) = Shared::new(id, spec, clock.clone(), member).map_err(fail)?;
    let shared = Arc::new(shared);
    let sleeper: Arc<dyn Sleeper> = Arc::<Shared>::clone(&shared);
    clock.register(Arc::downgrade(&sleeper));
    let partition = Partition { shared };
    if let Err(error) = worker::start(&partition.shared, &inbox, workers) {
        shutdown::shutdown(&[partition], Duration::ZERO);
        return Err(fail(PolicyError {
            key: "slots",
            value: workers.to_string(),
            rule: "needs as many threads, and the system refused one",
            fix: if error.kind() == std::io::ErrorKind::OutOfMemory {
                "free memory, or lower slots"
            } else {
                "raise the limit of threads (ulimit -u), or lower slots"
            },
        }));
    }
    Ok(partition)
}

impl Sleeper for Shared {
    fn ring(&self) {
        self.gate.ring();
    }

    fn settle(&self) {
        self.gate.settle();
    }
}

const NAMED_TWICE: (&str, &str, &str) = ("name", "must be given once", "rename one of them");

fn spec_error(
    partition: &str,
    (key, rule, fix): (&'static str, &'static str, &'static str),
) -> SpecError {
    let error = PolicyError { key, value: format!("{partition:?}"), rule, fix };
    SpecError::new(partition, error)
}
