//! `--retry-busy`: a call that was turned away is offered again when its hint says.

use std::time::Duration;

use serde_json::json;
use watertight::testing::{Behaviour, Reply, Vendor};

use crate::cli_support::Folder;

fn search(vendor: &Vendor) -> Folder {
    Folder::new(&format!(
        "[partition.search]\nslots = 1\nqueue = 0\n[partition.search.http]\nbase_url = \"{}\"\n\
         [tool.search]\npartition = \"search\"\npath = \"/\"\n",
        vendor.url()
    ))
}

const TURN: &str = "{\"id\":\"a\",\"tool\":\"search\",\"turn\":1}\n\
                    {\"id\":\"b\",\"tool\":\"search\",\"turn\":1}\n\
                    {\"id\":\"c\",\"tool\":\"search\",\"turn\":2}\n";

#[test]
fn a_busy_call_is_offered_again_and_written_once() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Delay(Duration::from_millis(30), Reply::json("1")));
    let folder = search(&vendor);
    let without = folder.run(&[], TURN);
    assert_eq!((without.count("ok"), without.count("busy")), (2, 1), "{}", without.stdout);

    let ended = folder.run(&["--retry-busy", "1000", "--summary", "always"], TURN);
    assert_eq!((ended.count("ok"), ended.outcomes.len()), (3, 3), "{}", ended.stdout);
    let ids: Vec<_> =
        ended.outcomes.iter().map(|outcome| outcome["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c"], "the turn lasts until its last retry");
    assert!(ended.outcome("b")["attempts"].as_u64().unwrap() >= 2);
    assert!(ended.outcome("a").get("attempts").is_none());
    assert!(ended.stderr.contains("times a call was offered again"), "{}", ended.stderr);
}

#[test]
fn retries_end_with_their_number() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = search(&vendor);
    let mut run = folder.start(&["--retry-busy", "3"]);
    TURN.lines().take(2).for_each(|line| run.send(line));
    let busy = run.next().unwrap();
    assert_eq!((&busy["id"], &busy["status"]), (&json!("b"), &json!("busy")));
    assert_eq!(busy["attempts"], 4);
    vendor.release();
    assert_eq!(run.end().count("ok"), 1);
}

#[test]
fn a_retry_that_its_deadline_leaves_no_time_for_is_not_waited_for() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(429).header("Retry-After", "600")));
    let folder = search(&vendor);
    let line = "{\"id\":\"a\",\"tool\":\"search\",\"deadline_ms\":30000}";
    let ended = folder.run(&["--retry-busy", "5"], line);
    let outcome = ended.outcome("a");
    assert_eq!((&outcome["status"], &outcome["reason"]), (&json!("throttled"), &json!("backend")));
    assert_eq!(outcome["retry_after_ms"], 60_000, "what throttle_max leaves of ten minutes");
    assert!(outcome.get("attempts").is_none());
}

#[test]
fn a_throttled_call_is_offered_again_and_a_failed_one_is_not() {
    let vendor = Vendor::start().unwrap();
    let throttled = Reply::status(429).header("Retry-After", "0");
    vendor.set(Behaviour::Answer(throttled));
    let folder = search(&vendor);
    let ended = folder.run(&["--retry-busy", "2"], "{\"id\":\"a\",\"tool\":\"search\"}");
    assert_eq!(ended.outcome("a")["attempts"], 3);
    assert_eq!(vendor.counts().requests, 3);

    vendor.set(Behaviour::Answer(Reply::status(500)));
    let ended = folder.run(&["--retry-busy", "2"], "{\"id\":\"a\",\"tool\":\"search\"}");
    assert_eq!(ended.outcome("a")["status"], "failed");
    assert_eq!(vendor.counts().requests, 4);
}

#[test]
fn the_attempts_of_a_tool_that_retries_by_itself_are_counted_with_the_others() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::status(429).header("Retry-After", "0")));
    let folder = Folder::new(&format!(
        "[partition.search]\nslots = 1\n[partition.search.http]\nbase_url = \"{}\"\n\
         [tool.search]\npartition = \"search\"\npath = \"/\"\n\
         retry = {{ attempts = 2, backoff = \"0s\" }}\n",
        vendor.url()
    ));
    for (retries, attempts) in [("0", 2), ("2", 6)] {
        let before = vendor.counts().requests;
        let ended = folder.run(&["--retry-busy", retries], "{\"id\":\"a\",\"tool\":\"search\"}");
        let outcome = ended.outcome("a");
        assert_eq!(
            (&outcome["status"], &outcome["attempts"]),
            (&json!("throttled"), &json!(attempts))
        );
        assert_eq!(outcome["earlier_attempts"].as_array().unwrap().len(), 1);
        let gives_up = outcome["detail"].as_str().unwrap().contains("go on without it");
        assert_eq!(gives_up, attempts >= 5, "{outcome}");
        assert_eq!(vendor.counts().requests - before, attempts);
    }
}
