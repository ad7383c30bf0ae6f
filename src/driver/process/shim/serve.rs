//! The shim's own life, from its order to its report.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::{Pid, getpid, set_child_subreaper};
use rustix::stdio::stdin;

use super::confine::{Step, confine};
use super::reap::{self, Reaper};
use super::{Order, Report, channel};
use crate::driver::process::cgroup;
use crate::driver::process::limits::Limits;

/// The program to begin: its file, its name for itself, its arguments.
struct Program {
    file: OsString,
    name: OsString,
    args: Vec<OsString>,
}

/// Is the shim of one program; the process's exit code.
pub(super) fn serve(mut args: impl Iterator<Item = OsString>) -> i32 {
    let (Some(file), Some(name)) = (args.next(), args.next()) else {
        return 2;
    };
    let program = Program { file, name, args: args.collect() };
    let Ok((order, given)) = order() else {
        return 2;
    };
    let report = match attend(&program, &order, given) {
        Ok(report) => report,
        Err(error) => {
            let (step, errno) = Step::of(&error);
            Report::NotBegun { errno, step: step.in_words().map(str::to_owned) }
        }
    };
    let told = serde_json::to_vec(&report).map(|told| channel::send(stdin(), &told, None));
    i32::from(!matches!(told, Ok(Ok(()))))
}

fn order() -> io::Result<(Order, Option<OwnedFd>)> {
    let (message, given) = channel::receive(stdin())?;
    Ok((serde_json::from_slice(&message)?, given))
}

/// Begins the program, waits, and ends everybody.
fn attend(program: &Program, order: &Order, given: Option<OwnedFd>) -> io::Result<Report> {
    set_child_subreaper(Some(getpid()))?;
    let signals = reap::signals()?;
    let cgroup = order.cgroup.as_deref().map(Path::new);
    let inside = cgroup.is_some_and(|group| cgroup::enter(group).is_ok());
    let begun = begin(program, &order.limits, given);
    // Having left it, the shim may have the kernel kill everybody in it.
    let group = cgroup.filter(|group| inside && cgroup::leave(group).is_ok());
    let main = begun?;

    // From here on nothing may fail: somebody has been begun.
    let mut reaper = Reaper::new(signals, main);
    reaper.attend(stdin());
    let survivors = reaper.end_all(group);
    if let Some(group) = group {
        cgroup::remove(group);
    }
    let in_cgroup = group.is_some();
    let (cpu_us, peak_memory_kib) = usage_of_all();
    Ok(Report::Ended { status: reaper.status(), cpu_us, peak_memory_kib, survivors, in_cgroup })
}

/// The CPU time of all who have been reaped, in microseconds, and the memory of the largest.
fn usage_of_all() -> (u64, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return (0, 0);
    };
    let cpu = usage.user_time() + usage.system_time();
    (cpu.num_microseconds().unsigned_abs(), usage.max_rss().unsigned_abs())
}

fn begin(program: &Program, limits: &Limits, given: Option<OwnedFd>) -> io::Result<Pid> {
    let mut command = Command::new(&program.file);
    command.arg0(&program.name).args(&program.args).process_group(0);
    command.stdin(given.map_or_else(Stdio::null, Stdio::from));
    confine(&mut command, limits);
    Ok(Pid::from_child(&command.spawn()?))
}
