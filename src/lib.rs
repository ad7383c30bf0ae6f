//! A synchronous bulkhead runtime for agent harnesses: one slow tool must not starve the rest.

pub mod admission;
pub mod call;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "json")]
pub mod driver;
#[cfg(feature = "cli")]
pub mod inspect;
pub mod outcome;
#[cfg(feature = "json")]
pub mod simulate;
pub mod time;
