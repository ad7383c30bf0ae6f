//! The shim that a harness of its own hands to `Process::shim`; it is started by the library only.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    watertight::driver::process::shim_main();
    ExitCode::from(2)
}
