//! The summary on standard error, and what help and completions say.

use std::time::Duration;

use watertight::testing::{Behaviour, Reply, Vendor};

use crate::cli_support::Folder;

#[test]
fn the_summary_counts_per_partition_and_tool() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Delay(Duration::from_millis(20), Reply::json("1")));
    let folder = Folder::new(&format!(
        "[partition.search]\nslots = 2\nqueue = 0\n[partition.search.http]\nbase_url = \"{}\"\n\
         [tool.search]\npartition = \"search\"\npath = \"/\"\n\
         [partition.memory]\nslots = 1\n[partition.memory.sql]\nurl = \"sqlite::memory:\"\n\
         [tool.one]\npartition = \"memory\"\nsql = \"select 1 as one\"\n",
        vendor.url()
    ));
    let calls = "{\"tool\":\"search\",\"turn\":1}\n{\"tool\":\"search\",\"turn\":1}\n\
                 {\"tool\":\"search\",\"turn\":1}\n{\"tool\":\"one\"}\n{\"tool\":\"one\",\"args\":{\"x\":1}}\n\
                 {\"tool\":\"search\",\"turn\":2,\"deadline_ms\":0}\n{\"tool\":\"gone\"}\n{\"tool\":\"lost\"}\nno\n";
    let ended = folder.run(&["--summary", "always"], calls);
    let rows: Vec<Vec<&str>> = ended
        .stderr
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let row = |partition: &str, tool: &str| {
        let found = rows.iter().find(|row| row.len() > 2 && row[0] == partition && row[1] == tool);
        found.unwrap_or_else(|| panic!("no row {partition} {tool}:\n{}", ended.stderr)).clone()
    };
    assert_eq!(
        rows[0],
        [
            "partition",
            "tool",
            "ok",
            "busy",
            "timeout",
            "other",
            "p50",
            "p99",
            "max wait",
            "max in flight",
        ]
    );
    let search = row("search", "search");
    assert_eq!(search[2..6], ["2", "1", "1", "0"]);
    assert!(search[6].ends_with("ms") && search[9] == "2 of 2", "{search:?}");
    let p50: f64 = search[6].trim_end_matches(" ms").parse().unwrap();
    assert!(p50 >= 20.0, "{search:?}");
    assert_eq!(row("memory", "one")[2..6], ["1", "0", "0", "1"]);
    assert_eq!(row("-", "(no such tool)")[2..8], ["0", "0", "0", "2", "-", "-"]);
    assert_eq!(row("-", "(no call)")[2..6], ["0", "0", "0", "1"]);
    assert!(ended.stderr.contains("9 calls in "), "{}", ended.stderr);
    assert!(ended.stderr.contains("3 ok, 1 busy, 1 timeout, 4 other"), "{}", ended.stderr);

    let silent = folder.run(&["--summary", "never"], calls);
    assert_eq!(silent.stderr, "");
}

#[test]
fn help_has_examples_and_completions_exist_for_every_shell() {
    let folder = Folder::new("");
    let output = |args: &[&str]| {
        let mut command = assert_cmd::Command::from_std(folder.command(args));
        let output = command.assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    for args in
        [&["--help"][..], &["run", "--help"], &["check", "--help"], &["completions", "--help"]]
    {
        assert!(output(args).contains("Examples:\n  watertight "), "{args:?}");
    }
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(&["completions", shell]);
        assert!(script.contains("watertight") && script.contains("retry-busy"), "{shell}");
    }
    assert!(output(&["--version"]).starts_with("watertight "));
}
