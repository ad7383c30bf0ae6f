//! Local programs: each call is a child process, and ends with it.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use serde_json::json;
//! use watertight::call::{CancelToken, Run};
//! use watertight::driver::process::{Command, Process};
//! use watertight::driver::{Sizing, Tool};
//!
//! # fn main() -> Result<(), String> {
//! let sizing = Sizing {
//!     partition: Arc::from("local"),
//!     connections: 2,
//!     run_limit: Duration::from_secs(30),
//! };
//! let local = Process::new().dir("/tmp").open(&sizing)?;
//! let tool = local.tool(Command::new(["printf", "%s", "{text}"]))?;
//!
//! // A partition does this; here it is done by hand.
//! let args = json!({ "text": "a b; c" });
//! let mut operation = tool.prepare(args.as_object().unwrap()).unwrap();
//! let run = Run::detached(Duration::from_secs(10), CancelToken::new());
//! let result = operation(&run).unwrap().decode().unwrap();
//! assert_eq!(result["stdout"], "a b; c");
//! # Ok(())
//! # }
//! ```
//!
//! # What a result shows
//!
//! ```json
//! {"exit_code":0, "stdout":"…", "stderr":"…", "cpu_ms":12, "peak_memory_kib":5120, "held_by":"shim"}
//! ```
//!
//! - `signal` (such as `"SIGKILL"`) stands in for `exit_code`.
//! - Where output was left out, the text says so between its head and its tail, and
//!   `stdout_truncated` (true) and `stdout_bytes` (all that was written) are there, too; the same
//!   for `stderr`.
//! - `cpu_ms` is what the program and all it began have used, `peak_memory_kib` the most that any
//!   one of them had (the shim's own few MiB are the least it shows). Without the shim: neither.
//!   `memory_limit_kib` is beside it if there is one.
//! - `held_by` says what nobody could get away from: a `shim`, a `cgroup` as well, or only the
//!   process `group`, which a program may leave.
//! - `survivors` counts those who could not be killed; `pipe_held_open` is true if somebody who got
//!   away still had the output open. Neither is there if all is well.
//!
//! A call that does not end well shows the same as its failure's evidence:
//!
//! | what happened | reason | executed |
//! | --- | --- | --- |
//! | no such program or directory, no permission | `spawn` | no |
//! | an exit code that is not in `ok_exit_codes` | `exit_code` | yes |
//! | ended by a signal | `signal` | yes |
//! | wrote more than `output_max` | `too_large` | yes |
//! | run limit: SIGKILL at once | `limit` | unknown |
//! | cancel: SIGTERM, a grace, SIGKILL | `cancelled` | unknown |
//!
//! # What a program gets
//!
//! - Its own process group. When the call ends, however it ends, so does all the program has begun:
//!   see [`Shim`].
//! - `/dev/null` or the text it is given as its standard input; never the harness's.
//! - Of the harness's environment only PATH, HOME, USER, LANG, `LC_*`, TMPDIR, TERM, CARGO_HOME,
//!   RUSTUP_HOME, RUSTUP_TOOLCHAIN and what [`Process::env_allow`] or [`Command::env_allow`] names,
//!   so that credentials stay out of reach; and the call's idempotency key, if
//!   [`Command::idempotency_env`] names a variable for it.

mod capture;
#[cfg(target_os = "linux")]
mod cgroup;
mod child;
mod command;
mod environment;
mod launcher;
mod limits;
mod program;
mod report;
mod script;
#[cfg_attr(not(target_os = "linux"), path = "shim_elsewhere.rs")]
mod shim;
mod stdin;
mod supervise;
mod wake;

use std::path::PathBuf;
use std::time::Duration;

use self::environment::Environment;
use super::Sizing;

pub use self::command::Command;
pub use self::launcher::Launcher;
pub use self::limits::Limits;
pub use self::shim::shim_main;

/// How the programs of one partition are run.
#[derive(Clone, Debug)]
pub struct Process {
    dir: PathBuf,
    environment: Environment,
    limits: Limits,
    shim: Shim,
    cgroup: bool,
    term_grace: Duration,
}

/// What stands between a call and its program, so that the program's whole tree ends with it.
///
/// With a shim nobody gets away: not who left the process group, nor who lost its parent, nor a
/// daemon, and all end even if the harness itself is killed. It costs a few milliseconds a call,
/// and it sets the [`Limits`]. Without one only the program's process group is killed, and the
/// outcome says so: `"held_by":"group"`. Linux only; elsewhere there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shim {
    /// This very program, if it has called [`shim_main`], as the `watertight` command does; else
    /// none.
    #[default]
    Own,
    /// The program `watertight-shim` at this path, or another one that calls [`shim_main`].
    At(PathBuf),
    /// None.
    Off,
}

impl Default for Process {
    fn default() -> Process {
        Process {
            dir: PathBuf::from("."),
            environment: Environment::default(),
            limits: Limits::default(),
            shim: Shim::default(),
            cgroup: false,
            term_grace: Duration::from_millis(100),
        }
    }
}

impl Process {
    /// The defaults, each said at its setter.
    pub fn new() -> Process {
        Process::default()
    }

    /// The directory programs run in. Defaults to the harness's own, as it is when the tool is
    /// made. It need not exist before the first call.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Process {
        self.dir = dir.into();
        self
    }

    /// Lets more of the harness's variables through, by name, or by beginning as in `CI_*`.
    /// Defaults to those the module's documentation lists and no others.
    #[must_use]
    pub fn env_allow<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Process {
        self.environment.allow(names);
        self
    }

    /// Sets a variable, whatever the harness has in its place.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Process {
        self.environment.fix(name.into(), value.into());
        self
    }

    /// What the programs may use. Defaults to no bounds but those of the output.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Process {
        self.limits = limits;
        self
    }

    /// The shim. Defaults to [`Shim::Own`].
    #[must_use]
    pub fn shim(mut self, shim: Shim) -> Process {
        self.shim = shim;
        self
    }

    /// Whether the shim puts each call into a control group of its own, below the harness's, where
    /// that may be done (version 2, delegated): then even who kills the shim does not get away.
    /// Defaults to no: the kernel holds up every fork on the machine while a process changes its
    /// group, for up to 28 ms as measured if none did so lately, and other partitions would feel
    /// that.
    #[must_use]
    pub fn cgroup(mut self, wanted: bool) -> Process {
        self.cgroup = wanted;
        self
    }

    /// From the SIGTERM of a cancel to SIGKILL. Defaults to 100 ms; zero kills at once.
    #[must_use]
    pub fn term_grace(mut self, grace: Duration) -> Process {
        self.term_grace = grace;
        self
    }

    /// Makes what runs the partition's programs. Starts nothing.
    ///
    /// # Errors
    ///
    /// The key that cannot be, its value and the rule, as text.
    pub fn open(self, sizing: &Sizing) -> Result<Launcher, String> {
        let partition = &sizing.partition;
        Launcher::new(self).map_err(|error| format!("partition.{partition}.process.{error}"))
    }
}
