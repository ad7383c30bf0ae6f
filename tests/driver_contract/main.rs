//! What every driver owes its partition, shown of each by the same checks, through a real runtime
//! and on a real backend. The table of it is in the documentation of `watertight::driver`.
#![cfg(all(
    feature = "compute",
    feature = "http",
    feature = "postgres",
    feature = "process",
    feature = "sqlite",
    feature = "testing",
    target_os = "linux"
))]

mod broken;
mod checks;
mod drivers;
mod process;
mod sql;
mod streams;
mod suite;

#[path = "../support/postgres.rs"]
#[expect(dead_code, reason = "other tests stop and restart their server")]
mod server;
