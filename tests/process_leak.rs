//! The process driver: a thousand kills leave nothing behind.
#![cfg(all(feature = "process", target_os = "linux"))]

mod process_support;

use std::time::Duration;

use process_support::{call, however_held, open};
use serde_json::json;
use watertight::call::CancelToken;
use watertight::driver::process::Command;
use watertight::outcome::FailureReason;

/// Our open descriptors, threads, and children, zombies among them.
fn belongings() -> [usize; 3] {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap());
    let children = lists.map(|list| list.split_whitespace().count()).sum();
    [count("/proc/self/fd"), count("/proc/self/task"), children]
}

#[test]
fn a_thousand_kills_leave_nothing_behind() {
    however_held(|process, held_by| {
        let tool = open(process).tool(Command::new(["sleep", "600"])).unwrap();
        let before = belongings();
        // Changing a control group is slow, and the shim does the same with it.
        let rounds = if held_by == "cgroup" { 100 } else { 1000 };
        for round in 0..rounds {
            let token = CancelToken::new();
            let failure =
                call(&*tool, &json!({}), Duration::from_millis(1 + round % 4), &token).unwrap_err();
            assert_eq!(failure.reason, FailureReason::Limit, "{held_by} {round}");
        }
        assert_eq!(belongings(), before, "descriptors, threads, children ({held_by})");
    });
    let groups = std::fs::read_dir("/sys/fs/cgroup/unified")
        .or_else(|_| std::fs::read_dir("/sys/fs/cgroup"));
    let ours = format!("watertight-{}-", std::process::id());
    let left = groups
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours));
    assert_eq!(left.count(), 0, "no control group is left");
}
