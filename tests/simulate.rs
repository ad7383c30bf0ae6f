//! Scenarios and their outcomes: the vectors, the errors, and what holds at every tick.
#![cfg(feature = "json")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use watertight::simulate::{InputError, LAST_TICK, Outcome, Scenario, State, Tally, run};

/// Outcomes that were worked out independently of this project, one a line: those that tell the
/// most mistakes apart, under each of the four policies.
const VECTORS: &str = include_str!("data/inspector_vectors.jsonl");

#[test]
fn outcomes_equal_the_vectors_field_by_field() {
    for (line, vector) in VECTORS.lines().enumerate() {
        let expected: Value = serde_json::from_str(vector).unwrap();
        let scenario = Scenario::from_json(&expected["scenario"].to_string()).unwrap();
        let outcome = serde_json::to_value(run(&scenario)).unwrap();
        assert_same(&outcome, &expected, &format!("vector {}", line + 1));
    }
    assert_eq!(VECTORS.lines().count(), 45);
}

/// Asserts that two JSON values are equal, fields in the same order, and says where they differ.
fn assert_same(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let names = |of: &Map<String, Value>| of.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(found), names(expected), "fields of {place}");
            for (name, value) in found {
                assert_same(value, &expected[name], &format!("{place}.{name}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_same(found, expected, &format!("{place}[{at}]"));
            }
            assert_eq!(found.len(), expected.len(), "length of {place}");
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

fn valid() -> Value {
    json!({
        "slots": 4, "reserved_a": 2, "arrivals_a": 2, "every_b": 2, "hold_a": 3, "hold_b": 2,
        "stall_a": true, "timeout_a": 10, "timeout_b": 6, "policy": "fifo", "max_waiting": 8,
        "target_percent": 90,
    })
}

fn with(field: &str, value: &Value) -> String {
    let mut scenario = valid();
    scenario[field] = value.clone();
    scenario.to_string()
}

fn error(text: &str) -> InputError {
    Scenario::from_json(text).unwrap_err()
}

#[test]
fn every_number_has_a_least_and_a_most() {
    let ranges = [
        ("slots", 1, 64),
        ("reserved_a", 0, 3),
        ("arrivals_a", 0, 64),
        ("every_b", 1, 12),
        ("hold_a", 1, 20),
        ("hold_b", 1, 20),
        ("timeout_a", 1, 20),
        ("timeout_b", 1, 20),
        ("max_waiting", 0, 64),
        ("target_percent", 0, 100),
    ];
    for (field, least, most) in ranges {
        for value in [json!(least - 1), json!(most + 1), json!(1.5), json!("1"), Value::Null] {
            let error = error(&with(field, &value));
            assert_eq!((error.field.as_str(), &error.value), (field, &value));
            let range = format!("must be a whole number from {least} to {most}");
            assert!(error.rule.starts_with(&range), "{error}");
        }
        assert!(Scenario::from_json(&with(field, &json!(most))).is_ok());
        if field != "slots" {
            assert!(Scenario::from_json(&with(field, &json!(least))).is_ok());
        }
    }
}

#[test]
fn every_field_is_required_once_and_no_other_is_known() {
    let fields: Vec<_> = valid().as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields.len(), 12);
    for field in &fields {
        let mut missing = valid();
        missing.as_object_mut().unwrap().remove(field);
        let error = error(&missing.to_string());
        assert_eq!((&error.field, &error.value), (field, &Value::Null));
        assert!(error.rule.starts_with("is missing; it must be "), "{error}");
    }

    let twice = valid().to_string().replacen('{', r#"{"slots": 9, "#, 1);
    let error = error(&twice);
    assert_eq!((error.field.as_str(), error.rule.as_str()), ("slots", "must be given once"));

    let error = self::error(&with("slot", &json!(4)));
    assert_eq!((error.field.as_str(), error.value), ("slot", json!(4)));
    assert!(error.rule.contains("slots, reserved_a, "), "{}", error.rule);
}

#[test]
fn words_and_texts_that_are_no_scenario_are_refused() {
    let error = error(&with("policy", &json!("FIFO")));
    assert_eq!(
        error.to_string(),
        "policy = \"FIFO\": must be one of fifo, round_robin, strict, borrow"
    );
    let error = self::error(&with("stall_a", &json!(1)));
    assert_eq!(error.to_string(), "stall_a = 1: must be true or false");

    let error = self::error("[1, 2]");
    assert_eq!((error.field.as_str(), error.value), ("scenario", json!("[1,2]")));
    let error = self::error("{\"slots\": 4,\n");
    assert!(error.rule.contains("line 2 column 0"), "{error}");
}

#[test]
fn an_error_repeats_no_more_than_a_line_of_what_was_given() {
    let long = "é".repeat(10_000);
    let error = error(&json!({ long.as_str(): [long.as_str()] }).to_string());
    assert_eq!(error.field.chars().count(), 81);
    assert_eq!(error.value.as_str().unwrap().chars().count(), 81);
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let policies = prop::sample::select(vec!["fifo", "round_robin", "strict", "borrow"]);
    let slots = (1..=64u32).prop_flat_map(|slots| (Just(slots), 0..slots));
    let demand = (0..=64u32, 1..=12u32, 1..=20u32, 1..=20u32, any::<bool>());
    let limits = (1..=20u32, 1..=20u32, 0..=64u32, 0..=100u32);
    (policies, slots, demand, limits).prop_map(|(policy, slots, demand, limits)| {
        let scenario = json!({
            "slots": slots.0, "reserved_a": slots.1,
            "arrivals_a": demand.0, "every_b": demand.1,
            "hold_a": demand.2, "hold_b": demand.3, "stall_a": demand.4,
            "timeout_a": limits.0, "timeout_b": limits.1,
            "policy": policy, "max_waiting": limits.2, "target_percent": limits.3,
        });
        Scenario::from_json(&scenario.to_string()).expect("it is in range")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn at_every_tick_each_request_is_in_one_place(scenario in scenarios()) {
        let outcome = run(&scenario);
        prop_assert_eq!(outcome.ticks.len() as u32, LAST_TICK + 1);
        for tick in 0..=LAST_TICK {
            assert_accounted(&outcome, tick);
        }
    }

    #[test]
    fn the_same_scenario_has_the_same_outcome(scenario in scenarios()) {
        prop_assert_eq!(run(&scenario), run(&scenario));
    }
}

fn assert_accounted(outcome: &Outcome, tick: u32) {
    let sum = |tally: &Tally| {
        tally.completed + tally.rejected + tally.timed_out + tally.waiting + tally.running
    };
    let tallies = outcome.tallies_at(tick);
    for tally in [&tallies.tenants.a, &tallies.tenants.b, &tallies.all] {
        assert_eq!(tally.offered, sum(tally), "tick {tick}");
    }
    let drawn = &outcome.ticks[tick as usize];
    let in_state = |state| {
        let ids = outcome.requests.iter().filter(|request| request.state_at(tick) == Some(state));
        ids.map(|request| request.id).collect::<Vec<_>>()
    };
    let mut running: Vec<_> = drawn.slots.iter().flatten().copied().collect();
    running.sort_unstable();
    assert_eq!(running, in_state(State::Running), "tick {tick}");
    let mut waiting = [&drawn.waiting.a[..], &drawn.waiting.b[..]].concat();
    waiting.sort_unstable();
    assert_eq!(waiting, in_state(State::Waiting), "tick {tick}");
}

#[test]
fn the_largest_scenario_has_its_outcome_before_anybody_notices() {
    let largest = json!({
        "slots": 64, "reserved_a": 32, "arrivals_a": 64, "every_b": 1, "hold_a": 1, "hold_b": 1,
        "stall_a": false, "timeout_a": 20, "timeout_b": 20, "policy": "borrow", "max_waiting": 64,
        "target_percent": 90
    });
    let largest = Scenario::from_json(&largest.to_string()).unwrap();
    let mut took: Vec<_> = (0..21)
        .map(|_| {
            let begin = std::time::Instant::now();
            std::hint::black_box(run(&largest));
            begin.elapsed()
        })
        .collect();
    took.sort();
    let bound = if cfg!(debug_assertions) { 50 } else { 1 };
    assert!(took[10] < std::time::Duration::from_millis(bound), "{took:?}");
}
