//! Plans: what is read, and what holds of every report.
#![cfg(feature = "json")]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use watertight::admission::SlotId;
use watertight::outcome::{BusyReason, TimeoutClock};
use watertight::simulate::plan::{End, Event, Happening, Plan, Report, run, run_observed};
use watertight::time::Time;

fn plan(json: &Value) -> Plan {
    Plan::from_json(&json.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

fn report(json: &Value) -> Report {
    let report = run(&plan(json)).unwrap();
    assert_accounted(&report);
    report
}

/// Every call has ended, and is counted once by its partition and once by its load.
fn assert_accounted(report: &Report) {
    let mut offered = [0, 0];
    for partition in &report.partitions {
        assert_eq!(partition.counts.offered, partition.counts.ended(), "{partition:?}");
        offered[0] += partition.counts.offered;
    }
    for load in &report.tools {
        assert_eq!(load.counts.offered, load.counts.ended(), "{load:?}");
        offered[1] += load.counts.offered;
    }
    assert_eq!(offered, [report.calls; 2]);
}

/// What happens to the calls of a plan, in order, with milliseconds.
fn story(json: &Value) -> Vec<(u64, u64, Happening)> {
    let mut told = Vec::new();
    let ms = |event: &Event| event.at.as_nanos() / 1_000_000;
    run_observed(&plan(json), |event| told.push((ms(event), event.call, event.what))).unwrap();
    told
}

fn starts(slot: u32) -> Happening {
    Happening::Starts { slot: SlotId(slot), borrowed: false }
}

#[test]
fn events_of_one_instant_come_in_the_partition_s_order() {
    // A slot that comes free at 10 goes to the waiter, not to the call that arrives at 10; the
    // wait of that call ends at 20, at which the slot is free again: a waiter that is due then is
    // never started.
    let told = story(&json!({
        "duration_ms": 100,
        "partitions": [{"name": "p", "slots": 1, "max_wait_ms": 10}],
        "loads": [{"partition": "p", "arrivals": {"at_ms": [0, 5, 10, 10.5]}, "service": {"fixed_ms": 10}}]
    }));
    let expired = Happening::Ends(End::Busy(BusyReason::SlotsFull));
    let ok = Happening::Ends(End::Ok);
    assert_eq!(
        told,
        [
            (0, 0, starts(0)),
            (5, 1, Happening::Waits),
            (10, 0, ok),
            (10, 1, starts(0)),
            (10, 2, Happening::Waits),
            (10, 3, Happening::Waits),
            (20, 1, ok),
            (20, 2, expired),
            (20, 3, starts(0)),
            (30, 3, ok),
        ]
    );
}

#[test]
fn a_body_ends_at_its_limit_and_one_that_resists_keeps_its_slot() {
    let base = json!({
        "duration_ms": 100,
        "partitions": [{"name": "p", "slots": 1, "queue": 0, "run_limit_ms": 20, "cancel_grace_ms": 5}],
        "loads": [{"partition": "p", "arrivals": {"at_ms": [0, 22, 50]}, "service": {"fixed_ms": 40}}]
    });
    let timeout = Happening::Ends(End::Timeout(TimeoutClock::Run));
    assert_eq!(
        story(&base),
        [
            (0, 0, starts(0)),
            (20, 0, timeout),
            (22, 1, starts(0)),
            (42, 1, timeout),
            (50, 2, starts(0)),
            (70, 2, timeout),
        ]
    );

    let mut resists = base.clone();
    resists["faults"] = json!([{"partition": "p", "from_ms": 0, "until_ms": 10, "resist": true}]);
    let full = Happening::Ends(End::Busy(BusyReason::SlotsFull));
    assert_eq!(
        story(&resists),
        [(0, 0, starts(0)), (22, 1, full), (25, 0, timeout), (50, 2, starts(0)), (70, 2, timeout),]
    );

    resists["partitions"][0]["replace_overdue"] = json!(1);
    resists["loads"][0]["arrivals"] = json!({"at_ms": [0, 30]});
    assert_eq!(
        story(&resists),
        [(0, 0, starts(0)), (25, 0, timeout), (30, 1, starts(1)), (50, 1, timeout),]
    );
    let report = report(&resists);
    assert_eq!(report.partitions[0].overdue_max, 1);
    assert_eq!(report.partitions[0].in_flight_max, 2);
}

#[test]
fn a_deadline_ends_waiting_and_running_calls() {
    let told = story(&json!({
        "duration_ms": 100,
        "partitions": [{"name": "p", "slots": 1, "max_wait_ms": 1000}],
        "loads": [{"partition": "p", "arrivals": {"every": {"ms": 200, "batch": 2}}, "deadline_ms": 15, "service": {"fixed_ms": 40}}]
    }));
    let late = Happening::Ends(End::Timeout(TimeoutClock::Deadline));
    assert_eq!(told, [(0, 0, starts(0)), (0, 1, Happening::Waits), (15, 0, late), (15, 1, late)]);
}

#[test]
fn faults_slow_fail_and_hang_what_starts_within_them() {
    let ended = |fault: Value| {
        let told = story(&json!({
            "duration_ms": 100,
            "partitions": [{"name": "p", "slots": 9}],
            "loads": [{"partition": "p", "arrivals": {"at_ms": [0, 50]}, "service": {"fixed_ms": 10}}],
            "faults": [fault]
        }));
        told.into_iter()
            .filter_map(|(ms, call, what)| match what {
                Happening::Ends(end) => Some((call, (ms, end))),
                _ => None,
            })
            .collect::<HashMap<_, _>>()
    };
    let window = |more: Value| {
        let mut fault = json!({"partition": "p", "from_ms": 0, "until_ms": 40});
        fault.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ended(fault)
    };
    assert_eq!(window(json!({"slower": 3}))[&0], (30, End::Ok));
    assert_eq!(window(json!({"hang": true}))[&0], (40, End::Ok));
    assert_eq!(window(json!({"service": {"fixed_ms": 7}}))[&0], (7, End::Ok));
    let failed = window(json!({"fail": 1}));
    assert_eq!((failed[&0], failed[&1]), ((10, End::Failed), (60, End::Ok)));
}

#[test]
fn a_trace_keeps_its_sessions_times_and_tools() {
    let rows = json!([
        {"session": "a", "t_ms": 0, "dur_ms": 35, "tool": "Read"},
        {"session": "a", "t_ms": 100, "dur_ms": 5, "tool": "Bash"},
        {"session": "b", "t_ms": 0, "dur_ms": 50, "tool": "Read"}
    ]);
    let trace = json!({
        "duration_ms": 1000,
        "partitions": [{"name": "files", "slots": 2, "tenant_max": 1}, {"name": "shell", "slots": 1}],
        "loads": [{"partition": "files", "arrivals": {"trace": {"rows": rows, "tools": {"Bash": "shell"}}}}]
    });
    let ok = Happening::Ends(End::Ok);
    assert_eq!(
        story(&trace),
        [
            (0, 0, starts(0)),
            (0, 1, starts(1)),
            (35, 0, ok),
            (50, 1, ok),
            (100, 2, starts(0)),
            (105, 2, ok),
        ]
    );
    let report = report(&trace);
    assert_eq!([report.partitions[0].counts.ok, report.partitions[1].counts.ok], [2, 1]);
}

#[test]
fn the_bulk_tenant_of_a_support_desk_stays_below_its_cap_and_nobody_else_is_busy() {
    let desk = json!({
        "duration_ms": 600_000,
        "partitions": [{"name": "kb", "slots": 40, "queue": 400, "max_wait_ms": 2000, "dispatch": "round_robin", "tenant_max": 12}],
        "loads": [
            {"tool": "bulk", "partition": "kb", "tenant": "bulk", "arrivals": {"every": {"ms": 5000, "batch": 200}}, "service": {"fixed_ms": 200}},
            {"tool": "others", "partition": "kb", "tenants": 50, "arrivals": {"poisson_per_s": 60}, "service": {"lognormal": {"p50_ms": 200, "p99_ms": 600}}}
        ]
    });
    let (mut held, mut most) = ([0, 0], [0, 0]);
    let mut running = HashSet::new();
    run_observed(&plan(&desk), |event| match event.what {
        Happening::Starts { .. } => {
            running.insert(event.call);
            held[event.load] += 1;
            most[event.load] = most[event.load].max(held[event.load]);
        }
        Happening::Ends(_) if running.remove(&event.call) => held[event.load] -= 1,
        _ => {}
    })
    .unwrap();
    assert_eq!(most[0], 12);
    let report = report(&desk);
    assert_eq!(report.tools[1].counts.busy(), 0, "{:?}", report.tools[1]);
    assert!(report.tools[0].counts.ok > 10_000, "{:?}", report.tools[0]);
}

#[test]
fn a_borrower_never_delays_a_guaranteed_start() {
    let with_borrower = |reserve_max: u32| {
        let json = json!({
            "duration_ms": 60_000, "reserve": 3, "seed": 5,
            "partitions": [
                {"name": "guaranteed", "slots": 2, "max_wait_ms": 500},
                {"name": "borrower", "slots": 2, "max_wait_ms": 500, "reserve_max": reserve_max}
            ],
            "loads": [
                {"partition": "guaranteed", "arrivals": {"poisson_per_s": 25}, "service": {"exponential_ms": 70}},
                {"partition": "borrower", "arrivals": {"poisson_per_s": 60}, "service": {"exponential_ms": 70}}
            ]
        });
        report(&json)
    };
    let (alone, beside) = (with_borrower(0), with_borrower(3));
    assert_eq!(alone.partitions[0], beside.partitions[0]);
    assert_eq!(alone.tools[0], beside.tools[0]);
    assert!(beside.tools[1].counts.ok > alone.tools[1].counts.ok);
    assert_eq!((beside.partitions[1].borrowed_max, beside.partitions[1].in_flight_max), (3, 5));
    assert_eq!((beside.reserve.used_max, alone.reserve.used_max), (3, 0));
}

#[test]
fn wrong_plans_are_refused_by_place_value_and_rule() {
    let right = json!({
        "duration_ms": 10,
        "partitions": [{"name": "p", "slots": 1}],
        "loads": [{"partition": "p", "arrivals": {"poisson_per_s": 1}, "service": {"fixed_ms": 1}}],
        "faults": [{"partition": "p", "from_ms": 0, "until_ms": 1}]
    });
    plan(&right);
    let wrong = [
        ("/duration_ms", json!(-1), "duration_ms"),
        ("/partitions", json!([]), "partitions"),
        ("/partitions/0/slots", json!(0), "partitions[0].slots"),
        ("/partitions/0/name", json!("q"), "loads[0].partition"),
        ("/loads/0/service", Value::Null, "loads[0].service"),
        ("/loads/0/service", json!({"fixed_ms": -1}), "loads[0].service"),
        ("/loads/0/arrivals", json!({"poisson_per_s": -1}), "loads[0].arrivals"),
        ("/loads/0/arrivals", json!({"every": {"ms": 0}}), "loads[0].arrivals"),
        ("/loads/0/arrivals", json!({"at_ms": [2, 1]}), "loads[0].arrivals"),
        (
            "/loads/0/arrivals",
            json!({"trace": {"rows": [], "tools": {"x": "y"}}}),
            "loads[0].arrivals.tools",
        ),
        ("/calls_max", json!(0), "calls_max"),
        ("/partitions/0/breaker", json!({"probes": 0}), "partitions[0].breaker.probes"),
        ("/partitions/0/retry_budget", json!({"ratio": 11}), "partitions[0].retry_budget.ratio"),
        ("/loads/0/retry", json!({"attempts": 0}), "loads[0].retry.attempts"),
        ("/loads/0/retry", json!({"on": ["never"]}), "loads[0].retry.on"),
        ("/faults/0/from_ms", json!(2), "faults[0].until_ms"),
        ("/faults/0/partition", json!("q"), "faults[0].partition"),
        ("/faults/0/until_ms", json!(1e11), "faults[0].until_ms"),
    ];
    for (pointer, value, field) in wrong {
        let mut broken = right.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent =
            if parent.is_empty() { &mut broken } else { broken.pointer_mut(parent).unwrap() };
        parent[key] = value;
        let error = Plan::from_json(&broken.to_string()).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
    let mut more = right.clone();
    more["partitions"][0]["slotz"] = json!(1);
    let error = Plan::from_json(&more.to_string()).unwrap_err();
    assert!(error.rule.contains("unknown field `slotz`"), "{error}");
    more = right.clone();
    more["partitions"][0]["dispatch"] = json!("lifo");
    let error = Plan::from_json(&more.to_string()).unwrap_err();
    assert!(error.rule.contains("one of fifo, round_robin, strict, borrow"), "{error}");
}

#[test]
fn a_plan_without_an_end_in_sight_is_cut_short() {
    let endless = json!({
        "duration_ms": 1e10, "calls_max": 1000,
        "partitions": [{"name": "p", "slots": 1}],
        "loads": [{"partition": "p", "arrivals": {"every": {"ms": 1}}, "service": {"fixed_ms": 1}}]
    });
    let report = report(&endless);
    assert_eq!(
        (report.calls, report.cut_short, report.partitions[0].counts.ok),
        (1000, true, 1000)
    );
}

/// A backend that is down from 100 to 300 ms, called every 10 ms.
fn outage() -> Value {
    json!({
        "duration_ms": 500,
        "partitions": [{"name": "p", "slots": 2}],
        "loads": [{"partition": "p", "arrivals": {"every": {"ms": 10}}, "service": {"fixed_ms": 5}}],
        "faults": [{"partition": "p", "from_ms": 100, "until_ms": 300, "fail": 1}]
    })
}

#[test]
fn a_breaker_keeps_calls_from_a_backend_that_is_down() {
    let bare = report(&outage());
    assert_eq!((bare.partitions[0].counts.ok, bare.partitions[0].counts.failed), (30, 20));

    let mut guarded = outage();
    guarded["partitions"][0]["breaker"] = json!({
        "window_calls": 4, "minimum_calls": 4, "failure_rate": 0.5,
        "cool_down_ms": 100, "cool_down_growth": 1, "cool_down_jitter": 0
    });
    // The calls of 100 and 110 fail: half of the last four, so that it opens at 115. The first
    // after 215 is the probe, of 220: it fails at 225, and so it goes until the probe of 330.
    let guarded = report(&guarded);
    let counts = guarded.partitions[0].counts;
    assert_eq!((counts.failed, guarded.partitions[0].breaker_openings), (3, 2));
    assert_eq!((counts.ok, counts.circuit_open), (10 + 17, 10 + 10));
}

#[test]
fn a_breaker_that_opens_sends_away_who_waits() {
    let mut told = story(&json!({
        "duration_ms": 100,
        "partitions": [{"name": "p", "slots": 1, "max_wait_ms": 1000,
                        "breaker": {"window_calls": 1, "minimum_calls": 1}}],
        "loads": [{"partition": "p", "arrivals": {"at_ms": [0, 1, 2]}, "service": {"fixed_ms": 10}}],
        "faults": [{"partition": "p", "from_ms": 0, "until_ms": 50, "fail": 1}]
    }));
    let mut told = told.split_off(3);
    told[1..].sort_by_key(|&(_, call, _)| call);
    let sent_away = Happening::Ends(End::CircuitOpen);
    let failed = Happening::Ends(End::Failed);
    assert_eq!(told, [(10, 0, failed), (10, 1, sent_away), (10, 2, sent_away)]);
}

#[test]
fn retries_bring_calls_over_an_outage_within_their_budget() {
    let retrying = |budget: Value| {
        let mut plan = outage();
        plan["loads"][0]["retry"] = json!({"attempts": 8, "backoff_ms": 100, "repeatable": true});
        plan["partitions"][0]["retry_budget"] = budget;
        report(&plan).partitions[0].counts
    };
    let unlimited = retrying(json!({"ratio": 10, "floor": 1000}));
    assert_eq!((unlimited.ok, unlimited.failed), (50, 0), "{unlimited:?}");
    assert!(unlimited.retries >= 20, "{unlimited:?}");

    let tight = retrying(json!({"ratio": 0.1, "floor": 0}));
    assert!((1..=5).contains(&tight.retries), "a tenth of fifty: {tight:?}");
    assert!(tight.failed >= 15, "{tight:?}");
    assert_eq!(retrying(json!({"ratio": 0, "floor": 0})).retries, 0);

    let mut once = outage();
    once["loads"][0]["retry"] = json!({"attempts": 8});
    assert_eq!(report(&once).partitions[0].counts.retries, 0, "it may have been executed");
}

#[test]
fn a_call_is_not_attempted_again_past_its_deadline() {
    let told = story(&json!({
        "duration_ms": 100,
        "partitions": [{"name": "p", "slots": 1, "queue": 0, "retry_budget": {"floor": 1000}}],
        "loads": [
            {"partition": "p", "arrivals": {"at_ms": [0]}, "service": {"fixed_ms": 40}},
            {"partition": "p", "arrivals": {"at_ms": [1]}, "service": {"fixed_ms": 1}, "deadline_ms": 30,
             "retry": {"attempts": 100, "backoff_ms": 0, "backoff_max_ms": 0}}
        ]
    }));
    let (ends, last) = told.iter().filter(|event| event.1 == 1).fold((0, 0), |(n, _), event| {
        (n + u32::from(matches!(event.2, Happening::Ends(_))), event.0)
    });
    assert_eq!(ends, 1);
    assert!(last < 31, "{told:?}");
}

#[test]
fn each_tool_and_each_tenant_has_its_figures() {
    let report = report(&json!({
        "duration_ms": 1000,
        "partitions": [{"name": "p", "slots": 8}],
        "loads": [
            {"tool": "search", "tenant": "ada", "partition": "p", "arrivals": {"at_ms": [0, 100, 200]}, "service": {"fixed_ms": 20}},
            {"tool": "fetch", "tenant": "bob", "partition": "p", "arrivals": {"at_ms": [0]}, "service": {"fixed_ms": 50}},
            {"tool": "fetch", "partition": "p", "arrivals": {"at_ms": [500]}, "service": {"fixed_ms": 70}}
        ]
    }));
    let told = |groups: &[watertight::simulate::plan::GroupReport]| {
        let of = groups.iter().map(|of| (of.name.clone(), of.counts.ok, of.ok_ms.max.round()));
        of.collect::<Vec<_>>()
    };
    let row = |name: &str, ok: u64, max: f64| (name.to_owned(), ok, max);
    assert_eq!(told(&report.tools), [row("search", 3, 20.0), row("fetch", 2, 70.0)]);
    assert_eq!(told(&report.tenants), [row("ada", 3, 20.0), row("bob", 1, 50.0)]);
}

#[test]
fn a_trace_comes_from_its_file_and_other_seeds_from_other_times() {
    const TRACE: &str = include_str!("data/trace.jsonl");
    let read = |seed: u64, text: &str| {
        let plan = json!({
            "seed": seed, "duration_ms": 60_000,
            "partitions": [{"name": "files", "slots": 2}, {"name": "shell", "slots": 1, "max_wait_ms": 5000}],
            "loads": [
                {"partition": "files", "arrivals": {"trace": {"file": "t.jsonl", "spread_ms": 9000, "tools": {"Bash": "shell"}}}},
                {"partition": "files", "tool": "again", "arrivals": {"poisson_per_s": 1}, "service": {"trace": {"file": "t.jsonl", "tool": "Read"}}}
            ]
        });
        Plan::from_json_with(&plan.to_string(), |file| {
            assert_eq!(file, "t.jsonl");
            Ok(text.to_owned())
        })
    };
    let report = |seed| {
        let report = run(&read(seed, TRACE).unwrap()).unwrap();
        assert_accounted(&report);
        report
    };
    let one = report(1);
    let calls = TRACE.lines().count() as u64;
    let bash = TRACE.lines().filter(|line| line.contains("Bash")).count() as u64;
    assert_eq!(one.partitions[1].counts.offered, bash);
    let traced = one.tools.iter().filter(|tool| tool.name != "again");
    assert_eq!(traced.map(|tool| tool.counts.offered).sum::<u64>(), calls);
    assert_eq!(one.tenants.len(), 3, "the sessions");
    assert_eq!(one, report(1));
    assert_ne!(one, report(2));

    let error = read(1, "{\"session\": 1}").unwrap_err();
    assert_eq!(error.field, "loads[0].arrivals.trace.file");
    assert!(error.rule.starts_with("line 1: "), "{error}");
    let error = Plan::from_json(
        &outage().to_string().replace("{\"fixed_ms\":5}", "{\"trace\":{\"file\":\"x\"}}"),
    );
    assert_eq!(error.unwrap_err().field, "loads[0].service.trace.file");
}

fn plans() -> impl Strategy<Value = Value> {
    let dispatch = prop::sample::select(vec!["fifo", "round_robin", "strict", "borrow"]);
    let partition =
        (dispatch, 1..5u32, 0..8u32, 0..3u32, prop::option::of(1..4u32), 0..3u32, 0..60u32);
    let load = (0..2usize, 0..4u32, 1..80u32, 1..60u32, prop::option::of(1..200u32));
    let fault = (0..2usize, 0..2000u32, 0..2000u32, any::<bool>(), any::<bool>(), 0..2u32);
    let (partitions, loads) =
        (prop::collection::vec(partition, 2), prop::collection::vec(load, 1..4));
    (any::<u64>(), 0..4u32, partitions, loads, prop::collection::vec(fault, 0..3)).prop_map(
        |(seed, reserve, partitions, loads, faults)| {
            let partitions = partitions.iter().enumerate().map(|(at, of)| json!({
                "name": format!("p{at}"), "dispatch": of.0, "slots": of.1, "queue": of.2, "reserve_max": of.3,
                "tenant_max": of.4, "replace_overdue": of.5, "max_wait_ms": of.6,
                "run_limit_ms": 90, "cancel_grace_ms": 7, "tenant_slots": {"t-0": of.1 / 2},
            }));
            let loads = loads.iter().map(|of| json!({
                "partition": format!("p{}", of.0), "tenants": of.1 + 1, "arrivals": {"poisson_per_s": of.2},
                "service": {"exponential_ms": of.3}, "deadline_ms": of.4,
            }));
            let faults = faults.iter().map(|of| json!({
                "partition": format!("p{}", of.0), "from_ms": of.1, "until_ms": of.1 + of.2,
                "hang": of.3, "resist": of.4, "fail": f64::from(of.5) / 2.0,
            }));
            json!({
                "seed": seed, "duration_ms": 2000, "reserve": reserve,
                "partitions": partitions.collect::<Vec<_>>(), "loads": loads.collect::<Vec<_>>(),
                "faults": faults.collect::<Vec<_>>(),
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_call_ends_once_and_no_slot_is_held_twice(json in plans()) {
        let report = report(&json);
        let mut slots: HashMap<u64, Time> = HashMap::new();
        let mut ended = 0;
        run_observed(&plan(&json), |event| match event.what {
            Happening::Starts { .. } => assert_eq!(slots.insert(event.call, event.at), None),
            Happening::Ends(_) => ended += 1,
            _ => {}
        }).unwrap();
        prop_assert_eq!(ended, report.calls);
        for (partition, of) in report.partitions.iter().zip(json["partitions"].as_array().unwrap()) {
            let most = |field: &str| of[field].as_u64().unwrap() as u32;
            prop_assert!(partition.borrowed_max <= most("reserve_max"));
            prop_assert!(partition.in_flight_max <= most("slots") + most("reserve_max") + most("replace_overdue"));
        }
        prop_assert!(report.reserve.used_max <= report.reserve.slots);
    }

    #[test]
    fn a_plan_has_the_same_report_every_time(json in plans()) {
        prop_assert_eq!(run(&plan(&json)).unwrap(), run(&plan(&json)).unwrap());
    }
}

#[test]
fn the_report_ends_with_the_last_call_not_with_the_last_look() {
    let report = report(&json!({
        "duration_ms": 1000,
        "partitions": [{"name": "t", "slots": 1}],
        "loads": [{
            "partition": "t", "arrivals": {"at_ms": [0, 500]}, "service": {"fixed_ms": 100}
        }],
    }));
    assert_eq!(report.ended_ms, 600.0);
    assert!((report.partitions[0].utilisation - 1.0 / 3.0).abs() < 1e-9, "{report:?}");
}
