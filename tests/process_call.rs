//! The process driver: what a program is given, and what its caller is told.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use process_support::{AMPLE, call, evidence, gist, however_held, open, run, sh, shim};
use serde_json::{Value, json};
use watertight::call::CancelToken;
use watertight::driver::args::{ArgSpec, ArgType};
use watertight::driver::process::{Command, Limits, Process, Shim};
use watertight::outcome::{Executed, Failure, FailureReason};

fn printf(process: Process, text: &Value) -> Result<Value, Failure> {
    run(process, Command::new(["printf", "<%s>", "{a}", "b{a}{a}"]), json!({ "a": text }))
}

#[test]
fn each_argument_is_one_element_whatever_is_in_it() {
    however_held(|process, held_by| {
        for text in ["x", "a b", "a; rm -rf x", "$(id)", "'\"\n\t*", "--flag", "", "ü€😀"] {
            let shown = printf(process.clone(), &json!(text)).unwrap();
            let stdout = format!("<{text}><b{text}{text}>");
            assert_eq!(gist(&shown), json!({"exit_code": 0, "stdout": stdout, "stderr": ""}));
            assert_eq!(shown["held_by"], held_by);
        }
        assert_eq!(printf(process.clone(), &json!(7)).unwrap()["stdout"], "<7><b77>");
        assert_eq!(printf(process, &json!(true)).unwrap()["stdout"], "<true><btruetrue>");
    });
}

#[test]
fn arguments_are_refused_before_anything_runs() {
    let tool = open(Process::new()).tool(Command::new(["true", "{a}"])).unwrap();
    for (args, named) in [
        (json!({}), "missing argument `a`"),
        (json!({"a": "x", "z": 1}), "unknown argument `z`"),
        (json!({"a": ["x"]}), "argument `a` must be"),
        (json!({"a": "x\0y"}), "argument `a` must not hold a NUL"),
        (json!({"a": "x".repeat(200_000)}), "argument `a` is too long"),
    ] {
        let Err(failure) = tool.prepare(args.as_object().unwrap()) else { panic!("{named}") };
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
    let shown = call(&*tool, &json!({}), AMPLE, &CancelToken::new()).unwrap();
    assert_eq!(shown["stdout"], "3");
    assert!(tool.prepare(json!({"n": "3"}).as_object().unwrap()).is_err());
}

#[test]
fn standard_input_is_empty_unless_given() {
    however_held(|process, _| {
        let shown = run(process.clone(), Command::new(["cat"]), json!({})).unwrap();
        assert_eq!(shown["stdout"], "");
        let text = "line\n".repeat(100_000);
        let command = Command::new(["cat"]).stdin("<{text}>");
        let command = command.limits(Limits::new().output_kept(1_000_000));
        let shown = run(process.clone(), command, json!({ "text": text })).unwrap();
        assert_eq!(shown["stdout"], format!("<{text}>"));

        let unread = Command::new(["true"]).stdin("{text}");
        let shown = run(process, unread, json!({ "text": "x".repeat(4_000_000) })).unwrap();
        assert_eq!(shown["exit_code"], 0);
    });
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    however_held(|process, held_by| {
        let run = |command| run(process.clone(), command, json!({}));
        let failure = run(sh("echo out; echo err >&2; exit 3")).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::ExitCode, Executed::Yes));
        assert!(failure.message.contains("exit code 3"), "{}", failure.message);
        let shown = json!({"exit_code": 3, "stdout": "out\n", "stderr": "err\n"});
        assert_eq!(gist(evidence(&failure)), shown);
        assert_eq!(evidence(&failure)["held_by"], held_by);

        assert_eq!(run(sh("exit 3").ok_exit_codes([0, 3])).unwrap()["exit_code"], 3);

        let failure = run(sh("echo so far; kill -SEGV $$")).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Signal, Executed::Yes));
        let shown = json!({"signal": "SIGSEGV", "stdout": "so far\n", "stderr": ""});
        assert_eq!(gist(evidence(&failure)), shown);
    });
}

