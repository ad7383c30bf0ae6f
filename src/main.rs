//! The `watertight` command.
fn main() {}
