//! The end of everybody below the shim.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, wait};

use super::{TERMINATE, channel};
use crate::driver::process::cgroup;
use crate::driver::process::supervise::readable;
use crate::time::Clock;

/// How long those who cannot be killed (another user's, or stuck in the kernel) are waited for.
const END_MAX: Duration = Duration::from_secs(2);
/// How often the list of children is read again while nobody ends.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Has the signals that concern the shim come through a descriptor from now on. They are blocked,
/// for whoever is begun, too, until that is undone.
pub(super) fn signals() -> io::Result<SignalFd> {
    let mut heard = SigSet::empty();
    for signal in [NixSignal::SIGCHLD, NixSignal::SIGTERM, NixSignal::SIGINT, NixSignal::SIGHUP] {
        heard.add(signal);
    }
    heard.thread_block()?;
    Ok(SignalFd::with_flags(&heard, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

/// Reaps whoever ends below this process.
pub(super) struct Reaper {
    signals: SignalFd,
    main: Pid,
    status: Option<i32>,
}

impl Reaper {
    /// Takes charge of the program that was begun as `main`, and of everybody below it.
    pub(super) fn new(signals: SignalFd, main: Pid) -> Reaper {
        Reaper { signals, main, status: None }
    }

    /// The status of the program as the system has it, once it has ended.
    pub(super) fn status(&self) -> Option<i32> {
        self.status
    }

    /// Reaps until the program has ended, or `control` or a signal says that it is to be killed.
    pub(super) fn attend(&mut self, control: BorrowedFd<'_>) {
        while self.status.is_none() {
            let [signalled, ordered] = self.wait_for(Some(control), None);
            let told_to_end = |number| number != NixSignal::SIGCHLD as u32;
            if signalled && self.signals.any(|info| told_to_end(info.ssi_signo)) {
                return;
            }
            self.reap();
            if ordered {
                match channel::receive(control) {
                    Ok((message, _)) if message == TERMINATE => self.signal_group(Signal::TERM),
                    _ => return,
                }
            }
        }
    }

    /// Kills and reaps until nobody is left; how many could not be killed in time.
    ///
    /// A child of ours keeps its id until we reap it, so none of these ids is a stranger's. Those
    /// further down become our children when their parents have died.
    pub(super) fn end_all(&mut self, cgroup: Option<&Path>) -> usize {
        if let Some(path) = cgroup {
            let _ = cgroup::kill(path);
        }
        self.signal_group(Signal::KILL);
        let clock = Clock::system();
        let until = clock.now() + END_MAX;
        loop {
            let children = children();
            for child in &children {
                let _ = kill_process(*child, Signal::KILL);
            }
            if !self.reap() {
                return 0;
            }
            let left = until - clock.now();
            if left.is_zero() {
                return children.len().max(1);
            }
            self.wait_for(None, Some(left.min(LOOK_AGAIN)));
            while self.signals.next().is_some() {}
        }
    }

    /// Signals the program's group, as long as its id is held by the program.
    fn signal_group(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill_process_group(self.main, signal);
        }
    }

    /// Reaps everybody who has ended; whether anybody is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if self.main == pid {
                        self.status = Some(status.as_raw());
                    }
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Blocks until a signal or a message has come, at most for `patience`; which of them.
    fn wait_for(&self, control: Option<BorrowedFd<'_>>, patience: Option<Duration>) -> [bool; 2] {
        let sources = [Some(self.signals.as_fd()), control];
        // Where waiting fails, the next step finds out what there is.
        readable(sources, patience.unwrap_or(Duration::MAX)).unwrap_or([true; 2])
    }
}

/// The children of this process, which has one thread; none if that cannot be told.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    match fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        Ok(list) => list.split_whitespace().filter_map(pid).collect(),
        // The kernel was built without such lists.
        Err(_) => children_by_parent(own),
    }
}

/// Everybody whose parent is `own`.
fn children_by_parent(own: i32) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.flatten().filter_map(|entry| pid(entry.file_name().to_str()?));
    processes.filter(|process| parent_of(*process) == Some(own)).collect()
}

fn parent_of(process: Pid) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may hold anything; the state and the parent follow it.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn both_ways_of_finding_children_find_them() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let id = Pid::from_child(&child);
        let own = getpid().as_raw_nonzero().get();
        assert_eq!(parent_of(id), Some(own));
        assert!(children_by_parent(own).contains(&id));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children_by_parent(own).contains(&id));
    }
}
