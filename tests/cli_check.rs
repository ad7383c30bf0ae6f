//! `watertight check`: what is wrong with a configuration, or what it will do.
#![cfg(feature = "cli")]

mod cli_support;

use cli_support::Folder;
use serde_json::{Value, json};

const CONFIG: &str = r#"
[partition.search]
slots = 2
queue = 4
max_wait = "50ms"
run_limit = "29s"
dispatch = "borrow"
tenant_slots = { gold = 1 }
[partition.search.http]
base_url = "http://search.example"
[tool.search_docs]
partition = "search"
path = "/"
[partition.tickets]
slots = 1
queue = 3
max_wait = "1h"
run_limit = "10s"
[partition.tickets.sql]
url = "sqlite:gone.db"
[tool.read_ticket]
partition = "tickets"
sql = "select 1"
[tool.close_ticket]
partition = "tickets"
sql = "select 2"
"#;

fn check(folder: &Folder, args: &[&str]) -> (Option<i32>, String, String) {
    let output = folder.command(&["check"]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_tells_what_each_partition_will_do() {
    let folder = Folder::new(CONFIG);
    let (code, stdout, stderr) = check(&folder, &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let row = |name: &str| {
        let line = stdout.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    let answers = "29s 150ms";
    assert_eq!(row("search"), ["search", "http", "2", "4", "50ms", "29s", answers, "search_docs"]);
    // Three wait, each for a run of 10.1 s and its own; an hour would be more than that.
    let tickets = row("tickets");
    assert_eq!(tickets[..7], ["tickets", "sqlite", "1", "3", "1h", "10s", "40s 400ms"]);
    assert!(stdout.contains("2 partitions, 3 tools, at most 3 calls at once"), "{stdout}");
    let warnings: Vec<_> = stdout.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{stdout}");
    assert!(warnings[0].contains("partition.tickets: there is no file `gone.db`"), "{stdout}");
    assert!(warnings[1].contains("calls may wait as long as they may run"), "{stdout}");
}

#[test]
fn it_tells_the_same_as_data() {
    let folder = Folder::new(CONFIG);
    let (code, stdout, _) = check(&folder, &["--json"]);
    assert_eq!(code, Some(0));
    let data: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(data["ok"], true);
    let search = &data["partitions"][0];
    for (key, value) in [
        ("partition", json!("search")),
        ("driver", json!("http")),
        ("slots", json!(2)),
        ("queue", json!(4)),
        ("max_wait_ms", json!(50.0)),
        ("run_limit_ms", json!(29_000.0)),
        ("answers_within_ms", json!(29_150.0)),
        ("dispatch", json!("borrow")),
        ("tenant_slots", json!({"gold": 1})),
        ("tools", json!(["search_docs"])),
    ] {
        assert_eq!(search[key], value, "{key}");
    }
    assert_eq!(data["warnings"].as_array().unwrap().len(), 2);
}

#[test]
fn it_warns_of_a_partition_larger_than_its_backend_allows() {
    let folder = Folder::new("[partition.p]\nslots = 4\nbackend_max = 3\n");
    let (code, stdout, _) = check(&folder, &[]);
    let expected = "warning: watertight.toml:3:1: partition.p.backend_max = 3: is less than the 4 \
                    calls that the partition may make at once (slots 4); lower them to 3 in all";
    assert!(code == Some(0) && stdout.contains(expected), "{stdout}");
    let (_, stdout, _) = check(&folder, &["--json"]);
    let data: Value = serde_json::from_str(&stdout).unwrap();
    assert!(format!("warning: {}", data["warnings"][0].as_str().unwrap()).starts_with(expected));
}

#[test]
fn it_tells_every_fault_and_starts_nothing() {
    let folder = Folder::new(
        "[partition.p]\nslots = 0\nqueu = 3\n[partition.p.sql]\nurl = \"sqlite:x.db\"\ncreate = 1\n",
    );
    let (code, stdout, stderr) = check(&folder, &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    let expected = [
        "watertight.toml:2:1: partition.p.slots = 0: must be 1 to 4096; ",
        "watertight.toml:3:1: partition.p.queu: is no known key; did you mean `queue`?",
        "watertight.toml:6:1: partition.p.sql.create = 1: must be true or false; ",
        "watertight: 3 faults in the configuration; nothing was started",
    ];
    assert_eq!(stderr.lines().count(), expected.len(), "{stderr}");
    for (line, expected) in stderr.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    let (code, stdout, _) = check(&folder, &["--json"]);
    assert_eq!(code, Some(2));
    let data: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(data["ok"], false);
    assert_eq!(data["faults"].as_array().unwrap().len(), 3);
    assert_eq!(data["faults"][0]["line"], 2);
    assert_eq!(data["faults"][0]["value"], "0");
    assert!(!folder.path().join("x.db").exists());
}

#[test]
fn its_file_is_given_or_the_folders_own() {
    let folder = Folder::new("[partition.p]\n");
    folder.file("other.toml", "[partition.q]\n");
    assert!(check(&folder, &[]).1.contains("\n p "));
    assert!(check(&folder, &["--config", "other.toml"]).1.contains("\n q "));
    let (code, _, stderr) = check(&folder, &["-c", "gone.toml"]);
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("gone.toml: cannot be opened: "), "{stderr}");
}
