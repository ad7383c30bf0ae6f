//! What a caller is told of a child that has ended.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::{Map, Value, json};

use super::capture::Capture;
use super::child::Held;
use super::limits::Limits;
use super::supervise::{Ended, EndedBy};
use crate::outcome::{Executed, Failure, FailureReason};

impl Ended {
    /// Whether it did what it was asked to; if not, the failure, which shows the same as
    /// [`Ended::to_json`].
    ///
    /// # Errors
    ///
    /// [`FailureReason::Limit`], [`Cancelled`](FailureReason::Cancelled),
    /// [`TooLarge`](FailureReason::TooLarge), [`Signal`](FailureReason::Signal) or
    /// [`ExitCode`](FailureReason::ExitCode).
    pub(super) fn verdict(
        &self,
        program: &str,
        ok_exit_codes: &[i32],
        limits: &Limits,
    ) -> Result<(), Failure> {
        let code = self.exit.status.and_then(|status| status.code());
        let (reason, executed, message) = match (self.by, code) {
            (EndedBy::Limit, _) => (
                FailureReason::Limit,
                Executed::Unknown,
                format!("`{program}` was killed at its run limit"),
            ),
            (EndedBy::Cancel, _) => {
                (FailureReason::Cancelled, Executed::Unknown, format!("`{program}` was called off"))
            }
            (EndedBy::OutputMax, _) => (
                FailureReason::TooLarge,
                Executed::Yes,
                format!("`{program}` was killed because it wrote more than its output_max"),
            ),
            (EndedBy::Itself, Some(code)) if ok_exit_codes.contains(&code) => return Ok(()),
            (EndedBy::Itself, Some(code)) => (
                FailureReason::ExitCode,
                Executed::Yes,
                format!("`{program}` ended with exit code {code}"),
            ),
            (EndedBy::Itself, None) => {
                (FailureReason::Signal, Executed::Yes, self.ended_by_signal(program, limits))
            }
        };
        let shown = self.to_json(limits);
        Err(Failure::new(reason, message).executed(executed).evidence(shown))
    }

    fn ended_by_signal(&self, program: &str, limits: &Limits) -> String {
        let name = self.signal_name().unwrap_or_default();
        let why = match (name.as_str(), limits) {
            ("SIGXCPU", Limits { cpu_seconds: Some(seconds), .. }) => {
                format!(": its limit is {seconds} s of CPU time")
            }
            ("SIGXFSZ", Limits { file_size: Some(bytes), .. }) => {
                format!(": its limit is {bytes} bytes a file")
            }
            _ => String::new(),
        };
        format!("`{program}` was ended by {name}{why}")
    }

    /// How it ended, its outputs and what it used; see the module's documentation.
    pub(super) fn to_json(&self, limits: &Limits) -> Value {
        let mut shown = Map::new();
        match self.signal_name() {
            Some(name) => shown.insert("signal".into(), name.into()),
            None => {
                let code = self.exit.status.and_then(|status| status.code());
                shown.insert("exit_code".into(), code.into())
            }
        };
        show(&mut shown, "stdout", &self.stdout);
        show(&mut shown, "stderr", &self.stderr);
        if let Some(usage) = self.exit.usage {
            shown.insert("cpu_ms".into(), usage.cpu_us.div_ceil(1000).into());
            shown.insert("peak_memory_kib".into(), usage.peak_memory_kib.into());
        }
        if let Some(bytes) = limits.memory {
            shown.insert("memory_limit_kib".into(), (bytes / 1024).into());
        }
        shown.insert("held_by".into(), self.exit.held.as_str().into());
        if self.exit.survivors > 0 {
            shown.insert("survivors".into(), self.exit.survivors.into());
        }
        if self.pipe_held_open {
            shown.insert("pipe_held_open".into(), true.into());
        }
        Value::Object(shown)
    }

    fn signal_name(&self) -> Option<String> {
        self.exit.status.and_then(|status| status.signal()).map(signal_name)
    }
}

impl Held {
    fn as_str(self) -> &'static str {
        match self {
            Held::Group => "group",
            Held::Shim => "shim",
            Held::Cgroup => "cgroup",
        }
    }
}

fn show(shown: &mut Map<String, Value>, name: &str, capture: &Capture) {
    shown.insert(name.to_owned(), capture.text().into());
    if capture.truncated() {
        shown.insert(format!("{name}_truncated"), true.into());
        shown.insert(format!("{name}_bytes"), json!(capture.total()));
    }
}

/// The name of a signal as people know it, such as `SIGKILL`.
fn signal_name(number: i32) -> String {
    let name = match Signal::from_named_raw(number) {
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::QUIT) => "SIGQUIT",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::TRAP) => "SIGTRAP",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::FPE) => "SIGFPE",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::PIPE) => "SIGPIPE",
        Some(Signal::ALARM) => "SIGALRM",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::XCPU) => "SIGXCPU",
        Some(Signal::XFSZ) => "SIGXFSZ",
        Some(Signal::SYS) => "SIGSYS",
        Some(Signal::USR1) => "SIGUSR1",
        Some(Signal::USR2) => "SIGUSR2",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;
    use crate::driver::process::child::Exit;

    /// Nobody survives SIGKILL but who the kernel does not let go, which no test can arrange.
    #[test]
    fn who_could_not_be_killed_is_counted() {
        let shown = |survivors| {
            let status = Some(ExitStatus::from_raw(0));
            let exit = Exit { status, usage: None, held: Held::Shim, survivors };
            let (stdout, stderr) = (Capture::new(8), Capture::new(8));
            let by = EndedBy::Itself;
            Ended { by, exit, stdout, stderr, pipe_held_open: false }.to_json(&Limits::default())
        };
        assert_eq!(shown(0).get("survivors"), None);
        assert_eq!(shown(3)["survivors"], 3);
    }
}
