//! What a program is confined to between the shim's fork and its own first instruction.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use rustix::io::Errno;
use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, setpriority_process, setrlimit,
};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::super::limits::Limits;

/// What was being done when a program could not be begun. It travels in the error's number, above
/// what the system uses: that is all a forked child can hand back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Cgroup = 1,
    Limit = 2,
    Nice = 3,
    Cpus = 4,
    /// The program itself.
    Exec = 0,
}

const STEP_SHIFT: u32 = 16;

impl Step {
    fn failed(self, error: Errno) -> io::Error {
        io::Error::from_raw_os_error(((self as i32) << STEP_SHIFT) | error.raw_os_error())
    }

    /// What was being done, as in "while it was …"; `None`: the program itself was begun.
    pub(super) fn in_words(self) -> Option<&'static str> {
        match self {
            Step::Cgroup => Some("moved into its control group"),
            Step::Limit => Some("given its limits"),
            Step::Nice => Some("given its niceness"),
            Step::Cpus => Some("held to its CPUs"),
            Step::Exec => None,
        }
    }

    /// The step that `error` tells of, and the system's own number.
    pub(super) fn of(error: &io::Error) -> (Step, i32) {
        let number = error.raw_os_error().unwrap_or_default();
        let step = match number >> STEP_SHIFT {
            1 => Step::Cgroup,
            2 => Step::Limit,
            3 => Step::Nice,
            4 => Step::Cpus,
            _ => Step::Exec,
        };
        (step, number & ((1 << STEP_SHIFT) - 1))
    }
}

/// Has `command` begin with no signal blocked, confined to `limits` and moved into the group whose `cgroup.procs` is given.
pub(super) fn confine(command: &mut Command, limits: &Limits, cgroup: Option<File>) {
    let rlimits = rlimits(limits);
    let nice = limits.nice.map(i32::from);
    let cpus = limits.cpus.as_deref().map(cpu_set);
    let enter = move || -> io::Result<()> {
        SigSet::empty().thread_set_mask()?;
        if let Some(procs) = &cgroup {
            rustix::io::write(procs, b"0").map_err(|error| Step::Cgroup.failed(error))?;
        }
        if let Some(least) = nice {
            getpriority_process(None)
                .and_then(|ours| setpriority_process(None, ours.max(least)))
                .map_err(|error| Step::Nice.failed(error))?;
        }
        if let Some(cpus) = &cpus {
            sched_setaffinity(None, cpus).map_err(|error| Step::Cpus.failed(error))?;
        }
        for (resource, rlimit) in &rlimits {
            setrlimit(*resource, *rlimit).map_err(|error| Step::Limit.failed(error))?;
        }
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "limits must be the program's and not the shim's, so they are set between fork \
                  and exec; all they take is system calls, and the shim has one thread"
    )]
    // SAFETY: the closure runs in the forked child. It makes system calls on values made before the
    // fork and neither allocates, locks nor unwinds; besides, the shim has one thread, so that no
    // lock can have been held by another one at the fork.
    unsafe {
        command.pre_exec(enter);
    }
}

/// The limits as the system takes them: never above those of the shim, which nobody may exceed.
fn rlimits(limits: &Limits) -> Vec<(Resource, Rlimit)> {
    let one_more = limits.cpu_seconds.map(|seconds| seconds.saturating_add(1));
    [
        (Resource::Data, limits.memory, limits.memory),
        (Resource::Cpu, limits.cpu_seconds, one_more),
        (Resource::Fsize, limits.file_size, limits.file_size),
        (Resource::Nofile, limits.open_files, limits.open_files),
    ]
    .into_iter()
    .filter_map(|(resource, soft, hard)| {
        let ours = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let rlimit = Rlimit {
            current: Some(soft?.min(ours)),
            maximum: Some(hard?.min(ours)),
        };
        Some((resource, rlimit))
    })
    .collect()
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    set
}
