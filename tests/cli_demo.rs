//! The demo, as a user runs it.
#![cfg(feature = "cli")]

use std::process::Command;

use serde_json::Value;

#[test]
fn the_demo_shows_that_walls_hold_and_a_shared_pool_does_not() {
    let output = Command::new(env!("CARGO_BIN_EXE_watertight")).args(["demo", "--json"]).output();
    let output = output.expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    let figure = |run: &str, key: &str| report[run][key].as_u64().expect("a count");
    // Most of its calls find a slot in the shared pool, too: those that do not make the tail.
    let p99 = |run: &str| report[run]["tools"]["list_deployments"]["p99_us"].as_u64().unwrap();
    assert!(figure("walls", "turns") > 2 * figure("shared", "turns"), "{report:#}");
    assert!(p99("shared") > 5 * p99("walls"), "{report:#}");
    assert_eq!(figure("shared", "busy"), 0, "without walls nobody is told: {report:#}");
    assert!(figure("walls", "busy") > 0, "behind walls the searchers are told: {report:#}");
    assert!(report["summary"].as_str().unwrap().contains("list_deployments"));
}
