//! Whole runtimes under a scheduler that explores interleavings: workers, timekeeper, ender,
//! callers. Only with `RUSTFLAGS="--cfg watertight_model"`; a wait never times out in here, so that
//! whatever is lost shows as a deadlock.
#![cfg(watertight_model)]

mod ends;
mod explore;
mod reserve;
mod retry;
mod starts;
mod time;
