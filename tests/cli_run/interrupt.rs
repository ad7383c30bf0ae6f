//! Ctrl-C: everything is resolved, children end, the exit code is 130.

use rustix::process::Signal;
use serde_json::{Value, json};
use watertight::testing::{Behaviour, Vendor};

use crate::cli_support::{AMPLE, Ended, Folder, Live, alive, eventually};

const SLEEPER: &str = r#"
[partition.local]
slots = 1
[partition.local.process]
[tool.sleep]
partition = "local"
command = ["sh", "-c", "sleep 600 & echo $! $$ > pids; exec sleep 600"]
"#;

/// A run with one call that sleeps, one that waits in the queue, and some that are not offered.
fn asleep(folder: &Folder) -> (Live, Vec<i32>) {
    let mut run = folder.start(&["--summary", "always"]);
    run.send("{\"id\":\"running\",\"tool\":\"sleep\"}");
    let pids = folder.path().join("pids");
    let read = || std::fs::read_to_string(&pids).unwrap_or_default();
    eventually("the child runs", || read().ends_with('\n'));
    let pids: Vec<i32> = read().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    for id in ["fed", "later"] {
        run.send(&format!("{{\"id\":\"{id}\",\"tool\":\"sleep\"}}"));
    }
    run.send("{\"id\":\"next turn\",\"tool\":\"sleep\",\"at_ms\":3600000}");
    run.send("{\"id\":\"read\",\"tool\":\"gone\"}");
    assert_eq!(run.next().unwrap()["id"], "read");
    (run, pids)
}

fn assert_resolved(ended: &Ended) {
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let told = |id: &str| {
        let outcome = ended.outcome(id);
        (outcome["status"].clone(), outcome["reason"].clone(), outcome["executed"].clone())
    };
    let cancelled = |executed: &str| (json!("cancelled"), json!("shutdown"), json!(executed));
    assert_eq!(told("running"), cancelled("unknown"));
    for id in ["fed", "later", "next turn"] {
        assert_eq!(told(id), cancelled("no"));
    }
    assert_eq!(ended.outcomes.len(), 4);
    assert!(ended.stderr.contains("5 calls in "), "the summary: {}", ended.stderr);
}

#[test]
fn one_signal_resolves_everything_and_ends_the_children() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = Folder::new(SLEEPER);
        let (run, pids) = asleep(&folder);
        assert!(pids.len() == 2 && pids.iter().all(|pid| alive(*pid)));
        run.signal(signal);
        assert_resolved(&run.end());
        for pid in pids {
            eventually("the child and its child are gone", || !alive(pid));
        }
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = Folder::new(&format!(
        "[partition.search.http]\nbase_url = \"{}\"\n[tool.search]\npartition = \"search\"\npath = \"/\"\n",
        vendor.url()
    ));
    let mut run = folder.start(&["--summary", "always"]);
    run.send("{\"tool\":\"search\"}");
    assert!(vendor.wait_in_flight(1, AMPLE));
    // The first one waits for calls to end by themselves for longer than the second one takes.
    run.signal(Signal::INT);
    eventually("the first is taken", || {
        run.signal(Signal::INT);
        run.is_over()
    });
    let ended = run.end();
    assert_eq!(ended.code, Some(130));
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("", ""),
        "nothing more was written"
    );
}

#[test]
fn an_interrupted_turn_starts_no_other() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = Folder::new(&format!(
        "[partition.search.http]\nbase_url = \"{}\"\n[tool.search]\npartition = \"search\"\npath = \"/\"\n",
        vendor.url()
    ));
    let mut run = folder.start(&["--retry-busy", "9"]);
    for turn in 1..=3 {
        run.send(&format!("{{\"id\":{turn},\"tool\":\"search\",\"turn\":{turn}}}"));
    }
    run.send("{\"id\":\"read\",\"tool\":\"gone\"}");
    assert_eq!(run.next().unwrap()["id"], "read");
    assert!(vendor.wait_in_flight(1, AMPLE));
    run.signal(Signal::INT);
    let ended = run.end();
    assert_eq!((ended.code, ended.count("cancelled")), (Some(130), 3), "{}", ended.stdout);
    let executed: Vec<&Value> = ended.outcomes.iter().map(|outcome| &outcome["executed"]).collect();
    assert_eq!(executed, ["no", "no", "unknown"]);
    assert_eq!(vendor.counts().requests, 1);
}
