//! The properties.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use watertight::call::Terms;
use watertight::outcome::{CallError, CancelledBy, Executed, Outcome, TimeoutClock};
use watertight::{PartitionSpec, Runtime, Ticket};

use crate::suite::{Checked, Driver, HOME, Work, ensure, wait_for};

/// A limit that a call which works reaches on a busy machine, too.
const LIMIT: Duration = Duration::from_secs(1);
/// Never reached.
const AMPLE: Duration = Duration::from_secs(60);

/// One slot, so that the call after a call meets the resource that it had.
fn spec() -> PartitionSpec {
    PartitionSpec::new(HOME).slots(1).queue(0).run_limit(AMPLE)
}

pub(crate) fn run_limit(driver: &dyn Driver) -> Checked {
    let runtime = driver.open(spec().run_limit(LIMIT));
    ends_in_time(driver, &runtime, Terms::new(), TimeoutClock::Run)
}

pub(crate) fn deadline(driver: &dyn Driver) -> Checked {
    let runtime = driver.open(spec());
    let terms = Terms::new().deadline(LIMIT);
    ends_in_time(driver, &runtime, terms, TimeoutClock::Deadline)
}

fn ends_in_time(
    driver: &dyn Driver,
    runtime: &Runtime,
    terms: Terms,
    expected: TimeoutClock,
) -> Checked {
    let start = Instant::now();
    let outcome = begun(driver, runtime, terms)?.wait();
    let took = start.elapsed();
    let late = LIMIT + driver.fence();
    ensure((LIMIT..late).contains(&took), || format!("it took {took:?}"))?;
    let clock = match &outcome.result {
        Err(CallError::Timeout { clock, .. }) => Some(*clock),
        _ => None,
    };
    ensure(clock == Some(expected), || format!("{outcome:?}"))?;
    cut_short(&outcome)?;
    at_rest(driver, runtime)
}

pub(crate) fn cancel(driver: &dyn Driver) -> Checked {
    let runtime = driver.open(spec());
    let ticket = begun(driver, &runtime, Terms::new())?;
    let start = Instant::now();
    ticket.cancel();
    cancelled(&ticket.wait(), CancelledBy::Caller)?;
    let took = start.elapsed();
    ensure(took < driver.fence(), || format!("it took {took:?}"))?;
    at_rest(driver, &runtime)
}

pub(crate) fn dropped(driver: &dyn Driver) -> Checked {
    let runtime = driver.open(spec());
    drop(begun(driver, &runtime, Terms::new())?);
    at_rest(driver, &runtime)
}

/// Also that threads and descriptors end with the runtime.
pub(crate) fn shutdown(driver: &dyn Driver) -> Checked {
    // What is made once for the process is there already.
    drop(driver.open(spec()));
    let before = Belongings::now(driver);
    let runtime = driver.open(spec());
    let ticket = begun(driver, &runtime, Terms::new())?;
    let report = runtime.shutdown(driver.fence());
    ensure(report.is_clean(), || format!("{report:?}"))?;
    cancelled(&ticket.wait(), CancelledBy::Shutdown)?;
    work_gone(driver)?;
    drop(runtime);
    before.holds(driver)
}

/// Calls that hang, each ended in one of the ways and followed by one that works.
pub(crate) fn growth(driver: &dyn Driver) -> Checked {
    let runtime = driver.open(spec());
    let mut before = None;
    for round in 0..driver.rounds() {
        let what = |fault| format!("round {round}: {fault}");
        one_round(driver, &runtime, round).map_err(what)?;
        if round == driver.rounds() / 10 {
            before = Some(Belongings::now(driver));
        }
    }
    before.ok_or("no rounds")?.holds(driver)
}

