//! The runtime's contract: the outcome table, then every kind of fault that must stay behind a
//! wall.

mod cancel_hooks;
mod reentrancy;
mod shutdown;
mod support;
mod tickets;
#[cfg(feature = "json")]
mod tools;
