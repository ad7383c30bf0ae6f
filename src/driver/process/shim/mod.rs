//! The shim: a small process between a call and its program that nobody it begins gets away from.
//!
//! It is a sub-reaper: whoever loses its parent below it becomes its own child, so that it can end
//! them all, and by ids that cannot have become a stranger's, as nobody but it reaps them. It ends
//! them when the program has ended, when the call says so, and when the call's end of their socket
//! closes, which it does when the harness dies. Then it reports and ends.
//!
//! ```text
//! call ── socket (the shim's standard input) ── shim ── program ── whoever it begins
//!   order, with the program's own standard input →
//!   terminate, kill →
//!   ← report
//! ```

mod channel;
mod confine;
mod host;
mod reap;
mod serve;

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::limits::Limits;

pub(super) use self::host::ShimStarter;

/// The shim's name for itself, as lists of processes show it.
pub(super) const SHIM_NAME: &str = "watertight-shim";

/// The first argument of a process that is to be a shim; the program's file, its name for itself
/// and its arguments follow.
const MARK: &str = "--watertight-shim";

const TERMINATE: &[u8] = b"terminate";
const KILL: &[u8] = b"kill";

/// Whether this program can be started as a shim.
static OWN: AtomicBool = AtomicBool::new(false);

/// What the shim is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    limits: Limits,
    cgroup: Option<String>,
}

/// What the shim has to tell.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    /// The program could not be begun; the system's number for why, and during which step.
    NotBegun { errno: i32, step: Option<String> },
    /// Everybody it could end has ended.
    Ended {
        /// The program's status as the system has it; `None`: it could not be ended.
        status: Option<i32>,
        cpu_us: u64,
        peak_memory_kib: u64,
        survivors: usize,
        in_cgroup: bool,
    },
}

/// Lets this program be its own shim: call it first thing in `main`.
///
/// In a process that was started to be a shim it never returns. In any other it returns at once,
/// and partitions opened from then on use this program as their shim
/// ([`Shim::Own`](super::Shim::Own)). It must come first because all that happens before it happens
/// in every shim, too: the program's own arguments mean nothing there.
///
/// ```
/// # fn agent() {}
/// // First thing in `main`:
/// watertight::driver::process::shim_main();
/// agent();
/// ```
pub fn shim_main() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == MARK) {
        std::process::exit(serve::serve(args));
    }
    OWN.store(true, Ordering::Relaxed);
}
