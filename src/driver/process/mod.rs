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
//! `{"exit_code":0,"stdout":"…","stderr":"…"}`, or `"signal":"SIGKILL"` instead of `exit_code`.
//! Where output was left out, the text says so between its head and its tail, and
//! `stdout_truncated` (true) and `stdout_bytes` (all that was written) are there, too; the same for
//! `stderr`. `pipe_held_open` is true if somebody who got away still had the output open.
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
//! - Its own process group, killed when the call ends, however it ends.
//! - `/dev/null` or the text it is given as its standard input; never the harness's.
//! - Of the harness's environment only PATH, HOME, USER, LANG, `LC_*`, TMPDIR, TERM, CARGO_HOME,
//!   RUSTUP_HOME, RUSTUP_TOOLCHAIN and what [`Process::env_allow`] names, so that credentials stay
//!   out of reach.

mod capture;
mod child;
mod command;
mod environment;
mod program;
mod report;
mod stdin;
mod supervise;
mod wake;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use self::child::Child;
use self::command::Invocation;
use self::environment::Environment;
use self::supervise::{Bounds, Ended, Supervision};
use self::wake::Wake;
use super::{Sizing, Tool};
use crate::call::Run;
use crate::outcome::{Executed, Failure, FailureReason};

pub use self::command::Command;

/// How the programs of one partition are run.
#[derive(Clone, Debug)]
pub struct Process {
    dir: PathBuf,
    environment: Environment,
    bounds: Bounds,
}

impl Default for Process {
    fn default() -> Process {
        Process {
            dir: PathBuf::from("."),
            environment: Environment::default(),
            bounds: Bounds {
                output_kept: 64 * 1024,
                output_max: 256 * 1024 * 1024,
                term_grace: Duration::from_millis(100),
                pipe_grace: Duration::from_millis(100),
            },
        }
    }
}

impl Process {
    /// The defaults, each said at its setter.
    pub fn new() -> Process {
        Process::default()
    }

    /// The directory programs run in. Defaults to the harness's own, as it is at
    /// [`open`](Process::open). It need not exist before the first call.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Process {
        self.dir = dir.into();
        self
    }

    /// Lets more of the harness's variables through, by name, or by beginning as in `CI_*`.
    /// Defaults to those the module's documentation lists and no others.
    #[must_use]
    pub fn env_allow<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Process {
        self.environment.allowed.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets a variable, whatever the harness has in its place.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Process {
        self.environment.fixed.push((name.into(), value.into()));
        self
    }

    /// How many bytes of each output are kept, half of them its first and half its last. Defaults
    /// to 64 KiB; 0 keeps none and counts only.
    #[must_use]
    pub fn output_kept(mut self, bytes: usize) -> Process {
        self.bounds.output_kept = bytes;
        self
    }

    /// How many bytes a program may write to both outputs together before it is killed. Defaults to
    /// 256 MiB; 0 allows none.
    #[must_use]
    pub fn output_max(mut self, bytes: u64) -> Process {
        self.bounds.output_max = bytes;
        self
    }

    /// From the SIGTERM of a cancel to SIGKILL. Defaults to 100 ms; zero kills at once.
    #[must_use]
    pub fn term_grace(mut self, grace: Duration) -> Process {
        self.bounds.term_grace = grace;
        self
    }

    /// Reads the environment and makes what runs the partition's programs. Starts nothing.
    ///
    /// # Errors
    ///
    /// The key that cannot be, its value and the rule, as text.
    pub fn open(self, sizing: &Sizing) -> Result<Launcher, String> {
        self.checked().map_err(|error| format!("partition.{}.process.{error}", sizing.partition))
    }

    fn checked(self) -> Result<Launcher, String> {
        self.environment.check()?;
        let shown = self.dir.display();
        if self.dir.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(format!("dir: `{shown}` must not hold a NUL"));
        }
        let dir =
            std::path::absolute(&self.dir).map_err(|error| format!("dir: `{shown}`: {error}"))?;
        let variables = self.environment.of(std::env::vars_os());
        Ok(Launcher { dir, variables, bounds: self.bounds })
    }
}

/// Runs the programs of one partition, each on the thread of its call.
#[derive(Clone, Debug)]
pub struct Launcher {
    dir: PathBuf,
    variables: Vec<(OsString, OsString)>,
    bounds: Bounds,
}

impl Launcher {
    /// The tool that runs `command`.
    ///
    /// # Errors
    ///
    /// The key of `command` that cannot be, its value and the rule, as text.
    pub fn tool(&self, command: Command) -> Result<Arc<dyn Tool>, String> {
        Ok(Arc::new(command.on(Arc::new(self.clone()))?))
    }

    /// Runs `invocation` to its end; blocks for as long.
    fn run(&self, invocation: &Invocation, run: &Run) -> Result<Ended, Failure> {
        let too_late = |reason, message| Err(Failure::new(reason, message).executed(Executed::No));
        if run.cancel_token().is_cancelled() {
            return too_late(FailureReason::Cancelled, "called off before it was begun");
        }
        if run.remaining().is_zero() {
            return too_late(FailureReason::Limit, "no time was left to begin it");
        }
        let wake = Wake::arm(run.cancel_token())
            .map_err(|error| program::not_begun(format!("no pipe for a cancel: {error}")))?;
        let child = self.begin(invocation)?;
        Supervision::new(run, &self.bounds, child).wait(&wake).map_err(|error| {
            let message = format!("lost hold of `{}`: {error}", invocation.program);
            Failure::new(FailureReason::Error, message).executed(Executed::Unknown)
        })
    }

    fn begin(&self, invocation: &Invocation) -> Result<Child, Failure> {
        let name = invocation.program.as_str();
        let file = program::find(name, &self.dir, &self.variables)?;
        let stdin = match &invocation.stdin {
            Some(text) => stdin::holding(text)
                .map_err(|error| program::not_begun(format!("no room for its stdin: {error}")))?
                .into(),
            None => Stdio::null(),
        };
        let mut command = std::process::Command::new(&file);
        command.arg0(name).args(&invocation.args).current_dir(&self.dir);
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        Child::spawn(&mut command).map_err(|error| program::explain(&error, name, &file, &self.dir))
    }
}
