//! What the page consists of, and the one question it asks.

use serde::Serialize;

use super::http::{Request, Response};
use crate::simulate::{Given, InputError, LAST_TICK, Outcome, Scenario, Tallies, run};

/// Scenarios that one request may ask for.
const SCENARIOS_MAX: usize = 4;

pub(super) fn answer(request: &Request) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", path) => file(path),
        ("POST", "/simulate") => simulate(request),
        _ => Response::refusal(405, "GET the page, or POST scenarios to /simulate"),
    }
}

fn file(path: &str) -> Response {
    match path {
        "/" => Response::ok("text/html; charset=utf-8", include_str!("page/index.html")),
        "/page.css" => Response::ok("text/css; charset=utf-8", include_str!("page/page.css")),
        "/draw.js" => Response::ok("text/javascript; charset=utf-8", include_str!("page/draw.js")),
        "/link.js" => Response::ok("text/javascript; charset=utf-8", include_str!("page/link.js")),
        "/page.js" => Response::ok("text/javascript; charset=utf-8", include_str!("page/page.js")),
        "/icon.svg" => Response::ok("image/svg+xml", include_str!("page/icon.svg")),
        "/fixtures.json" => Response::ok("application/json", include_str!("page/fixtures.json")),
        _ => Response::refusal(404, "there is no such page"),
    }
}

/// An answer to one scenario.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Outcome {
        outcome: Box<Outcome>,
        /// The sums at every tick.
        tallies: Vec<Tallies>,
    },
    Error {
        error: InputError,
    },
}

/// An array of scenarios in, an array of answers out.
fn simulate(request: &Request) -> Response {
    let is_json = request
        .header("content-type")
        .and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if !is_json {
        return Response::refusal(415, "send application/json");
    }
    let scenarios: Vec<Given> = match serde_json::from_slice(&request.body) {
        Ok(scenarios) => scenarios,
        Err(error) => return Response::refusal(400, &format!("not an array of JSON: {error}")),
    };
    if scenarios.len() > SCENARIOS_MAX {
        return Response::refusal(400, "at most 4 scenarios at once");
    }
    let answers: Vec<_> = scenarios.into_iter().map(Answer::to).collect();
    match serde_json::to_vec(&answers) {
        Ok(body) => Response::ok("application/json", body),
        Err(error) => Response::refusal(500, &error.to_string()),
    }
}

