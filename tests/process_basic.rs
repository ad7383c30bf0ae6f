//! The process driver: what a program is given, and what its caller is told.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use std::time::{Duration, Instant};

use process_support::{AMPLE, alive, call, eventually, evidence, open, pids, run, sh};
use serde_json::{Value, json};
use watertight::call::CancelToken;
use watertight::driver::args::{ArgSpec, ArgType};
use watertight::driver::process::{Command, Process};
use watertight::outcome::{Executed, Failure, FailureReason};

fn printf(args: Value) -> Result<Value, Failure> {
    run(Process::new(), Command::new(["printf", "<%s>", "{a}", "b{a}{a}"]), args)
}

#[test]
fn each_argument_is_one_element_whatever_is_in_it() {
    for text in ["x", "a b", "a; rm -rf x", "$(id)", "'\"\n\t*", "--flag", "", "ü€😀"] {
        let shown = printf(json!({ "a": text })).unwrap();
        assert_eq!(
            shown,
            json!({
                "exit_code": 0, "stdout": format!("<{text}><b{text}{text}>"), "stderr": ""
            })
        );
    }
    assert_eq!(printf(json!({"a": 7})).unwrap()["stdout"], "<7><b77>");
    assert_eq!(printf(json!({"a": true})).unwrap()["stdout"], "<true><btruetrue>");
}

#[test]
fn arguments_are_refused_before_anything_runs() {
    for (args, named) in [
        (json!({}), "missing argument `a`"),
        (json!({"a": "x", "z": 1}), "unknown argument `z`"),
        (json!({"a": ["x"]}), "argument `a` must be"),
        (json!({"a": "x\0y"}), "argument `a` must not hold a NUL"),
        (json!({"a": "x".repeat(200_000)}), "argument `a` is too long"),
    ] {
        let failure = printf(args).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::InvalidCall, Executed::No));
        assert!(failure.message.contains(named), "{}", failure.message);
    }
}

#[test]
fn declared_arguments_have_types_and_defaults() {
    let spec = |kind, default| ArgSpec { name: "n".into(), kind, default };
    let command = Command::new(["printf", "%s", "{n}"]);
    let with = |spec| open(Process::new()).tool(command.clone().arg(spec)).unwrap();
    let tool = with(spec(ArgType::Integer, Some(json!(3))));
    let shown = call(&*tool, json!({}), AMPLE, &CancelToken::new()).unwrap();
    assert_eq!(shown["stdout"], "3");
    assert!(tool.prepare(json!({"n": "3"}).as_object().unwrap()).is_err());
}

#[test]
fn standard_input_is_empty_unless_given() {
    let shown = run(Process::new(), Command::new(["cat"]), json!({})).unwrap();
    assert_eq!(shown["stdout"], "");
    let command = Command::new(["cat"]).stdin("<{text}>");
    let text = "line\n".repeat(100_000);
    let process = Process::new().output_kept(1_000_000);
    let shown = run(process, command, json!({ "text": text })).unwrap();
    assert_eq!(shown["stdout"], format!("<{text}>"));
}

