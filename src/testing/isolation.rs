//! The contract of a bulkhead as one assertion: a hung dependency must not be felt next door.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outcome::Outcome;
use crate::runtime::{Runtime, Ticket, ToolCall};

/// How long the slow calls may take to fill their partition.
const SATURATION_LIMIT: Duration = Duration::from_secs(10);
/// How often to look while they do.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A call that hangs, made often enough to fill its partition.
pub struct Slow<'a> {
    call: ToolCall,
    calls: usize,
    in_flight_max: Option<Box<dyn Fn() -> usize + 'a>>,
}

impl<'a> Slow<'a> {
    /// `call`, made 20 times at once.
    pub fn new(call: ToolCall) -> Slow<'a> {
        Slow { call, calls: 20, in_flight_max: None }
    }

    /// How often it is made. Take more than the partition has slots.
    #[must_use]
    pub fn calls(mut self, calls: usize) -> Slow<'a> {
        self.calls = calls;
        self
    }

    /// How to ask the backend itself for the most calls that it ever had at once. Without it the
    /// partition's own gauge is taken, which cannot see a driver that makes two requests of one
    /// call.
    #[must_use]
    pub fn in_flight_max(mut self, ask: impl Fn() -> usize + 'a) -> Slow<'a> {
        self.in_flight_max = Some(Box::new(ask));
        self
    }
}

impl fmt::Debug for Slow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slow").field("call", &self.call).finish_non_exhaustive()
    }
}

/// What was measured while the wall held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Isolated {
    /// How long the fast call took.
    pub elapsed: Duration,
    /// Its outcome.
    pub outcome: Outcome<Value>,
    /// The most slow calls at once, as the backend counted them.
    pub in_flight_max: usize,
}

/// Which of the three assertions failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NotIsolated {
    /// The slow calls did not fill their partition, or did not keep it full: nothing was shown.
    NotSaturated {
        /// The slow partition.
        partition: String,
        /// Slots held.
        held: u32,
        /// Slots there are.
        slots: u32,
    },
    /// The fast call failed, or took longer than the fence.
    Starved {
        /// How long it took.
        elapsed: Duration,
        /// How long it may take.
        fence: Duration,
        /// What became of it.
        outcome: Box<Outcome<Value>>,
    },
    /// The backend saw more calls at once than the partition has slots: slots leak.
    OverCap {
        /// The most at once.
        in_flight_max: usize,
        /// Slots there are.
        slots: u32,
    },
    /// There is no such tool.
    UnknownTool(String),
}

impl fmt::Display for NotIsolated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotIsolated::NotSaturated { partition, held, slots } => write!(
                f,
                "{partition} was not saturated ({held} of {slots} slots held), so nothing was shown"
            ),
            NotIsolated::Starved { elapsed, fence, outcome } => write!(
                f,
                "the fast call took {elapsed:?} (fence {fence:?}) and ended as {}",
                outcome.status().as_str()
            ),
            NotIsolated::OverCap { in_flight_max, slots } => {
                write!(
                    f,
                    "the slow backend saw {in_flight_max} calls at once through {slots} slots"
                )
            }
            NotIsolated::UnknownTool(tool) => write!(f, "there is no tool `{tool}`"),
        }
    }
}

impl std::error::Error for NotIsolated {}

/// Fills the partition of `slow`, makes the call `fast`, and checks three things: the fast call is
/// ok within `fence`, the slow backend never saw more calls at once than its partition has slots,
/// and that partition really was full all the while. The slow calls are cancelled before it
/// returns. Blocks for at most ten seconds and the fast call's own limits.
///
/// # Errors
///
/// The first of the three that does not hold.
pub fn check_isolated(
    runtime: &Runtime,
    slow: &Slow<'_>,
    fast: ToolCall,
    fence: Duration,
) -> Result<Isolated, NotIsolated> {
    let tool = slow.call.tool().to_owned();
    let partition = runtime
        .partition_for(&tool, slow.call.arguments())
        .ok_or(NotIsolated::UnknownTool(tool))?;
    let slots = partition.spec().capacity();
    let seen = || match &slow.in_flight_max {
        Some(ask) => ask(),
        None => partition.snapshot().max_in_flight as usize,
    };
    let saturated = || {
        let gauges = partition.snapshot().gauges;
        let held = gauges.running + gauges.overdue;
        (held, gauges.free == 0 && seen() >= gauges.slots as usize)
    };
    let unsaturated = |held| NotIsolated::NotSaturated {
        partition: partition.name().to_owned(),
        held,
        slots: partition.spec().capacity(),
    };

    let tickets: Vec<_> = (0..slow.calls).map(|_| runtime.submit(slow.call.clone())).collect();
    if let Err(held) = wait_until(saturated, &tickets) {
        return Err(unsaturated(held));
    }
    let start = Instant::now();
    let outcome = runtime.call(fast);
    let elapsed = start.elapsed();
    let in_flight_max = seen();
    let (held, still) = saturated();
    drop(tickets);

    if !outcome.is_ok() || elapsed >= fence {
        return Err(NotIsolated::Starved { elapsed, fence, outcome: Box::new(outcome) });
    }
    if in_flight_max > slots as usize {
        return Err(NotIsolated::OverCap { in_flight_max, slots });
    }
    if !still {
        return Err(unsaturated(held));
    }
    Ok(Isolated { elapsed, outcome, in_flight_max })
}

/// [`check_isolated`] as an assertion.
///
/// Pair it with its twin: the same with `fast` pointed at the slow partition must panic. A test of
/// a wall that stays green without the wall shows nothing.
///
/// # Panics
///
/// If one of the three does not hold.
#[track_caller]
pub fn assert_isolated(
    runtime: &Runtime,
    slow: &Slow<'_>,
    fast: ToolCall,
    fence: Duration,
) -> Isolated {
    match check_isolated(runtime, slow, fast, fence) {
        Ok(isolated) => isolated,
        Err(broken) => panic!("not isolated: {broken}"),
    }
}

/// Looks until `full` says so, or time is up, or every slow call has ended.
fn wait_until(full: impl Fn() -> (u32, bool), tickets: &[Ticket<Value>]) -> Result<(), u32> {
    let end = Instant::now() + SATURATION_LIMIT;
    loop {
        let (held, is_full) = full();
        if is_full {
            return Ok(());
        }
        if Instant::now() >= end || tickets.iter().all(Ticket::is_finished) {
            return Err(held);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
