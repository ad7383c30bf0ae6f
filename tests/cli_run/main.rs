//! `watertight run` as its user runs it: real files, children, HTTP and SQLite.
#![cfg(feature = "cli")]

#[path = "../cli_support/mod.rs"]
mod cli_support;

mod feeding;
mod interrupt;
mod outcomes;
mod pipes;
mod retry;
mod summary;
mod turns;
