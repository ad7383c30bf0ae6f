//! A synchronous bulkhead runtime for agent harnesses: one slow tool must not starve the rest.

pub mod call;
#[cfg(feature = "json")]
pub mod driver;
pub mod outcome;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
