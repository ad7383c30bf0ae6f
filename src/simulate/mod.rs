//! What a partition does with a demand, worked out in virtual time.
//!
//! The simulator decides nothing: it drives the [`Scheduler`](crate::admission::Scheduler) that
//! serves live calls, with ticks in place of a clock. A [`Scenario`] is a small deterministic
//! workload of two tenants, A and B, in front of one dependency; its [`Outcome`] says what became
//! of every request. It answers one question: when A stalls, which calls of B still finish?
//!
//! ```
//! use watertight::simulate::{Gate, Scenario, run};
//!
//! let demand = |policy: &str| {
//!     format!(
//!         r#"{{"slots": 4, "reserved_a": 2, "arrivals_a": 2, "every_b": 2, "hold_a": 3,
//!             "hold_b": 2, "stall_a": true, "timeout_a": 10, "timeout_b": 6,
//!             "policy": "{policy}", "max_waiting": 8, "target_percent": 90}}"#
//!     )
//! };
//! let shared = run(&Scenario::from_json(&demand("fifo"))?);
//! let walled = run(&Scenario::from_json(&demand("strict"))?);
//!
//! assert_eq!(shared.tenants.b.gate, Gate::Fail);
//! assert_eq!(walled.tenants.b.gate, Gate::Pass);
//! # Ok::<(), watertight::simulate::InputError>(())
//! ```

mod outcome;
pub mod plan;
mod run;
mod scenario;
mod stream;

pub use outcome::{BySide, Gate, Outcome, Request, Side, State, Tallies, Tally, Tick};
pub use run::{LAST_ARRIVALS, LAST_TICK, run};
#[cfg(feature = "cli")]
pub(crate) use scenario::Given;
pub use scenario::{InputError, Scenario};
pub use stream::{Batch, run_all};
