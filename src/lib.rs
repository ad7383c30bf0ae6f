//! A synchronous bulkhead runtime for agent harnesses: one slow tool must not starve the rest.

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
