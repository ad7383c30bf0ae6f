//! The process driver: what happens when the shim itself is lost.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use process_support::{alive, eventually, however_held, kill, pids, run, sh};
use serde_json::json;
use watertight::driver::process::{Command, Process, Shim};
use watertight::outcome::{Executed, FailureReason};

#[test]
fn a_program_that_kills_its_shim_is_found_out() {
    however_held(|process, held_by| {
        if held_by == "group" {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let script = "echo $$ > pids; kill -KILL $PPID; exec sleep 120";
        let failure = run(process.dir(folder.path()), sh(script), json!({})).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Error, Executed::Unknown));
        let fate = if held_by == "cgroup" { "was killed" } else { "may still run" };
        let message = format!("lost the shim of `sh` (signal: 9 (SIGKILL)); what it began {fate}");
        assert_eq!(failure.message, message);
        let pid = pids(&folder.path().join("pids"))[0];
        if held_by == "cgroup" {
            eventually("its control group was killed", || !alive(pid));
        } else {
            kill(pid);
        }
    });
}

#[test]
fn a_shim_that_is_asked_to_end_ends_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::new().shim(process_support::shim()).dir(folder.path());
    let script = "sleep 120 & echo $! > pids; kill -TERM $PPID; wait";
    let failure = run(process, sh(script), json!({})).unwrap_err();
    assert_eq!(failure.reason, FailureReason::Signal);
    assert!(!alive(pids(&folder.path().join("pids"))[0]));
}

#[test]
fn a_program_that_is_no_shim_is_found_out() {
    let process = Process::new().shim(Shim::At("/bin/true".into()));
    let failure = run(process, Command::new(["echo", "x"]), json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Error, Executed::Unknown));

    let process = Process::new().shim(Shim::At("/etc/passwd".into()));
    let failure = run(process, Command::new(["echo", "x"]), json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Spawn, Executed::No));
    assert!(failure.message.contains("/etc/passwd"), "{}", failure.message);
}

#[test]
fn a_shim_that_nobody_started_does_nothing() {
    let Shim::At(file) = process_support::shim() else { unreachable!() };
    for args in [&[][..], &["--watertight-shim"], &["--watertight-shim", "/bin/echo", "echo"]] {
        let output = std::process::Command::new(&file).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    }
}
