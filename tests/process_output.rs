//! The process driver: both outputs are drained at once, kept in part and counted in full.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use process_support::{evidence, however_held, run, sh};
use serde_json::json;
use watertight::driver::process::{Command, Limits};
use watertight::outcome::{Executed, FailureReason};

#[test]
fn head_and_tail_are_kept_and_the_rest_is_counted() {
    however_held(|process, _| {
        let command = sh("seq 1 200000; seq 1 100000 >&2").limits(Limits::new().output_kept(100));
        let shown = run(process, command, json!({})).unwrap();
        let stdout = shown["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("1\n2\n3\n") && stdout.ends_with("199999\n200000\n"));
        assert!(stdout.contains(" bytes left out ...]\n") && stdout.len() < 150, "{stdout}");
        assert_eq!(shown["stdout_truncated"], true);
        assert_eq!(shown["stdout_bytes"], 1_288_895);
        assert_eq!(shown["stderr_bytes"], 588_895);
    });
}

#[test]
fn bytes_that_are_no_text_are_shown_as_such() {
    however_held(|process, _| {
        let shown = run(process, sh(r"printf 'a\377b\0c'"), json!({})).unwrap();
        assert_eq!(shown["stdout"], "a\u{FFFD}b\0c");
    });
}

#[test]
fn a_full_pipe_never_blocks_the_other_one() {
    however_held(|process, _| {
        let script = "head -c 1048576 /dev/zero >&2; echo done";
        let shown = run(process.clone(), sh(script), json!({})).unwrap();
        assert_eq!((&shown["stdout"], &shown["stderr_bytes"]), (&json!("done\n"), &json!(1 << 20)));
        let script = "head -c 100000000 /dev/zero & head -c 100000000 /dev/zero >&2; wait";
        let shown = run(process, sh(script), json!({})).unwrap();
        assert_eq!(shown["stdout_bytes"], 100_000_000);
        assert_eq!(shown["stderr_bytes"], 100_000_000);
    });
}

#[test]
fn endless_output_is_ended() {
    however_held(|process, _| {
        let process = process.limits(Limits::new().output_max(1 << 20));
        let failure = run(process, Command::new(["yes"]), json!({})).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::TooLarge, Executed::Yes));
        assert_eq!(evidence(&failure)["signal"], "SIGKILL");
        assert!(evidence(&failure)["stdout"].as_str().unwrap().starts_with("y\ny\n"));
    });
}
