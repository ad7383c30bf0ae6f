//! Every knob of a partition: absent, 0, its maximum, and what is refused.

use std::time::Duration;

use watertight::PartitionSpec;
use watertight::admission::{Dispatch, Policy};

use super::{error, errors, read};

/// The partition that `knobs` make.
fn spec(knobs: &str) -> PartitionSpec {
    let text = format!("[partition.p]\n{knobs}\n");
    let config = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let runtime = config.build().unwrap();
    runtime.partition("p").unwrap().spec().clone()
}

fn policy(knobs: &str) -> Policy {
    spec(knobs).policy().clone()
}

#[test]
fn what_is_left_out_has_the_librarys_defaults() {
    let (read, default) = (spec(""), PartitionSpec::new("p"));
    assert_eq!(format!("{read:?}"), format!("{default:?}"));
    assert_eq!(read.policy().slots, 4);
    assert_eq!(read.policy().queue, 8);
    assert_eq!(read.wait_limit(), Duration::from_millis(50));
    assert_eq!(read.policy().run_limit, Duration::from_secs(30));
    assert_eq!(read.policy().cancel_grace, Duration::from_millis(100));
    assert_eq!(policy("slots = 7").queue, 14, "queue follows slots");
}

#[test]
fn each_knob_takes_its_least_and_its_most() {
    assert_eq!(policy("slots = 1").slots, 1);
    assert_eq!(policy("queue = 0").queue, 0);
    assert_eq!(policy("queue = 1_000_000").queue, 1_000_000);
    assert_eq!(spec("max_wait = \"0s\"").wait_limit(), Duration::ZERO);
    assert_eq!(spec("max_wait = \"1h\"").wait_limit(), PartitionSpec::MAX_WAIT_MAX);
    assert_eq!(policy("run_limit = \"1ns\"").run_limit, Duration::from_nanos(1));
    assert_eq!(policy("run_limit = \"1day\"").run_limit, PartitionSpec::RUN_LIMIT_MAX);
    assert_eq!(policy("cancel_grace = \"0ms\"").cancel_grace, Duration::ZERO);
    assert_eq!(policy("cancel_grace = \"1h\"").cancel_grace, PartitionSpec::CANCEL_GRACE_MAX);
    assert_eq!(policy("replace_overdue = 0").replace_overdue, 0);
    assert_eq!(policy("replace_overdue = 3").replace_overdue, 3);
    assert_eq!(policy("tenant_max = 1").tenant_max, Some(1));
    assert_eq!(policy("tenant_max = 4294967295").tenant_max, Some(u32::MAX));
    assert_eq!(policy("tenant_queue = 0").tenant_queue, Some(0));
    assert_eq!(policy("tenant_queue = 4294967295").tenant_queue, Some(u32::MAX));
}

#[test]
fn the_most_slots_and_spares_are_read_without_starting_them() {
    for knob in ["slots", "replace_overdue"] {
        read(&format!("[partition.p]\n{knob} = 4096\n")).unwrap();
        let refused = error(&format!("[partition.p]\n{knob} = 4097\n"));
        assert!(refused.contains(&format!("2:1: partition.p.{knob} = 4097: must be")), "{refused}");
    }
}

