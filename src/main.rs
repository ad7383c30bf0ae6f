//! The `watertight` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    watertight::cli::main()
}
