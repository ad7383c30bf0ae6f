//! What a program is confined to between the shim's fork and its own first instruction.

use std::collections::BTreeSet;
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
    Limit = 1,
    Nice = 2,
    Cpus = 3,
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
            1 => Step::Limit,
            2 => Step::Nice,
            3 => Step::Cpus,
            _ => Step::Exec,
        };
        (step, number & ((1 << STEP_SHIFT) - 1))
    }
}

/// Has `command` begin with no signal blocked and confined to `limits`.
pub(super) fn confine(command: &mut Command, limits: &Limits) {
    let rlimits = rlimits(limits);
    let nice = limits.nice.map(i32::from);
    let cpus = limits.cpus.as_ref().map(cpu_set);
    let enter = move || -> io::Result<()> {
        SigSet::empty().thread_set_mask()?;
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
        let rlimit = Rlimit { current: Some(soft?.min(ours)), maximum: Some(hard?.min(ours)) };
        Some((resource, rlimit))
    })
    .collect()
}

fn cpu_set(cpus: &BTreeSet<usize>) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_travels_in_the_number_of_its_error() {
        for step in [Step::Limit, Step::Nice, Step::Cpus] {
            let told = Step::of(&step.failed(Errno::PERM));
            assert_eq!(told, (step, Errno::PERM.raw_os_error()));
            assert!(step.in_words().is_some());
        }
        let error = io::Error::from(Errno::NOENT);
        assert_eq!(Step::of(&error), (Step::Exec, Errno::NOENT.raw_os_error()));
    }

    #[test]
    fn nobody_gets_more_than_the_shim_itself_may_have() {
        let ours = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let wanted = Limits::new().open_files(u64::MAX).cpu_seconds(5);
        let [(_, cpu), (_, files)] = rlimits(&wanted)[..] else { panic!("two limits") };
        assert_eq!(files, Rlimit { current: Some(ours), maximum: Some(ours) });
        assert_eq!((cpu.current, cpu.maximum), (Some(5), Some(6)));
    }
}
