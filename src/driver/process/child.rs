//! A child process as its call holds it: watched without being reaped, ended with all it began.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The reading ends of a child's standard output and error.
pub(super) type Pipes = [Option<OwnedFd>; 2];

/// The hold on one child. Dropping it ends the child.
pub(super) trait Leash {
    /// A descriptor that becomes readable when the child has ended. `None`: ask
    /// [`has_ended`](Leash::has_ended) now and then.
    fn exit_watch(&self) -> Option<BorrowedFd<'_>>;
    /// Whether the child has ended. Never blocks.
    fn has_ended(&self) -> bool;
    /// Asks the child and its group to end.
    fn terminate(&self);
    /// Ends everybody within reach.
    fn kill(&self);
    /// Ends whoever is left, then reaps. Blocks until the child has ended.
    ///
    /// # Errors
    ///
    /// There was no child after all, or it is not known what became of it.
    fn finish(self: Box<Self>) -> Result<Exit, Loss>;
}

/// The end of a child.
#[derive(Debug)]
pub(super) struct Exit {
    /// `None`: it could not be ended.
    pub(super) status: Option<ExitStatus>,
    pub(super) usage: Option<Usage>,
    pub(super) held: Held,
    /// How many could not be ended.
    pub(super) survivors: usize,
}

/// What a child and all that it began have used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) cpu_us: u64,
    /// Of the largest of them.
    pub(super) peak_memory_kib: u64,
}

/// What a child and all that it began were held by.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only a shim tells all of it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Its process group: who leaves it gets away.
    Group,
    /// A sub-reaper, and nobody gets away.
    Shim,
    /// The same, and a control group.
    Cgroup,
}

/// Why the end of a child is not known.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only a shim tells all of it"))]
#[derive(Debug)]
pub(super) enum Loss {
    /// It was not begun; during which step, if not the last.
    NotBegun { error: io::Error, step: Option<String> },
    /// Its shim did not live to report; whether a control group held everybody all the same.
    Shim { status: ExitStatus, in_cgroup: bool },
    /// The system refused.
    Lost(io::Error),
}

/// A child that leads a process group. It is not reaped before its group is dead, so that its id,
/// which is the group's, cannot have become a stranger's when it is killed.
#[derive(Debug)]
pub(super) struct Grouped {
    process: Child,
    group: Pid,
    exit_watch: Option<OwnedFd>,
    reaped: bool,
}

impl Grouped {
    /// Starts `command`, whose standard streams are set. Returns when the program runs.
    ///
    /// # Errors
    ///
    /// What kept the program from being run.
    pub(super) fn spawn(command: &mut Command) -> io::Result<(Box<dyn Leash>, Pipes)> {
        let mut process = command.process_group(0).spawn()?;
        let pipes = take_pipes(&mut process);
        let group = Pid::from_child(&process);
        let exit_watch = exit_watch(group);
        Ok((Box::new(Grouped { process, group, exit_watch, reaped: false }), pipes))
    }

    fn signal(&self, signal: Signal) {
        // It fails only if nobody is left to receive it, or may.
        let _ = kill_process_group(self.group, signal);
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.reaped = true;
        self.process.wait()
    }
}

impl Leash for Grouped {
    fn exit_watch(&self) -> Option<BorrowedFd<'_>> {
        self.exit_watch.as_ref().map(AsFd::as_fd)
    }

    fn has_ended(&self) -> bool {
        has_ended(self.group)
    }

    fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn finish(mut self: Box<Self>) -> Result<Exit, Loss> {
        let status = Some(self.end().map_err(Loss::Lost)?);
        Ok(Exit { status, usage: None, held: Held::Group, survivors: 0 })
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}

/// The pipes of a child that has just been started.
pub(super) fn take_pipes(process: &mut Child) -> Pipes {
    [process.stdout.take().map(Into::into), process.stderr.take().map(Into::into)]
}

/// Whether our child `pid` has ended; it is not reaped. Never blocks.
pub(super) fn has_ended(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), look) {
            Ok(status) => return status.is_some(),
            Err(Errno::INTR) => {}
            // No such child: somebody else in this program reaps what is not theirs.
            Err(_) => return true,
        }
    }
}

/// A descriptor that becomes readable when our child `pid` has ended, where there is such a thing.
#[cfg(target_os = "linux")]
pub(super) fn exit_watch(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// A descriptor that becomes readable when our child `pid` has ended, where there is such a thing.
#[cfg(not(target_os = "linux"))]
pub(super) fn exit_watch(_pid: Pid) -> Option<OwnedFd> {
    None
}
