//! Calls without turn and time are fed as their partition has room: a list of any length is worked
//! off, and no partition waits for another.

use std::time::Duration;

use watertight::testing::{Behaviour, Reply, Vendor};

use crate::cli_support::{AMPLE, Folder};

fn search(vendor: &Vendor, knobs: &str) -> String {
    format!(
        "[partition.search]\n{knobs}\n[partition.search.http]\nbase_url = \"{}\"\n\
         [tool.search]\npartition = \"search\"\npath = \"/{{path}}\"\n\
         args = {{ path = {{ default = \"x\" }} }}\n\
         [partition.memory.sql]\nurl = \"sqlite::memory:\"\n\
         [tool.one]\npartition = \"memory\"\nsql = \"select 1 as one\"\n",
        vendor.url()
    )
}

fn repeat(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|at| line(at) + "\n").collect()
}

#[test]
fn a_list_longer_than_slots_and_queue_is_worked_off_with_all_slots() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Delay(Duration::from_millis(2), Reply::json("1")));
    let folder = Folder::new(&search(&vendor, "slots = 3\nqueue = 0\nmax_wait = \"0s\""));
    let ended = folder
        .run(&["--strict"], &repeat(200, |at| format!("{{\"id\":{at},\"tool\":\"search\"}}")));
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert_eq!(ended.count("ok"), 200);
    let mut ids: Vec<_> = ended.outcomes.iter().map(|o| o["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..200), "each call has one outcome");
    assert_eq!(vendor.counts().in_flight_max, 3);
}

#[test]
fn a_partition_that_hangs_holds_no_other_up() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = Folder::new(&search(&vendor, "slots = 2\nqueue = 0"));
    let mut run = folder.start(&["--strict"]);
    let lines = repeat(100, |_| "{\"tool\":\"search\"}".to_owned())
        + &repeat(100, |_| "{\"tool\":\"one\"}".to_owned());
    lines.lines().for_each(|line| run.send(line));
    for _ in 0..100 {
        assert_eq!(run.next().unwrap()["tool"], "one");
    }
    assert!(vendor.wait_in_flight(2, AMPLE));
    assert_eq!(vendor.counts().requests, 2);
    vendor.set(Behaviour::Answer(Reply::json("1")));
    vendor.release();
    let ended = run.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert_eq!(ended.count("ok"), 100);
}

#[test]
fn a_tenant_at_its_cap_holds_no_other_tenant_up() {
    let vendor = Vendor::start().unwrap();
    vendor.set_path("/hang", Behaviour::Hang);
    vendor.set_path("/x", Behaviour::Answer(Reply::json("1")));
    let folder = Folder::new(&search(&vendor, "slots = 3\nqueue = 0\ntenant_max = 2"));
    let mut run = folder.start(&["--strict"]);
    for _ in 0..10 {
        run.send("{\"tool\":\"search\",\"tenant\":\"greedy\",\"args\":{\"path\":\"hang\"}}");
    }
    for at in 0..10 {
        run.send(&format!("{{\"id\":{at},\"tool\":\"search\",\"tenant\":\"modest\"}}"));
    }
    for at in 0..10 {
        assert_eq!(run.next().unwrap()["id"], at, "through the slot that is left");
    }
    assert!(vendor.wait_in_flight(2, AMPLE));
    vendor.set_path("/hang", Behaviour::Answer(Reply::json("1")));
    vendor.release();
    let ended = run.end();
    assert_eq!((ended.code, ended.count("ok")), (Some(0), 10), "{}", ended.stdout);
}

#[test]
fn tenants_take_turns() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Hang);
    let folder = Folder::new(&search(&vendor, "slots = 1\nqueue = 0"));
    let mut run = folder.start(&[]);
    run.send("{\"id\":\"first\",\"tool\":\"search\"}");
    assert!(vendor.wait_in_flight(1, AMPLE));
    for tenant in ["a", "a", "a", "b", "b", "c"] {
        run.send(&format!("{{\"id\":\"{tenant}\",\"tool\":\"search\",\"tenant\":\"{tenant}\"}}"));
    }
    // All have been read when a call that needs no room is answered.
    run.send("{\"id\":\"read\",\"tool\":\"gone\"}");
    assert_eq!(run.next().unwrap()["id"], "read");
    vendor.set(Behaviour::Answer(Reply::json("1")));
    vendor.release();
    let ended = run.end();
    let order: Vec<_> = ended.outcomes.iter().map(|o| o["id"].as_str().unwrap()).collect();
    assert_eq!(order, ["first", "a", "b", "c", "a", "b", "a"]);
}

#[test]
fn strict_homes_are_fed_within_their_slots() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Delay(Duration::from_millis(2), Reply::json("1")));
    let knobs = "slots = 3\nqueue = 0\nmax_wait = \"0s\"\ndispatch = \"strict\"\ntenant_slots = { gold = 2 }";
    let folder = Folder::new(&search(&vendor, knobs));
    let calls = repeat(60, |at| {
        let tenant = ["gold", "x", "y"][at % 3];
        format!("{{\"tool\":\"search\",\"tenant\":\"{tenant}\"}}")
    });
    let ended = folder.run(&["--strict"], &calls);
    assert_eq!((ended.code, ended.count("ok")), (Some(0), 60), "{}", ended.stdout);
}

#[test]
fn a_tenant_without_a_slot_is_told_so_in_the_end() {
    let folder = Folder::new(
        "[partition.memory]\nslots = 1\nqueue = 0\ndispatch = \"strict\"\n\
         tenant_slots = { gold = 1, \"*\" = 0 }\n[partition.memory.sql]\nurl = \"sqlite::memory:\"\n\
         [tool.one]\npartition = \"memory\"\nsql = \"select 1 as one\"\n",
    );
    let calls = "{\"id\":\"gold\",\"tool\":\"one\",\"tenant\":\"gold\"}\n{\"id\":\"x\",\"tool\":\"one\",\"tenant\":\"x\"}\n";
    let ended = folder.run(&[], calls);
    assert_eq!(ended.outcome("gold")["status"], "ok");
    assert_eq!(ended.outcome("x")["status"], "busy");
}