fn one_round(driver: &dyn Driver, runtime: &Runtime, round: u32) -> Checked {
    match round % 4 {
        0 => drop(begun(driver, runtime, Terms::new())?),
        1 => {
            let terms = Terms::new().deadline(Duration::from_millis(1 + u64::from(round % 16)));
            let outcome = driver.hang(runtime, terms).wait();
            let is_late = matches!(outcome.result, Err(CallError::Timeout { .. }));
            ensure(is_late, || format!("{outcome:?}"))?;
        }
        2 => {
            // Whatever it is in the middle of.
            let ticket = driver.hang(runtime, Terms::new());
            ticket.cancel();
            let outcome = ticket.wait();
            let is_off = matches!(outcome.result, Err(CallError::Cancelled { .. }));
            ensure(is_off, || format!("{outcome:?}"))?;
        }
        _ => {
            let ticket = begun(driver, runtime, Terms::new())?;
            ticket.cancel();
            cancelled(&ticket.wait(), CancelledBy::Caller)?;
        }
    }
    at_rest(driver, runtime)
}

/// A call that the backend works on.
fn begun(driver: &dyn Driver, runtime: &Runtime, terms: Terms) -> Result<Ticket<Value>, String> {
    let ticket = driver.hang(runtime, terms);
    let reached = || driver.work() == Work::Full || ticket.is_finished();
    wait_for("the backend works on the call", AMPLE, reached)?;
    if ticket.is_finished() {
        return Err(format!("it did not hang: {:?}", ticket.wait()));
    }
    Ok(ticket)
}

fn cancelled(outcome: &Outcome<Value>, expected: CancelledBy) -> Checked {
    let by = match &outcome.result {
        Err(CallError::Cancelled { by, .. }) => Some(*by),
        _ => None,
    };
    ensure(by == Some(expected), || format!("{outcome:?}"))?;
    cut_short(outcome)
}

/// Nobody may think that a call which was begun was not.
fn cut_short(outcome: &Outcome<Value>) -> Checked {
    ensure(outcome.executed() == Executed::Unknown, || format!("executed: {outcome:?}"))
}

/// The slot is free, the backend's work is gone, and the resource serves the next call at once.
fn at_rest(driver: &dyn Driver, runtime: &Runtime) -> Checked {
    let partition = runtime.partition(HOME).ok_or("no partition")?;
    let free = || partition.snapshot().gauges.free == 1;
    wait_for("the slot is free", driver.fence(), free)?;
    let outcome = driver.quick(runtime);
    ensure(outcome.is_ok(), || format!("the next call: {outcome:?}"))?;
    work_gone(driver)
}

fn work_gone(driver: &dyn Driver) -> Checked {
    let gone = || driver.work() == Work::None;
    wait_for("nothing of the call is left", driver.fence(), gone)
}

/// What the process has, and its backend.
#[derive(Debug)]
struct Belongings {
    descriptors: usize,
    threads: usize,
    /// Zombies among them.
    children: usize,
    connections: usize,
    resident_kib: usize,
}

/// An allocator keeps some of what it is given back.
const RESIDENT_SLACK_KIB: usize = 16 * 1024;

impl Belongings {
    fn now(driver: &dyn Driver) -> Belongings {
        let count = |folder: &str| fs::read_dir(folder).map_or(0, Iterator::count);
        let tasks = fs::read_dir("/proc/self/task").expect("/proc is mounted");
        let children = tasks.flatten().map(|task| {
            let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            list.split_whitespace().count()
        });
        let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let resident = status.lines().find(|line| line.starts_with("VmRSS:"));
        let resident = resident.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        Belongings {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            children: children.sum(),
            connections: driver.connections(),
            resident_kib: resident.expect("a figure"),
        }
    }

    /// Within the fence there is no more than there was.
    fn holds(&self, driver: &dyn Driver) -> Checked {
        let holds = || {
            let now = Belongings::now(driver);
            now.descriptors <= self.descriptors
                && now.threads <= self.threads
                && now.children <= self.children
                && now.connections <= self.connections
                && now.resident_kib <= self.resident_kib + RESIDENT_SLACK_KIB
        };
        wait_for("no more than before", driver.fence(), holds)
            .map_err(|fault| format!("{fault}: {self:?}, now {:?}", Belongings::now(driver)))
    }
}
