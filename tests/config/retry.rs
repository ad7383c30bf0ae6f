//! What is attempted again: a tool's retries, its partition's budget.

use std::time::Duration;

use watertight::PartitionSpec;
use watertight::resilience::budget;

use super::{error, errors, read};

const TOOL: &str = "[partition.search.http]\nbase_url = \"http://127.0.0.1:1\"\n\
                    [tool.find]\npartition = \"search\"\nmethod = \"GET\"\npath = \"/\"\n";

fn with(knobs: &str) -> String {
    format!("{TOOL}{knobs}\n")
}

#[test]
fn the_budget_is_read() {
    let text = "[partition.p.retry_budget]\nratio = 0.5\nfloor = 0\nwindow = \"1m\"\n";
    let runtime = read(text).unwrap().build().unwrap();
    let budget = budget::Policy { ratio: 0.5, floor: 0, window: Duration::from_secs(60) };
    let expected = PartitionSpec::new("p").retry_budget(budget);
    let seen = runtime.partition("p").unwrap().spec().clone();
    assert_eq!(format!("{seen:?}"), format!("{expected:?}"));
}

#[test]
fn every_way_to_write_retries_is_read() {
    for knobs in [
        "retry = {}",
        "idempotent = true\nretry = { attempts = 1 }",
        "[tool.find.retry]\nattempts = 5\nbackoff = \"0s\"\nbackoff_max = \"1s\"\non = []",
        "retry = { backoff_max = \"1ms\", on = [\"busy\", \"failed\"] }",
    ] {
        read(&with(knobs)).unwrap().build().unwrap();
    }
}

#[test]
fn nonsense_is_refused_with_place_key_value_rule_and_fix() {
    for (knobs, said) in [
        ("idempotent = true", "7:1: tool.find.idempotent = true: means nothing without a retry"),
        ("idempotent = 1\nretry = {}", "tool.find.idempotent = 1: must be true or false"),
        ("retry = 3", "7:1: tool.find.retry = 3: must be a table"),
        ("retry.attempts = 0", "tool.find.retry.attempts = 0: must be 1 to 100"),
        ("retry.backoff = \"11s\"", "retry.backoff = \"11s\": must be at most backoff_max"),
        ("retry.backoff_max = \"2h\"", "retry.backoff_max = \"2h\": must be 0s to 1h"),
        ("retry.on = \"busy\"", "tool.find.retry.on = \"busy\": must be a list"),
        ("retry.on = [\"bsy\"]", "tool.find.retry.on[0] = \"bsy\": must be one of failed, busy"),
        ("retry.on = [\"decode\"]", "tool.find.retry.on[0] = \"decode\": must be one of"),
        ("retry.attempt = 2", "retry.attempt: is no known key; did you mean `attempts`?"),
    ] {
        let refused = error(&with(knobs));
        assert!(refused.contains(said), "{refused}");
    }
    for (knobs, said) in [
        ("ratio = 11", "partition.p.retry_budget.ratio = 11: must be a share from 0 to 10"),
        ("floor = -1", "retry_budget.floor = -1: must be a whole number"),
        ("window = \"0s\"", "retry_budget.window = \"0s\": must be 1s to 1h"),
    ] {
        let refused = error(&format!("[partition.p.retry_budget]\n{knobs}\n"));
        assert!(refused.contains(said), "{refused}");
    }
    assert_eq!(errors(&with("retry = { attempts = 0, on = [\"x\", \"y\"] }")).len(), 3);
}
