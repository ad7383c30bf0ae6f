//! The process driver: a call ends on time, and so does all that it began.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use std::path::Path;
use std::time::{Duration, Instant};

use process_support::{
    AMPLE, Stray, alive, call, eventually, evidence, however_held, open, pids, run, sh,
};
use serde_json::{Value, json};
use watertight::call::CancelToken;
use watertight::driver::process::{Command, Process};
use watertight::outcome::{Executed, Failure, FailureReason};

/// Begins five in five ways and writes their ids: a plain child, one in a session of its own, an
/// orphan without an environment, a daemon without our pipes, and one that ignores SIGTERM.
const TREE: &str = "
    sleep 120 & echo $! >> pids
    setsid sleep 120 & echo $! >> pids
    (env -i /usr/bin/setsid /bin/sh -c 'echo $$ >> pids; exec sleep 120' &)
    setsid sh -c 'sleep 120 <&- >&- 2>&- & echo $! >> pids'
    sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 120; exit' &
    until [ $(wc -l < pids) = 5 ]; do sleep 0.01; done
    echo begun; touch ready";

/// The same program as in the tree, of somebody else.
fn look_alike() -> Stray {
    Stray(std::process::Command::new("sleep").arg("120").spawn().unwrap())
}

/// Checks that all of `TREE` is gone; with nothing but a group to hold it, that the outcome owns up
/// to those who got away.
fn check_tree(folder: &Path, held_by: &str, shown: &Value) {
    let pids = pids(&folder.join("pids"));
    assert_eq!(pids.len(), 5);
    assert_eq!(shown["held_by"], held_by);
    assert_eq!(shown.get("survivors"), None);
    if held_by == "group" {
        assert_eq!(shown["pipe_held_open"], true);
        // Those in a session of their own.
        let strays = || pids.iter().copied().filter(|pid| alive(*pid)).collect::<Vec<_>>();
        eventually("the group is gone", || strays().len() == 3);
        strays().into_iter().for_each(process_support::kill);
    } else {
        assert!(!pids.iter().copied().any(alive), "nobody outlives the call");
        assert_eq!(shown.get("pipe_held_open"), None);
    }
}

#[test]
fn a_normal_exit_ends_the_tree_and_nobody_else() {
    however_held(|process, held_by| {
        let folder = tempfile::tempdir().unwrap();
        let innocent = look_alike();
        let shown = run(process.dir(folder.path()), sh(TREE), json!({})).unwrap();
        assert_eq!((&shown["exit_code"], &shown["stdout"]), (&json!(0), &json!("begun\n")));
        check_tree(folder.path(), held_by, &shown);
        assert!(innocent.is_alive());
    });
}

#[test]
fn the_run_limit_ends_the_tree_and_shows_what_was_written() {
    however_held(|process, held_by| {
        let folder = tempfile::tempdir().unwrap();
        let innocent = look_alike();
        let script = format!("{TREE}; trap '' TERM; wait");
        let tool = open(process.dir(folder.path())).tool(sh(&script)).unwrap();
        let start = Instant::now();
        let limit = Duration::from_secs(2);
        let failure = call(&*tool, &json!({}), limit, &CancelToken::new()).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::Unknown));
        assert!(start.elapsed() >= limit && start.elapsed() < Duration::from_secs(20));
        assert_eq!(evidence(&failure)["stdout"], "begun\n");
        assert_eq!(evidence(&failure)["signal"], "SIGKILL");
        check_tree(folder.path(), held_by, evidence(&failure));
        assert!(innocent.is_alive());
    });
}

/// Runs `script` and cancels it when it has written `ready`.
fn cancelled(folder: &Path, script: &str, process: Process) -> (Failure, Duration) {
    let tool = open(process.dir(folder)).tool(sh(script)).unwrap();
    let token = CancelToken::new();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| call(&*tool, &json!({}), AMPLE, &token).unwrap_err());
        eventually("it is ready", || folder.join("ready").exists());
        let start = Instant::now();
        token.cancel();
        (call.join().unwrap(), start.elapsed())
    })
}

#[test]
fn a_cancel_ends_the_tree() {
    however_held(|process, held_by| {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{TREE}; wait");
        let (failure, _) = cancelled(folder.path(), &script, process);
        assert_eq!(failure.reason, FailureReason::Cancelled);
        assert_eq!(failure.executed, Executed::Unknown);
        assert_eq!(evidence(&failure)["signal"], "SIGTERM");
        check_tree(folder.path(), held_by, evidence(&failure));
    });
}

#[test]
fn a_cancel_asks_first() {
    however_held(|process, _| {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo bye; exit 0' TERM; echo hi; touch ready; \
                      while sleep 0.01; do :; done";
        let process = process.term_grace(Duration::from_secs(30));
        let (failure, _) = cancelled(folder.path(), script, process);
        assert_eq!(failure.reason, FailureReason::Cancelled);
        assert_eq!(evidence(&failure)["exit_code"], 0);
        assert_eq!(evidence(&failure)["stdout"], "hi\nbye\n");
    });
}

#[test]
fn a_cancel_that_is_ignored_kills_after_its_grace() {
    however_held(|process, _| {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; touch ready; while sleep 0.01; do :; done";
        let grace = Duration::from_millis(300);
        let (failure, took) = cancelled(folder.path(), script, process.term_grace(grace));
        assert_eq!(failure.reason, FailureReason::Cancelled);
        assert_eq!(evidence(&failure)["signal"], "SIGKILL");
        assert!(took >= grace && took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn no_time_and_no_caller_mean_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let local = open(Process::new().dir(folder.path()));
    let tool = local.tool(Command::new(["touch", "started"])).unwrap();
    let token = CancelToken::new();
    let failure = call(&*tool, &json!({}), Duration::ZERO, &token).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::No));
    token.cancel();
    let failure = call(&*tool, &json!({}), AMPLE, &token).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Cancelled, Executed::No));
    assert!(!folder.path().join("started").exists());
}

/// Checks that nobody of one group is left. Without a shim they have been killed when the call
/// returns; somebody else reaps them.
fn check_ended(pids: &[i32], held_by: &str) {
    let ended = || !pids.iter().copied().any(alive);
    if held_by == "group" {
        eventually("the group is gone", ended);
    }
    assert!(ended());
}

#[test]
fn several_hundred_children_end_with_their_parent() {
    however_held(|process, held_by| {
        let folder = tempfile::tempdir().unwrap();
        let script = "i=0; while [ $i -lt 300 ]; do sleep 120 & echo $! >> pids; i=$((i+1)); done; \
                      touch ready; wait";
        let (failure, _) = cancelled(folder.path(), script, process);
        assert_eq!(failure.reason, FailureReason::Cancelled);
        let pids = pids(&folder.path().join("pids"));
        assert_eq!(pids.len(), 300);
        check_ended(&pids, held_by);
    });
}

#[test]
fn a_chain_of_orphans_is_caught_up_with() {
    however_held(|process, held_by| {
        let folder = tempfile::tempdir().unwrap();
        let hop = "echo $$ >> pids; [ $1 -eq 0 ] || sh hop $(($1 - 1)) &";
        std::fs::write(folder.path().join("hop"), hop).unwrap();
        let script = "sh hop 500 & until [ -s pids ]; do :; done";
        let shown = run(process.dir(folder.path()), sh(script), json!({})).unwrap();
        assert_eq!(shown["exit_code"], 0);
        let begun = pids(&folder.path().join("pids"));
        check_ended(&begun, held_by);
        assert!(begun.len() < 500, "it was ended before its own end");
    });
}