#[test]
fn a_program_that_does_not_read_its_input_costs_nothing() {
    let command = Command::new(["true"]).stdin("{text}");
    let shown = run(Process::new(), command, json!({ "text": "x".repeat(4_000_000) })).unwrap();
    assert_eq!(shown["exit_code"], 0);
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let failure = run(Process::new(), sh("echo out; echo err >&2; exit 3"), json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::ExitCode, Executed::Yes));
    assert!(failure.message.contains("exit code 3"), "{}", failure.message);
    assert_eq!(evidence(&failure), &json!({"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}));

    let accepted = sh("exit 3").ok_exit_codes([0, 3]);
    assert_eq!(run(Process::new(), accepted, json!({})).unwrap()["exit_code"], 3);

    let failure = run(Process::new(), sh("echo so far; kill -SEGV $$"), json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Signal, Executed::Yes));
    let shown = json!({"signal": "SIGSEGV", "stdout": "so far\n", "stderr": ""});
    assert_eq!(evidence(&failure), &shown);
}

#[test]
fn what_is_missing_is_named_and_nothing_was_executed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let script = file.to_str().unwrap();
    let here = || Process::new().dir(folder.path());
    let gone = folder.path().join("gone");
    for (process, program, named) in [
        (here(), "no-such-program", "no program `no-such-program`"),
        (here(), "./no-such-program", "no program `./no-such-program`"),
        (here(), script, "no permission to execute"),
        (here(), "/tmp", "no permission to execute"),
        (here().dir(&gone), "true", "directory `"),
        (here().dir(&file), "true", "is not a directory"),
        (here().env("PATH", "/nowhere"), "true", "no program `true`"),
    ] {
        let failure = run(process, Command::new([program]), json!({})).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Spawn, Executed::No));
        assert!(failure.message.contains(named), "{}", failure.message);
    }
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, executable).unwrap();
    let failure = run(here(), Command::new(["./script"]), json!({})).unwrap_err();
    assert!(failure.message.contains("interpreter"), "{}", failure.message);
}

#[test]
fn the_directory_and_the_environment_are_the_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let home = std::fs::canonicalize(folder.path()).unwrap();
    let process = Process::new().dir(&home).env("MODE", "a=b").env_allow(["CARGO_PKG_*"]);
    let shown = run(process, sh("pwd; env"), json!({})).unwrap();
    let lines: Vec<_> = shown["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(lines[0], home.to_str().unwrap());
    assert!(lines.contains(&"MODE=a=b"));
    assert!(lines.contains(&"CARGO_PKG_NAME=watertight"));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the harness has it");
    assert!(!lines.iter().any(|line| line.starts_with("CARGO_MANIFEST_DIR=")));
}

#[test]
fn what_cannot_be_is_refused_when_it_is_built() {
    for (process, named) in [
        (Process::new().dir("a\0b"), "partition.local.process.dir: "),
        (Process::new().env_allow(["*"]), "partition.local.process.env_allow: `*`"),
        (Process::new().env("A=B", "c"), "partition.local.process.env: `A=B`"),
    ] {
        let refused = process.open(&process_support::sizing()).unwrap_err();
        assert!(refused.starts_with(named), "{refused}");
    }
    let local = open(Process::new());
    for (command, named) in [
        (Command::new(Vec::<String>::new()), "command: is empty"),
        (Command::new([""]), "command: the program must not be empty"),
        (Command::new(["{p}"]), "command: the program must be fixed"),
        (Command::new(["cat", "{"]), "command: `{`"),
        (Command::new(["cat", "a\0"]), "command: "),
        (Command::new(["cat"]).stdin("}"), "stdin: `}`"),
        (Command::new(["cat"]).ok_exit_codes([256]), "ok_exit_codes: 256"),
        (Command::new(["cat"]).ok_exit_codes([]), "ok_exit_codes: is empty"),
    ] {
        let Err(refused) = local.tool(command) else { panic!("not refused: {named}") };
        assert!(refused.starts_with(named), "{refused}");
    }
}

#[test]
fn output_is_kept_by_head_and_tail_and_counted() {
    let script = "seq 1 200000; seq 1 100000 >&2";
    let shown = run(Process::new().output_kept(100), sh(script), json!({})).unwrap();
    let stdout = shown["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("1\n2\n3\n") && stdout.ends_with("199999\n200000\n"), "{stdout}");
    assert!(stdout.contains(" bytes left out ...]\n"), "{stdout}");
    assert_eq!(shown["stdout_truncated"], true);
    assert_eq!(shown["stdout_bytes"], 1_288_895);
    assert_eq!(shown["stderr_bytes"], 588_895);
}

#[test]
fn a_full_pipe_never_blocks_the_other_one() {
    let script = "head -c 1048576 /dev/zero >&2; echo done";
    let shown = run(Process::new(), sh(script), json!({})).unwrap();
    assert_eq!((&shown["stdout"], &shown["stderr_bytes"]), (&json!("done\n"), &json!(1 << 20)));
    let script = "head -c 100000000 /dev/zero & head -c 100000000 /dev/zero >&2; wait";
    let shown = run(Process::new(), sh(script), json!({})).unwrap();
    assert_eq!(shown["stdout_bytes"], 100_000_000);
    assert_eq!(shown["stderr_bytes"], 100_000_000);
}

#[test]
fn endless_output_is_ended() {
    let failure =
        run(Process::new().output_max(1 << 20), Command::new(["yes"]), json!({})).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::TooLarge, Executed::Yes));
    assert_eq!(evidence(&failure)["signal"], "SIGKILL");
    assert!(evidence(&failure)["stdout"].as_str().unwrap().starts_with("y\ny\n"));
}

