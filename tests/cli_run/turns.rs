//! Turns follow each other, a tenant's own; `at_ms` is offered at its time, come what may.

use std::time::{Duration, Instant};

use serde_json::json;
use watertight::testing::{Behaviour, Reply, Vendor};

use crate::cli_support::{AMPLE, Folder};

fn search(vendor: &Vendor, knobs: &str) -> Folder {
    Folder::new(&format!(
        "[partition.search]\n{knobs}\n[partition.search.http]\nbase_url = \"{}\"\n\
         [tool.search]\npartition = \"search\"\npath = \"/{{path}}\"\n",
        vendor.url()
    ))
}

fn call(id: &str, more: &str) -> String {
    format!("{{\"id\":\"{id}\",\"tool\":\"search\",\"args\":{{\"path\":\"{id}\"}}{more}}}")
}

#[test]
fn a_tenants_next_turn_starts_when_the_last_call_of_the_one_before_has_ended() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::json("1")));
    vendor.set_path("/slow", Behaviour::Hang);
    let folder = search(&vendor, "slots = 8");
    let mut run = folder.start(&[]);
    let turn = |tenant: &str, turn: u32| format!(",\"tenant\":\"{tenant}\",\"turn\":{turn}");
    run.send(&call("slow", &turn("s", 1)));
    run.send(&call("quick", &turn("s", 1)));
    run.send(&call("next", &turn("s", 2)));
    run.send(&call("next-too", &turn("s", 2)));
    run.send(&call("last", &turn("s", 3)));
    run.send(&call("late-to-the-first", &turn("s", 1)));
    run.send(&call("other", &turn("t", 9)));
    let early: Vec<_> = (0..3).map(|_| run.next().unwrap()["id"].clone()).collect();
    let mut early: Vec<_> = early.iter().map(|id| id.as_str().unwrap()).collect();
    early.sort_unstable();
    assert_eq!(early, ["late-to-the-first", "other", "quick"]);
    assert_eq!(vendor.counts().requests, 4, "and nothing of a later turn");
    vendor.release();
    assert_eq!(run.next().unwrap()["id"], "slow");
    let ended = run.end();
    let ids: Vec<_> =
        ended.outcomes.iter().map(|outcome| outcome["id"].as_str().unwrap()).collect();
    assert!(ids == ["next", "next-too", "last"] || ids == ["next-too", "next", "last"], "{ids:?}");
}

#[test]
fn a_turn_fans_out_at_once_and_what_finds_no_room_is_busy() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = search(&vendor, "slots = 2\nqueue = 0");
    let mut run = folder.start(&[]);
    for id in ["a", "b", "c"] {
        run.send(&call(id, ",\"turn\":1"));
    }
    let busy = run.next().unwrap();
    assert_eq!((&busy["id"], &busy["status"]), (&json!("c"), &json!("busy")));
    assert_eq!(busy["executed"], "no");
    assert!(busy["retry_after_ms"].as_u64().unwrap() >= 1);
    assert!(vendor.wait_in_flight(2, AMPLE));
    vendor.release();
    assert_eq!(run.end().count("ok"), 2);
}

#[test]
fn a_call_with_a_time_is_offered_then_and_not_before() {
    let vendor = Vendor::start().unwrap();
    let folder = search(&vendor, "slots = 2");
    let start = Instant::now();
    let mut run = folder.start(&[]);
    run.send(&call("later", ",\"at_ms\":600"));
    run.send(&call("sooner", ",\"at_ms\":300"));
    run.end_input();
    assert_eq!(run.next().unwrap()["id"], "sooner");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(run.next().unwrap()["id"], "later");
    assert!(start.elapsed() >= Duration::from_millis(600));
    assert_eq!(run.end().code, Some(0));
}

#[test]
fn a_call_with_a_time_does_not_wait_for_room() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = search(&vendor, "slots = 1\nqueue = 0");
    let mut run = folder.start(&[]);
    run.send(&call("holds", ""));
    assert!(vendor.wait_in_flight(1, AMPLE));
    run.send(&call("timed", ",\"at_ms\":0"));
    run.send(&call("fed", ""));
    let timed = run.next().unwrap();
    assert_eq!((&timed["id"], &timed["status"]), (&json!("timed"), &json!("busy")));
    vendor.set(Behaviour::Answer(Reply::json("1")));
    vendor.release();
    assert_eq!(run.next().unwrap()["id"], "holds");
    let fed = run.end();
    assert_eq!(fed.outcome("fed")["status"], "ok", "it waited for room");
}

#[test]
fn turn_and_time_together_mean_not_before_either() {
    let vendor = Vendor::start().unwrap();
    vendor.set_path("/first", Behaviour::Hang);
    let folder = search(&vendor, "slots = 4");
    let start = Instant::now();
    let mut run = folder.start(&[]);
    run.send(&call("first", ",\"turn\":1"));
    run.send(&call("both", ",\"turn\":2,\"at_ms\":200"));
    run.send(&call("last", ",\"turn\":3"));
    assert!(vendor.wait_in_flight(1, AMPLE));
    assert!(!vendor.wait(Duration::from_millis(300), |counts| counts.requests > 1));
    vendor.release();
    let order: Vec<_> = (0..3).map(|_| run.next().unwrap()["id"].clone()).collect();
    assert_eq!(order, ["first", "both", "last"]);
    assert!(start.elapsed() >= Duration::from_millis(200));

    let mut run = folder.start(&[]);
    let start = Instant::now();
    run.send(&call("x", ",\"turn\":1"));
    run.send(&call("y", ",\"turn\":2,\"at_ms\":300"));
    run.send(&call("z", ",\"turn\":3"));
    let order: Vec<_> = (0..3).map(|_| run.next().unwrap()["id"].clone()).collect();
    assert_eq!(order, ["x", "y", "z"], "a turn lasts until its timed call has ended");
    assert!(start.elapsed() >= Duration::from_millis(300));
}