impl Answer {
    fn to(given: Given) -> Answer {
        match Scenario::try_from(given) {
            Ok(scenario) => {
                let outcome = Box::new(run(&scenario));
                let tallies = (0..=LAST_TICK).map(|tick| outcome.tallies_at(tick));
                Answer::Outcome { tallies: tallies.collect(), outcome }
            }
            Err(error) => Answer::Error { error },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::simulate::{Gate, Tally};

    struct Fixture {
        look: String,
        tick: usize,
        left: Outcome,
        right: Outcome,
    }

    /// The fixture of that name, run under both of its policies.
    fn fixture(name: &str) -> Fixture {
        let all: Vec<Value> = serde_json::from_str(include_str!("page/fixtures.json")).unwrap();
        assert_eq!(all.len(), 6);
        let found = all.iter().find(|fixture| fixture["name"] == name).unwrap();
        let under = |policy: &Value| {
            let mut scenario = found["demand"].clone();
            scenario["policy"] = policy.clone();
            run(&Scenario::from_json(&scenario.to_string()).unwrap())
        };
        Fixture {
            look: found["look"].as_str().unwrap().to_owned(),
            tick: found["tick"].as_u64().unwrap() as usize,
            left: under(&found["left"]),
            right: under(&found["right"]),
        }
    }

    fn completed(tally: &Tally) -> (u32, u32) {
        (tally.completed, tally.offered)
    }

    /// Slots that A holds after `tick`, and those of them that are B's home.
    fn held_by_a(outcome: &Outcome, tick: usize) -> (usize, usize) {
        let slots = outcome.ticks[tick].slots.iter().flatten();
        let requests = slots.map(|&id| &outcome.requests[id as usize]);
        let of_a = requests.filter(|request| request.tenant == crate::simulate::Side::A);
        of_a.fold((0, 0), |(all, lent), request| (all + 1, lent + usize::from(request.borrowed)))
    }

    #[test]
    fn the_flooded_hold_is_flooded_by_tick_4() {
        let Fixture { look, left, right, tick } = fixture("The flooded hold");
        assert!(look.contains("all four slots by tick 4"));
        assert_ne!(held_by_a(&left, 3).0, 4);
        assert!((4..=tick).all(|tick| held_by_a(&left, tick).0 == 4));
        assert!(look.contains("2 of B’s 6") && look.contains("all 6"));
        assert_eq!(completed(&left.tenants.b), (2, 6));
        assert_eq!(completed(&right.tenants.b), (6, 6));
        assert!((0..21).all(|tick| held_by_a(&right, tick).0 <= 2));
    }

    #[test]
    fn a_shorter_time_out_saves_b_but_not_a() {
        let Fixture { look, left, right, .. } = fixture("A shorter time-out");
        assert!(look.contains("after 4 ticks instead of 10") && look.contains("all 6"));
        assert_eq!(left.scenario.fields()["timeout_a"], 4);
        assert_eq!(fixture("The flooded hold").left.scenario.fields()["timeout_a"], 10);
        assert_eq!(completed(&left.tenants.b), (6, 6));
        assert_eq!(completed(&right.tenants.b), (6, 6));
        assert!(look.contains("0 of 12"));
        assert_eq!(completed(&left.tenants.a), (0, 12));
        assert_eq!(completed(&right.tenants.a), (0, 12));
    }

    #[test]
    fn taking_turns_saves_b() {
        let Fixture { look, left, right, tick } = fixture("Taking turns");
        assert!(look.contains("2 of its 6") && look.contains("all 6"));
        assert_eq!(completed(&left.tenants.b), (2, 6));
        assert_eq!(completed(&right.tenants.b), (6, 6));
        assert!(left.ticks[tick].waiting.b.len() > right.ticks[tick].waiting.b.len());
    }

    #[test]
    fn idle_slots_on_loan_do_a_s_work() {
        let Fixture { look, left, right, tick } = fixture("Idle slots on loan");
        assert!(look.contains("16 of A’s 24") && look.contains("all 24"));
        assert!(look.contains("B’s 2 calls finish in either"));
        assert_eq!(completed(&left.tenants.a), (16, 24));
        assert_eq!(completed(&right.tenants.a), (24, 24));
        assert_eq!(completed(&left.tenants.b), (2, 2));
        assert_eq!(completed(&right.tenants.b), (2, 2));
        assert!(left.ticks[tick].slots[2..].iter().all(Option::is_none));
        assert!(!left.ticks[tick].waiting.a.is_empty());
        assert_eq!(held_by_a(&right, tick), (4, 2));
    }

    #[test]
    fn the_price_of_a_loan_is_b_s_calls() {
        let Fixture { look, left, right, tick } = fixture("The price of a loan");
        assert!(look.contains("by tick 3"));
        assert!((3..=tick).all(|tick| held_by_a(&right, tick) == (4, 2)));
        assert!(look.contains("2 of its 4") && look.contains("all 4"));
        assert_eq!(completed(&right.tenants.b), (2, 4));
        assert_eq!(completed(&left.tenants.b), (4, 4));
        assert!(!right.ticks[tick].waiting.b.is_empty());
    }

    #[test]
    fn a_fine_p95_hides_the_lost() {
        let Fixture { look, left, right, .. } = fixture("A fine p95 over a wreck");
        assert!(look.contains("p95 is 2 ticks in both") && look.contains("1 call of 6"));
        assert_eq!((left.tenants.b.p95, right.tenants.b.p95), (Some(2), Some(2)));
        assert_eq!(completed(&left.tenants.b), (1, 6));
        assert_eq!(left.tenants.b.rejected, 5);
        assert_eq!((left.tenants.b.gate, right.tenants.b.gate), (Gate::Fail, Gate::Pass));
    }
}