#[test]
fn the_run_limit_kills_the_group_and_shows_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; echo so far; sleep 600 & echo $! > pids; echo $$ >> pids; wait";
    let tool = open(Process::new().dir(folder.path())).tool(sh(script)).unwrap();
    let start = Instant::now();
    let limit = Duration::from_secs(1);
    let failure = call(&*tool, json!({}), limit, &CancelToken::new()).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::Unknown));
    assert_eq!(evidence(&failure)["stdout"], "so far\n");
    assert!(start.elapsed() >= limit && start.elapsed() < Duration::from_secs(10));
    let pids = pids(&folder.path().join("pids"));
    assert_eq!(pids.len(), 2);
    eventually("the group is gone", || !pids.iter().copied().any(alive));
}

#[test]
fn no_time_and_no_caller_mean_no_start() {
    let folder = tempfile::tempdir().unwrap();
    let local = open(Process::new().dir(folder.path()));
    let tool = local.tool(Command::new(["touch", "started"])).unwrap();
    let token = CancelToken::new();
    let failure = call(&*tool, json!({}), Duration::ZERO, &token).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Limit, Executed::No));
    token.cancel();
    let failure = call(&*tool, json!({}), AMPLE, &token).unwrap_err();
    assert_eq!((failure.reason, failure.executed), (FailureReason::Cancelled, Executed::No));
    assert!(!folder.path().join("started").exists());
}

/// Runs `script` (which writes `ready` when it is) and cancels it then.
fn cancelled(script: &str, process: Process) -> (Failure, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let tool = open(process.dir(folder.path())).tool(sh(script)).unwrap();
    let token = CancelToken::new();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| call(&*tool, json!({}), AMPLE, &token).unwrap_err());
        eventually("it is ready", || folder.path().join("ready").exists());
        let start = Instant::now();
        token.cancel();
        (call.join().unwrap(), start.elapsed())
    })
}

#[test]
fn a_cancel_asks_first() {
    let script = "trap 'echo bye; exit 0' TERM; echo hi; touch ready; \
                  while :; do sleep 0.01; done";
    let (failure, _) = cancelled(script, Process::new().term_grace(Duration::from_secs(30)));
    assert_eq!((failure.reason, failure.executed), (FailureReason::Cancelled, Executed::Unknown));
    assert_eq!(evidence(&failure)["stdout"], "hi\nbye\n");
    assert_eq!(evidence(&failure)["exit_code"], 0);
}

#[test]
fn a_cancel_that_is_ignored_kills_after_its_grace() {
    let script = "trap '' TERM; touch ready; while :; do sleep 0.01; done";
    let grace = Duration::from_millis(300);
    let (failure, took) = cancelled(script, Process::new().term_grace(grace));
    assert_eq!(failure.reason, FailureReason::Cancelled);
    assert_eq!(evidence(&failure)["signal"], "SIGKILL");
    assert!(took >= grace && took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_normal_exit_leaves_nobody_of_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 600 & echo $! > pids; echo hi";
    let start = Instant::now();
    let shown = run(Process::new().dir(folder.path()), sh(script), json!({})).unwrap();
    assert_eq!(shown, json!({"exit_code": 0, "stdout": "hi\n", "stderr": ""}));
    assert!(start.elapsed() < Duration::from_secs(10));
    let pids = pids(&folder.path().join("pids"));
    eventually("the child in the background is gone", || !alive(pids[0]));
}
