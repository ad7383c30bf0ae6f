//! The process driver: limits are set before a program begins, and show in what its caller is told.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use process_support::{evidence, open, run, sh, shim};
use serde_json::{Value, json};
use watertight::driver::process::{Command, Limits, Process};
use watertight::outcome::{Executed, Failure, FailureReason};

fn limited(limits: Limits, command: Command) -> Result<Value, Failure> {
    run(Process::new().shim(shim()).limits(limits), command, json!({}))
}

/// A program that holds 200 MB, if it may.
fn hoard() -> Command {
    sh("head -c 200000000 /dev/zero | tail | wc -c; [ $? -eq 0 ]").limits(Limits::new())
}

#[test]
fn memory_is_bounded_and_its_peak_is_shown() {
    let shown = limited(Limits::new(), hoard()).unwrap();
    assert_eq!(shown["stdout"], "200000000\n");
    assert!(shown["peak_memory_kib"].as_u64().unwrap() > 190_000, "{shown}");
    assert_eq!(shown.get("memory_limit_kib"), None);

    let script = "head -c 200000000 /dev/zero | tail";
    let failure = limited(Limits::new().memory(64 << 20), sh(script)).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::ExitCode, Executed::Yes));
    let shown = evidence(&failure);
    assert!(shown["stderr"].as_str().unwrap().contains("memory exhausted"), "{shown}");
    assert!(shown["peak_memory_kib"].as_u64().unwrap() < 100_000, "{shown}");
    assert_eq!(shown["memory_limit_kib"], 65536);
}

#[test]
fn a_program_that_dies_of_its_memory_limit_is_told_by_its_signal() {
    let script = "head -c 200000000 /dev/zero | tail || kill -ABRT $$";
    let failure = limited(Limits::new().memory(64 << 20), sh(script)).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Signal, Executed::Yes));
    assert_eq!(evidence(&failure)["signal"], "SIGABRT");
}

#[test]
fn cpu_time_is_bounded_and_shown() {
    let failure = limited(Limits::new().cpu_seconds(1), sh("while :; do :; done")).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Signal, Executed::Yes));
    assert_eq!(failure.message, "`sh` was ended by SIGXCPU: its limit is 1 s of CPU time");
    let cpu_ms = evidence(&failure)["cpu_ms"].as_u64().unwrap();
    // The limit is counted in ticks, the time is not: they differ where CPUs are shared.
    assert!((300..3000).contains(&cpu_ms), "{cpu_ms}");
}

#[test]
fn a_program_that_ignores_its_cpu_limit_is_killed() {
    let script = "trap '' XCPU; while :; do :; done";
    let failure = limited(Limits::new().cpu_seconds(1), sh(script)).unwrap_err();
    assert_eq!(evidence(&failure)["signal"], "SIGKILL");
}

#[test]
fn files_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let command = Command::new(["dd", "if=/dev/zero", "of=big", "bs=1000", "count=100"]);
    let command = command.dir(folder.path());
    let failure = limited(Limits::new().file_size(5000), command).unwrap_err();
    assert_eq!(failure.message, "`dd` was ended by SIGXFSZ: its limit is 5000 bytes a file");
    assert_eq!(folder.path().join("big").metadata().unwrap().len(), 5000);

    let shown = limited(Limits::new().file_size(0), sh("seq 1 100000 | tail -n 1")).unwrap();
    assert_eq!(shown["stdout"], "100000\n", "outputs are no files");
}

#[test]
fn descriptors_niceness_and_cpus_are_set() {
    let script = "ulimit -n; ulimit -Hn; nice; grep Cpus_allowed_list /proc/self/status";
    let ours = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = ours.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    let first: usize = list.split(['-', ',']).next().unwrap().parse().unwrap();
    let limits = Limits::new().open_files(17).nice(19).cpus([first]);
    let shown = limited(limits, sh(script)).unwrap();
    assert_eq!(shown["stdout"], format!("17\n17\n19\nCpus_allowed_list:\t{first}\n"));

    let huge = Limits::new().open_files(u64::MAX).memory(u64::MAX);
    assert_eq!(limited(huge, Command::new(["true"])).unwrap()["exit_code"], 0);
}

#[test]
fn the_tools_limits_come_before_the_partitions() {
    let partition = Limits::new().open_files(40).nice(19);
    let local = open(Process::new().shim(shim()).limits(partition));
    let command = sh("ulimit -n; nice").limits(Limits::new().open_files(30));
    let tool = local.tool(command).unwrap();
    let token = watertight::call::CancelToken::new();
    let shown = process_support::call(&*tool, &json!({}), process_support::AMPLE, &token).unwrap();
    assert_eq!(shown["stdout"], "30\n19\n");
}

#[test]
fn the_shim_keeps_its_own_pace() {
    let script = "grep '^Cpus_allowed_list' /proc/$PPID/status; cut -d' ' -f19 /proc/$PPID/stat";
    let free = limited(Limits::new(), sh(script)).unwrap();
    let bound = limited(Limits::new().nice(19).cpus([0]), sh(script)).unwrap();
    assert_eq!(free["stdout"], bound["stdout"], "limits are the program's alone");
}