#[test]
fn what_is_missing_is_named_and_nothing_was_executed() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, script] = ["plain", "script"].map(|name| folder.path().join(name));
    std::fs::write(&plain, "text").unwrap();
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    however_held(|process, _| {
        let here = || process.clone().dir(folder.path());
        for (process, program, named) in [
            (here(), "no-such-program", "no program `no-such-program`"),
            (here(), "./no-such-program", "no program `./no-such-program`"),
            (here(), "./plain", "no permission to execute `./plain`"),
            (here(), "/tmp", "no permission to execute `/tmp`"),
            (here(), "./script", "the interpreter that the first line of `./script` names"),
            (here().dir(folder.path().join("gone")), "true", "gone` does not exist"),
            (here().dir(&plain), "true", "plain` is not a directory"),
            (here().env("PATH", "/nowhere"), "true", "no program `true`"),
        ] {
            let failure = run(process, Command::new([program]), json!({})).unwrap_err();
            assert_eq!((failure.reason, failure.executed), (FailureReason::Spawn, Executed::No));
            assert!(failure.message.contains(named), "{}", failure.message);
        }
    });
}

#[test]
fn the_directory_and_the_environment_are_the_tools_then_the_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let home = std::fs::canonicalize(folder.path()).unwrap();
    std::fs::create_dir(home.join("below")).unwrap();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the harness has it");
    however_held(|process, _| {
        let process = process.dir(&home).env("MODE", "a=b").env("KIND", "x");
        let process = process.env_allow(["CARGO_PKG_N*"]);
        let command = sh("pwd; env").dir("below").env("KIND", "y").env_allow(["CARGO_PKG_VERSION"]);
        let shown = run(process, command, json!({})).unwrap();
        let lines: Vec<_> = shown["stdout"].as_str().unwrap().lines().collect();
        assert_eq!(lines[0], home.join("below").to_str().unwrap());
        for line in ["MODE=a=b", "KIND=y", "CARGO_PKG_NAME=watertight", "CARGO_PKG_VERSION=0.1.0"] {
            assert!(lines.contains(&line), "{line}");
        }
        assert!(!lines.iter().any(|line| line.starts_with("CARGO_MANIFEST_DIR=")));
    });
}

#[test]
fn a_program_inherits_no_signal_mask_and_no_descriptor() {
    let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd";
    let mut bare = std::process::Command::new("sh");
    let bare = bare.args(["-c", script]).output().unwrap();
    let expected = String::from_utf8(bare.stdout).unwrap();
    assert!(expected.starts_with("SigBlk:\t0000000000000000\n"), "{expected}");
    however_held(|process, _| {
        assert_eq!(run(process, sh(script), json!({})).unwrap()["stdout"], expected);
    });
}

#[test]
fn what_cannot_be_is_refused_when_it_is_built() {
    let at = |path: &str| Process::new().shim(Shim::At(path.into()));
    for (process, named) in [
        (Process::new().dir("a\0b"), "dir: "),
        (Process::new().env_allow(["*"]), "env_allow: `*`"),
        (Process::new().env("A=B", "c"), "env: `A=B`"),
        (Process::new().limits(Limits::new().nice(20)), "nice: 20"),
        (Process::new().limits(Limits::new().nice(1)), "nice: only the shim sets it"),
        (at("/no/such/shim"), "shim: `/no/such/shim` is no file"),
    ] {
        let refused = process.open(&process_support::sizing()).unwrap_err();
        assert!(refused.starts_with(&format!("partition.local.process.{named}")), "{refused}");
    }
    let local = open(Process::new().shim(shim()));
    for (command, named) in [
        (Command::new(Vec::<String>::new()), "command: is empty"),
        (Command::new([""]), "command: the program must not be empty"),
        (Command::new(["{p}"]), "command: the program must be fixed"),
        (Command::new(["cat", "{"]), "command: `{`"),
        (Command::new(["cat", "a\0"]), "command: no element may hold a NUL"),
        (Command::new(["cat"]).stdin("}"), "stdin: `}`"),
        (Command::new(["cat"]).ok_exit_codes([256]), "ok_exit_codes: 256"),
        (Command::new(["cat"]).ok_exit_codes([]), "ok_exit_codes: is empty"),
        (Command::new(["cat"]).dir("a\0b"), "dir: "),
        (Command::new(["cat"]).env_allow([""]), "env_allow: ``"),
        (Command::new(["cat"]).limits(Limits::new().cpu_seconds(0)), "cpu_seconds: 0"),
    ] {
        let Err(refused) = local.tool(command) else { panic!("not refused: {named}") };
        assert!(refused.starts_with(named), "{refused}");
    }
}
