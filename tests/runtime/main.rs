//! The runtime's contract: the outcome table, then every kind of fault that must stay behind a
//! wall.

mod bursts;
mod cancel_hooks;
mod destructors;
mod door;
mod door_edges;
mod knobs;
mod outcome_table;
mod overdue;
mod permits;
mod reentrancy;
mod reserve;
mod retry;
mod shutdown;
mod slots;
#[cfg(feature = "tracing")]
mod spans;
mod stress;
mod support;
mod support_desk;
mod tickets;
#[cfg(feature = "json")]
mod tools;
mod turns;
