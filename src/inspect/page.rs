//! What the page consists of, and the one question it asks.

use serde::Serialize;

use super::http::{Request, Response};
use crate::simulate::{Given, LAST_TICK, Outcome, Scenario, ScenarioError, Tallies, run};

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
        "/page.js" => Response::ok(
            "text/javascript; charset=utf-8",
            include_str!("page/page.js"),
        ),
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
        error: ScenarioError,
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
                Answer::Outcome {
                    tallies: tallies.collect(),
                    outcome,
                }
            }
            Err(error) => Answer::Error { error },
        }
    }
}
