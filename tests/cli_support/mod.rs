//! The command as its user runs it: a folder with a configuration, calls in, outcomes out.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Long enough for anything that is not meant to run into its limit.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);

/// A folder with a `watertight.toml`.
pub(crate) struct Folder {
    dir: TempDir,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) outcomes: Vec<Value>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new(config: &str) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("watertight.toml"), config).unwrap();
        Folder { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `watertight` with `args`, in this folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watertight"));
        command.args(args).current_dir(self.path());
        command
    }

    /// Runs `calls` to their ends.
    pub(crate) fn run(&self, args: &[&str], calls: &str) -> Ended {
        let mut command = assert_cmd::Command::from_std(self.command(&["run"]));
        let output = command.args(args).write_stdin(calls).timeout(AMPLE).output().unwrap();
        Ended::new(output.status, &output.stdout, &output.stderr)
    }

    /// Starts a run whose input and output are the test's.
    pub(crate) fn start(&self, args: &[&str]) -> Live {
        let mut command = self.command(&["run"]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Live { stdin: child.stdin.take(), stdout: child.stdout.take().map(BufReader::new), child }
    }
}

impl Ended {
    fn new(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Ended {
        let stdout = String::from_utf8(stdout.to_vec()).unwrap();
        Ended {
            code: status.code(),
            outcomes: stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            stdout,
            stderr: String::from_utf8(stderr.to_vec()).unwrap(),
        }
    }

    /// The outcome with this `id`.
    pub(crate) fn outcome(&self, id: &str) -> &Value {
        let found = self.outcomes.iter().find(|outcome| outcome["id"] == id);
        found.unwrap_or_else(|| panic!("no outcome {id}:\n{}{}", self.stdout, self.stderr))
    }

    /// How many outcomes have `status`.
    pub(crate) fn count(&self, status: &str) -> usize {
        self.outcomes.iter().filter(|outcome| outcome["status"] == status).count()
    }
}

/// A run under way; ended with the test, if not before.
pub(crate) struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Live {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    pub(crate) fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    /// The input as a writer of its own, to write it from another thread.
    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// The next outcome. Blocks for it.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Nobody reads the outcomes any more.
    pub(crate) fn close_output(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The most memory it ever had, in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; what it wrote after what was read.
    pub(crate) fn end(mut self) -> Ended {
        self.end_input();
        let mut stdout = Vec::new();
        if let Some(rest) = &mut self.stdout {
            rest.read_to_end(&mut stdout).unwrap();
        }
        let mut stderr = Vec::new();
        self.child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        Ended::new(status.unwrap(), &stdout, &stderr)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls `reached` until it holds; panics after a generous time.
pub(crate) fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < AMPLE, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Whether the process exists and is no zombie.
pub(crate) fn alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit_once(") ").expect("a name in parentheses").1;
    !state.starts_with(['Z', 'X'])
}
