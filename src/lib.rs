//! A synchronous bulkhead runtime for agent harnesses: one slow tool must not starve the rest.
//!
//! Each dependency (a backend with its credential) is a [`Partition`]: its own threads, its own
//! bounded waiting room, its own connections or child processes. A saturated partition answers with
//! an honest `busy` and a hint when to come back; the others do not feel it.
//!
//! - Build a [`Runtime`] from [`PartitionSpec`]s, in code or from a file (feature `config`).
//! - [`Partition::call`] blocks for an [`Outcome`](outcome::Outcome); [`Partition::submit`] gives a
//!   [`Ticket`] and never blocks; a [`Turn`] fans out many calls from one thread; a [`Permit`]
//!   bounds work on the caller's own thread.
//! - An outcome is always a value. It says whether anything was
//!   [executed](outcome::Executed), when to come back, and has
//!   [words for a model](outcome::Outcome::detail).
//!
//! Library users take what they need: `default-features = false` leaves closures behind walls, on
//! crossbeam-channel, parking_lot and hdrhistogram; `http`, `postgres`, `sqlite`, `process`,
//! `compute`, `config`, `tracing` and `testing` only add to that.

pub mod admission;
pub mod call;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "json")]
pub mod driver;
mod error;
#[cfg(feature = "cli")]
pub mod inspect;
pub mod outcome;
pub mod resilience;
mod runtime;
#[cfg(feature = "json")]
pub mod simulate;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

#[cfg(feature = "json")]
pub use runtime::ToolCall;
pub use runtime::{
    Builder, Leftover, Partition, PartitionSpec, Permit, Runtime, ShutdownReport, SpecError,
    Ticket, Turn, Waker,
};
