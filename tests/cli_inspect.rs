//! `watertight inspect` as a user runs it.
#![cfg(feature = "cli")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// The first vector: a scenario and its outcome.
fn vector() -> (Value, Value) {
    let line = include_str!("data/inspector_vectors.jsonl").lines().next();
    let outcome: Value = serde_json::from_str(line.unwrap()).unwrap();
    (outcome["scenario"].clone(), outcome)
}

/// Exit code, lines of JSON on standard output, standard error.
fn inspect(args: &[&str], input: &str) -> (i32, Vec<Value>, String) {
    let mut child = Command::new(cargo_bin("watertight"))
        .arg("inspect")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have said no before it reads anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let told = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), lines.collect(), told)
}

#[test]
fn a_scenario_gives_its_outcome() {
    let (scenario, outcome) = vector();
    let expected = (0, vec![outcome], String::new());
    assert_eq!(inspect(&["--scenario", "-", "--json"], &scenario.to_string()), expected);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.json");
    fs::write(&file, serde_json::to_string_pretty(&scenario).unwrap()).unwrap();
    assert_eq!(inspect(&["--json", "--scenario", file.to_str().unwrap()], ""), expected);
}

#[test]
fn the_plan_of_the_manual_runs_and_a_trace_is_found_beside_its_plan() {
    let manual = include_str!("../README.md");
    let (_, plan) = manual.split_once("<<'PLAN'\n").unwrap();
    let (plan, _) = plan.split_once("PLAN\n").unwrap();
    let (code, report, told) = inspect(&["--plan", "-"], plan);
    assert_eq!((code, told.as_str()), (0, ""));
    let [search, tickets] = [&report[0]["partitions"][0], &report[0]["partitions"][1]];
    assert!(search["counts"]["circuit_open"].as_u64() > Some(0), "{search}");
    assert_eq!(tickets["counts"]["ok"], 1200);

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.jsonl"), include_str!("data/trace.jsonl")).unwrap();
    let file = folder.path().join("plan.json");
    let trace = r#"{"duration_ms": 1e6, "partitions": [{"name": "p", "slots": 4}],
        "loads": [{"partition": "p", "arrivals": {"trace": {"file": "t.jsonl"}}}]}"#;
    fs::write(&file, trace).unwrap();
    let (code, report, told) = inspect(&["--plan", file.to_str().unwrap()], "");
    assert_eq!((code, told.as_str()), (0, ""));
    assert_eq!(report[0]["calls"], 42);

    let (code, _, told) = inspect(&["--plan", "-"], &plan.replace("\"slots\": 2", "\"slots\": 0"));
    assert_eq!(code, 2);
    assert!(told.contains("partitions[1].slots = \"0\": must be 1 to 4096"), "{told}");
}

#[test]
fn arrays_and_lines_give_a_line_each_and_errors_in_their_place() {
    let (scenario, outcome) = vector();
    for text in
        [format!("[{scenario}, {{}}, {scenario}]"), format!("{scenario}\n{{}}\n{scenario}\n")]
    {
        let (code, lines, told) = inspect(&["--scenario", "-", "--json"], &text);
        assert_eq!((code, told.as_str(), lines.len()), (0, "", 3));
        assert_eq!((&lines[0], &lines[2]), (&outcome, &outcome));
        assert_eq!(lines[1]["error"]["field"], "slots");
    }
}

#[test]
fn a_single_invalid_scenario_is_bad_usage() {
    let (mut scenario, _) = vector();
    scenario["slots"] = 65.into();
    let (code, lines, told) = inspect(&["--scenario", "-", "--json"], &scenario.to_string());
    assert_eq!(code, 2);
    let error = serde_json::json!({
        "error": {"field": "slots", "value": 65, "rule": "must be a whole number from 1 to 64"}
    });
    assert_eq!(lines, [error]);
    assert_eq!(told, "error: slots = 65: must be a whole number from 1 to 64\n");

    let (code, _, told) = inspect(&["--scenario", "-", "--no-open"], &scenario.to_string());
    assert_eq!((code, told.contains("slots = 65")), (2, true));
}

#[test]
fn bad_usage_says_what_is_wrong() {
    let (code, _, told) = inspect(&["--scenario", "/no/such/file", "--json"], "");
    assert_eq!((code, told.contains("/no/such/file")), (2, true), "{told}");
    let (code, _, told) = inspect(&["--json"], "");
    assert_eq!((code, told.contains("--scenario")), (2, true), "{told}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, _, told) = inspect(&["--port", &port, "--no-open"], "");
    assert_eq!((code, told.contains(&port)), (2, true), "{told}");
}

#[cfg(unix)]
#[test]
fn the_page_is_served_with_the_scenario_until_it_is_interrupted() {
    let (scenario, _) = vector();
    let mut child = Command::new(cargo_bin("watertight"))
        .args(["inspect", "--no-open", "--scenario", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(scenario.to_string().as_bytes()).unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let (host, inputs) = url.trim_end().strip_prefix("http://").unwrap().split_once("/#").unwrap();
    assert_eq!(inputs.split('&').count(), 12);
    assert!(inputs.contains(&format!("slots={}&", scenario["slots"])), "{inputs}");

    let mut page = TcpStream::connect(host).unwrap();
    write!(page, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");

    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
