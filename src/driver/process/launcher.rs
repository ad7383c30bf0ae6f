//! From a command to its end: what one partition runs its programs with.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use super::child::{Grouped, Leash, Loss, Pipes};
use super::command::{Command, Invocation};
use super::limits::Limits;
use super::program;
use super::shim::{SHIM_NAME, ShimStarter};
use super::supervise::{Bounds, Ended, Supervision};
use super::wake::Wake;
use super::{Process, stdin};
use crate::call::Run;
use crate::driver::Tool;
use crate::driver::args::invalid;
use crate::outcome::{Executed, Failure, FailureReason};

/// Makes the tools of one partition and runs their programs, each on the thread of its call.
#[derive(Clone, Debug)]
pub struct Launcher {
    partition: Process,
    shim: Option<ShimStarter>,
}

impl Launcher {
    /// Checks what `partition` asks for.
    pub(super) fn new(partition: Process) -> Result<Launcher, String> {
        let shim = ShimStarter::find(&partition.shim, partition.cgroup)?;
        let launcher = Launcher { partition, shim };
        launcher.setup(&Command::new(["true"]))?;
        Ok(launcher)
    }

    /// The tool that runs `command`. Reads the environment and starts nothing.
    ///
    /// # Errors
    ///
    /// The key of `command` that cannot be, its value and the rule, as text.
    pub fn tool(&self, command: Command) -> Result<Arc<dyn Tool>, String> {
        let setup = self.setup(&command)?;
        Ok(Arc::new(command.with(setup)?))
    }

    /// What the programs of `command` run with: what it says itself, else what its partition says.
    fn setup(&self, command: &Command) -> Result<Setup, String> {
        let dir = match &command.dir {
            Some(below) => self.partition.dir.join(below),
            None => self.partition.dir.clone(),
        };
        let shown = dir.display();
        if dir.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(format!("dir: `{shown}` must not hold a NUL"));
        }
        let dir = std::path::absolute(&dir).map_err(|error| format!("dir: `{shown}`: {error}"))?;
        let environment = command.environment.clone().over(&self.partition.environment);
        environment.check()?;
        if let Some(name) = &command.idempotency_env {
            environment.check_key(name)?;
        }
        let limits = command.limits.clone().over(&self.partition.limits);
        limits.check()?;
        if let Some(key) = limits.needing_shim().filter(|_| self.shim.is_none()) {
            return Err(format!(
                "{key}: only the shim sets it, and there is none; call `shim_main` in `main` or \
                 give the path of a shim"
            ));
        }
        let bounds = Bounds {
            output_kept: limits.output_kept.unwrap_or(Bounds::OUTPUT_KEPT),
            output_max: limits.output_max.unwrap_or(Bounds::OUTPUT_MAX),
            term_grace: self.partition.term_grace,
        };
        let variables = environment.of(std::env::vars_os());
        let key_variable = command.idempotency_env.clone();
        Ok(Setup { dir, variables, key_variable, limits, bounds, shim: self.shim.clone() })
    }
}

/// What a tool's programs run with.
pub(super) struct Setup {
    dir: PathBuf,
    variables: Vec<(OsString, OsString)>,
    /// What the call's idempotency key is given in.
    key_variable: Option<String>,
    limits: Limits,
    bounds: Bounds,
    shim: Option<ShimStarter>,
}

impl Setup {
    /// What they may use.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs `invocation` to its end; blocks for as long.
    pub(super) fn run(&self, invocation: &Invocation, run: &Run) -> Result<Ended, Failure> {
        let too_late = |reason, message| Err(Failure::new(reason, message).executed(Executed::No));
        if run.cancel_token().is_cancelled() {
            return too_late(FailureReason::Cancelled, "called off before it was begun");
        }
        if run.remaining().is_zero() {
            return too_late(FailureReason::Limit, "no time was left to begin it");
        }
        let name = invocation.program.as_str();
        let file = program::find(name, &self.dir, &self.variables)?;
        let explain = |error: &io::Error| program::explain(error, name, &file, &self.dir);
        let wake = Wake::arm(run.cancel_token()).map_err(|error| explain(&error))?;

        let mut command = std::process::Command::new(&file);
        command.arg0(name).args(&invocation.args).current_dir(&self.dir);
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(name) = &self.key_variable {
            command.env(name, idempotency_key(run)?);
        }
        let (child, pipes) = match &self.shim {
            Some(shim) => shim
                .spawn(&command, name, &self.limits, invocation.stdin.as_deref())
                .map_err(|error| program::explain(&error, SHIM_NAME, shim.file(), &self.dir))?,
            None => grouped(&mut command, invocation).map_err(|error| explain(&error))?,
        };
        let ended = Supervision::new(run, &self.bounds, child, pipes).wait(&wake);
        ended.map_err(|loss| match loss {
            Loss::NotBegun { error, step: None } => explain(&error),
            Loss::NotBegun { error, step: Some(step) } => {
                program::not_begun(format!("`{name}` could not be {step}: {error}"))
            }
            Loss::Shim { status, in_cgroup } => {
                let fate = if in_cgroup { "was killed" } else { "may still run" };
                lost(&format!("lost the shim of `{name}` ({status}); what it began {fate}"))
            }
            Loss::Lost(error) => lost(&format!("no hold on `{name}`: {error}")),
        })
    }
}

/// The longest key: with its name it must fit what the system takes as one variable.
const KEY_MAX: usize = 64 * 1024;

fn idempotency_key(run: &Run) -> Result<&str, Failure> {
    let key = run.idempotency_key();
    if key.contains('\0') || key.len() > KEY_MAX {
        let rule =
            "the idempotency key cannot be a variable's value: it has a NUL, or is above 64 KiB";
        return Err(invalid(rule));
    }
    Ok(key)
}

fn grouped(
    command: &mut std::process::Command,
    invocation: &Invocation,
) -> io::Result<(Box<dyn Leash>, Pipes)> {
    command.stdin(match &invocation.stdin {
        Some(text) => stdin::holding(text)?.into(),
        None => Stdio::null(),
    });
    Grouped::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn lost(message: &str) -> Failure {
    Failure::new(FailureReason::Error, message).executed(Executed::Unknown)
}
