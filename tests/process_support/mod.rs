//! What the tests of the process driver share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use watertight::call::{CancelToken, Run};
use watertight::driver::process::{Command, Launcher, Process, Shim};
use watertight::driver::{Sizing, Tool};
use watertight::outcome::Failure;

/// Long enough for anything that is not meant to run into its limit.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);

/// The shim that belongs to these tests.
pub(crate) fn shim() -> Shim {
    Shim::At(PathBuf::from(env!("CARGO_BIN_EXE_watertight-shim")))
}

/// Runs `test` without a shim, with one, and with a control group, if one may be made; it is told
/// what an outcome says of that.
pub(crate) fn however_held(test: impl Fn(Process, &str)) {
    test(Process::new().shim(Shim::Off), "group");
    test(Process::new().shim(shim()), "shim");
    let best = Process::new().shim(shim()).cgroup(true);
    let held = run(best.clone(), Command::new(["true"]), Value::Object(Default::default()));
    if held.unwrap()["held_by"] == "cgroup" {
        test(best, "cgroup");
    }
}

/// How it ended and what it wrote, without what differs from run to run.
pub(crate) fn gist(result: &Value) -> Value {
    let mut gist = result.as_object().unwrap().clone();
    for figure in ["cpu_ms", "peak_memory_kib", "held_by"] {
        gist.remove(figure);
    }
    Value::Object(gist)
}

pub(crate) fn sizing() -> Sizing {
    Sizing { partition: Arc::from("local"), connections: 4, run_limit: AMPLE }
}

pub(crate) fn open(process: Process) -> Launcher {
    process.open(&sizing()).unwrap()
}

pub(crate) fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

/// Prepares and runs one call on this thread.
pub(crate) fn call(
    tool: &dyn Tool,
    args: &Value,
    limit: Duration,
    token: &CancelToken,
) -> Result<Value, Failure> {
    let mut operation = tool.prepare(args.as_object().unwrap())?;
    operation(&Run::detached(limit, token.clone()))?.decode()
}

/// Runs `command` in a partition of its own with time enough.
#[expect(clippy::needless_pass_by_value, reason = "arguments are written where they are used")]
pub(crate) fn run(process: Process, command: Command, args: Value) -> Result<Value, Failure> {
    let tool = open(process).tool(command).unwrap();
    call(&*tool, &args, AMPLE, &CancelToken::new())
}

/// What a failure shows.
pub(crate) fn evidence(failure: &Failure) -> &Value {
    failure.evidence.value().expect("a child that ran leaves evidence")
}

/// The ids that a script has written to `file`, one a line.
pub(crate) fn pids(file: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.trim().parse().unwrap()).collect()
}

/// Whether the process exists and is no zombie.
pub(crate) fn alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit_once(") ").expect("a name in parentheses").1;
    !state.starts_with(['Z', 'X'])
}

/// Kills a process that a script of ours began and that the driver could not reach.
pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A process of the test's own, ended with it.
pub(crate) struct Stray(pub(crate) Child);

impl Stray {
    pub(crate) fn is_alive(&self) -> bool {
        alive(self.0.id().try_into().unwrap())
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls `reached` until it holds; panics after a generous time.
pub(crate) fn eventually(what: &str, reached: impl Fn() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