#[test]
fn nonsense_is_refused_with_place_key_value_rule_and_fix() {
    for (knob, said) in [
        ("slots = 0", "slots = 0: must be 1 to 4096; size it by"),
        ("slots = -3", "slots = -3: must be a whole number, 0 or more; write it"),
        ("slots = 2.5", "slots = 2.5: must be a whole number"),
        ("slots = \"4\"", "slots = \"4\": must be a whole number"),
        ("slots = 99999999999999999999", "slots = 99999999999999999999: must be a whole number"),
        ("queue = 1000001", "queue = 1000001: must be 0 to 1000000; keep it near"),
        ("queue = -1", "queue = -1: must be a whole number, 0 or more"),
        ("max_wait = \"61m\"", "max_wait = \"61m\": must be 0 to 1h; keep it to tens"),
        ("max_wait = 50", "max_wait = 50: must be a span of time with its unit, in quotes; write"),
        ("max_wait = \"-50ms\"", "max_wait = \"-50ms\": must be a span of time"),
        ("max_wait = \"50\"", "max_wait = \"50\": must be a span of time"),
        ("run_limit = \"0s\"", "run_limit = \"0s\": must be more than 0 and at most 24h; take"),
        ("run_limit = \"25h\"", "run_limit = \"25h\": must be more than 0 and at most 24h"),
        ("run_limit = \"9999999999999y\"", "run_limit = \"9999999999999y\": must be a span"),
        ("cancel_grace = \"2h\"", "cancel_grace = \"2h\": must be 0 to 1h; keep it near 100ms"),
        ("replace_overdue = -1", "replace_overdue = -1: must be a whole number"),
        ("tenant_max = 0", "tenant_max = 0: must be at least 1; leave it out"),
        ("tenant_queue = true", "tenant_queue = true: must be a whole number"),
        ("dispatch = \"lifo\"", "dispatch = \"lifo\": must be \"fifo\", \"round_robin\""),
        ("dispatch = \"round-robin\"", "did you mean `round_robin`?"),
        ("dispatch = 1", "dispatch = 1: must be a string; put it in quotes"),
    ] {
        let refused = error(&format!("# a comment\n[partition.p]\n{knob}\n"));
        assert!(refused.starts_with("3:1: partition.p."), "{refused}");
        assert!(refused.contains(said), "{knob}: {refused}");
    }
}

#[test]
fn each_dispatch_rule_has_its_name() {
    for (name, dispatch) in [
        ("fifo", Dispatch::Fifo),
        ("round_robin", Dispatch::RoundRobin),
        ("strict", Dispatch::Strict),
        ("borrow", Dispatch::Borrow),
    ] {
        assert_eq!(policy(&format!("dispatch = {name:?}")).dispatch, dispatch);
    }
}

#[test]
fn home_slots_name_tenants_and_leave_the_rest_to_everybody_else() {
    let strict = "slots = 6\ndispatch = \"strict\"\n";
    for rest in ["", ", \"*\" = 2"] {
        let homes = policy(&format!("{strict}tenant_slots = {{ gold = 4{rest} }}")).homes;
        let homes: Vec<_> = homes.iter().map(|(tenant, slots)| (tenant.as_str(), *slots)).collect();
        assert_eq!(homes, [("gold", 4)]);
    }
    let all = policy(&format!("{strict}tenant_slots = {{ gold = 4, silver = 2, \"*\" = 0 }}"));
    assert_eq!(all.homes.len(), 2);
    assert_eq!(policy(&format!("{strict}tenant_slots = {{ gold = 0 }}")).homes[0].1, 0);
}

#[test]
fn home_slots_that_do_not_add_up_are_refused() {
    let strict = "slots = 6\ndispatch = \"strict\"";
    for (knobs, said) in [
        (
            format!("{strict}\ntenant_slots = {{ gold = 6 }}"),
            "partition.p.tenant_slots: leaves no slot to tenants that are not listed; say so with \
             `\"*\" = 0`",
        ),
        (
            format!("{strict}\ntenant_slots = {{ gold = 4, \"*\" = 0 }}"),
            "partition.p.tenant_slots.\"*\" = 0: must be what the others leave of slots, which is 2",
        ),
        (
            format!("{strict}\ntenant_slots = {{ gold = 4, silver = 3 }}"),
            "partition.p.tenant_slots: must not add up to more than slots",
        ),
        (
            format!("{strict}\ntenant_slots = {{ gold = -1 }}"),
            "partition.p.tenant_slots.gold = -1: must be a whole number",
        ),
        (
            "tenant_slots = { gold = 1 }".to_owned(),
            "partition.p.tenant_slots: means nothing here: no slot is anybody's home; set dispatch",
        ),
        (format!("{strict}\ntenant_slots = 4"), "partition.p.tenant_slots = 4: must be a table"),
    ] {
        let refused = error(&format!("[partition.p]\n{knobs}\n"));
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_partition_name_is_checked_and_so_are_its_knobs() {
    let refused = errors("[partition.\"a b\"]\nslots = 0\n");
    assert_eq!(refused.len(), 2, "{refused:#?}");
    assert!(refused[0].starts_with("1:12: partition.\"a b\": must be 1 to 64 letters"));
    assert!(refused[1].starts_with("2:1: partition.\"a b\".slots = 0: must be"));
}
