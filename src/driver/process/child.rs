//! One child process: begun in a group of its own, watched without being reaped, killed as a group.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A child that leads a process group. It is not reaped before its group is dead, so that its id,
/// which is the group's, cannot have become a stranger's when it is killed.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    group: Pid,
    exit_watch: Option<OwnedFd>,
    reaped: bool,
}

impl Child {
    /// Starts `command`, whose standard streams are set. Returns when the program runs.
    ///
    /// # Errors
    ///
    /// What kept the program from being run.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
        let process = command.process_group(0).spawn()?;
        let group = Pid::from_child(&process);
        Ok(Child { process, group, exit_watch: exit_watch(group), reaped: false })
    }

    /// The reading ends of its standard output and error, if they are pipes and not taken yet.
    pub(super) fn take_pipes(&mut self) -> [Option<OwnedFd>; 2] {
        [self.process.stdout.take().map(Into::into), self.process.stderr.take().map(Into::into)]
    }

    /// A descriptor that becomes readable when the child has ended. `None`: ask
    /// [`has_ended`](Child::has_ended) now and then.
    pub(super) fn exit_watch(&self) -> Option<BorrowedFd<'_>> {
        self.exit_watch.as_ref().map(AsFd::as_fd)
    }

    /// Whether the child has ended; it is not reaped. Never blocks.
    pub(super) fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.group), look) {
                Ok(status) => return status.is_some(),
                Err(Errno::INTR) => {}
                // No such child: somebody else in this program reaps what is not theirs.
                Err(_) => return true,
            }
        }
    }

    /// Sends `signal` to all of its group.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only if nobody is left to receive it, or may.
        let _ = kill_process_group(self.group, signal);
    }

    /// Kills what is left of the group, then reaps the child. Blocks until the child has ended.
    ///
    /// # Errors
    ///
    /// Somebody else has reaped it.
    pub(super) fn finish(mut self) -> io::Result<ExitStatus> {
        self.end()
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.reaped = true;
        self.process.wait()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}

#[cfg(target_os = "linux")]
fn exit_watch(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_watch(_pid: Pid) -> Option<OwnedFd> {
    None
}
