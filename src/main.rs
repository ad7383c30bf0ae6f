//! The `watertight` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: the command is the shim of its own child processes.
    #[cfg(unix)]
    watertight::driver::process::shim_main();
    watertight::cli::main()
}
