//! A driver as the checks see it, and the run of all checks over one.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use watertight::call::Terms;
use watertight::outcome::Outcome;
use watertight::{PartitionSpec, Runtime, Ticket, ToolCall};

use crate::checks;

/// The name of the one partition.
pub(crate) const HOME: &str = "home";

/// One driver with its backend.
pub(crate) trait Driver {
    /// A runtime of one partition with the tools `hang`, which never ends by itself, and `quick`.
    fn open(&self, spec: PartitionSpec) -> Runtime;

    /// Begins a call that never ends by itself.
    fn hang(&self, runtime: &Runtime, terms: Terms) -> Ticket<Value> {
        runtime.submit(ToolCall::new("hang").terms(terms))
    }

    /// A call that ends at once.
    fn quick(&self, runtime: &Runtime) -> Outcome<Value> {
        runtime.call(ToolCall::new("quick"))
    }

    /// Whether the backend works on a call, as seen from outside of the driver; and whether
    /// anything of one is left.
    fn work(&self) -> Work;

    /// Connections that the backend has open.
    fn connections(&self) -> usize {
        0
    }

    /// How often a call is begun and ended to see whether anything grows.
    fn rounds(&self) -> u32 {
        1000
    }

    /// How late anything may be, on a machine that others use as well.
    fn fence(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// What a backend does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    None,
    /// Begun in part.
    Some,
    /// All that one call does.
    Full,
}

pub(crate) type Checked = Result<(), String>;

/// Checks one driver.
pub(crate) type Property = fn(&dyn Driver) -> Checked;

/// A property's name, and its check.
pub(crate) const PROPERTIES: &[(&str, Property)] = &[
    ("ends at the run limit", checks::run_limit),
    ("ends at the caller's deadline", checks::deadline),
    ("ends on cancel", checks::cancel),
    ("ends when its ticket is dropped", checks::dropped),
    ("ends on shutdown", checks::shutdown),
    ("leaves nothing behind", checks::growth),
];

/// Holds every property against `driver`, and fails with all that do not hold. One driver at a
/// time: the checks count what the process has.
#[track_caller]
pub(crate) fn hold(driver: &dyn Driver) {
    let faults: Vec<_> =
        broken(driver).into_iter().map(|(name, fault)| format!("{name}: {fault}")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The properties that do not hold, each with what was seen.
pub(crate) fn broken(driver: &dyn Driver) -> Vec<(&'static str, String)> {
    PROPERTIES.iter().filter_map(|(name, check)| Some((*name, check(driver).err()?))).collect()
}

/// One test at a time.
pub(crate) fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `reached` holds, at most for `within`.
pub(crate) fn wait_for(what: &str, within: Duration, reached: impl Fn() -> bool) -> Checked {
    let start = Instant::now();
    while !reached() {
        if start.elapsed() > within {
            return Err(format!("not within {within:?}: {what}"));
        }
        std::thread::park_timeout(Duration::from_micros(500));
    }
    Ok(())
}

/// `Err` of what was seen unless `holds`.
pub(crate) fn ensure(holds: bool, seen: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(seen()) }
}
