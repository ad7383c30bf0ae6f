//! The breakers and retries of a plan: the policies of [`resilience`](crate::resilience), in
//! milliseconds.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::input::duration;
use crate::error::PolicyError;
use crate::resilience::{breaker, budget, retry};
use crate::simulate::InputError;

/// A breaker before a partition; what is left out is as in
/// [`breaker::Policy`](crate::resilience::breaker::Policy).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BreakerPlan {
    /// How many of the last calls are judged. Defaults to 50, if `window_ms` is not given.
    pub window_calls: Option<u32>,
    /// Instead: how long a call is judged after its end.
    pub window_ms: Option<f64>,
    /// Fewer calls are not judged. Defaults to 10.
    pub minimum_calls: Option<u32>,
    /// The share of failed calls at which it opens. Defaults to 0.5.
    pub failure_rate: Option<f64>,
    /// How long a slow call runs. Defaults to 0: none is slow.
    pub slow_call_ms: Option<f64>,
    /// The share of slow calls at which it opens. Defaults to 1.
    pub slow_call_rate: Option<f64>,
    /// How long it first stays open. Defaults to 5,000.
    pub cool_down_ms: Option<f64>,
    /// By what each cool-down is longer than the one before. Defaults to 2.
    pub cool_down_growth: Option<f64>,
    /// The longest cool-down. Defaults to 60,000.
    pub cool_down_max_ms: Option<f64>,
    /// The share by which chance makes a cool-down shorter. Defaults to 0.1.
    pub cool_down_jitter: Option<f64>,
    /// How many probes decide. Defaults to 1.
    pub probes: Option<u32>,
    /// Whether a call that a limit ended has failed. Defaults to true.
    pub count_timeouts: Option<bool>,
}

/// Retries of a load's calls; what is left out is as in
/// [`retry::Policy`](crate::resilience::retry::Policy).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RetryPlan {
    /// How often a call is attempted at most. Defaults to 3.
    pub attempts: Option<u32>,
    /// The longest wait before the first retry. Defaults to 100.
    pub backoff_ms: Option<f64>,
    /// The longest wait before any. Defaults to 10,000.
    pub backoff_max_ms: Option<f64>,
    /// The ends that are retried, by their words in outcomes. Defaults to those that may well be
    /// over soon.
    pub on: Option<Vec<String>>,
    /// Whether a call that may have been executed may be executed again. Defaults to false.
    pub repeatable: bool,
}

/// How many retries a partition takes; what is left out is as in
/// [`budget::Policy`](crate::resilience::budget::Policy).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BudgetPlan {
    /// Retries for each call. Defaults to 0.2.
    pub ratio: Option<f64>,
    /// Retries a second that are allowed however few calls there are. Defaults to 1.
    pub floor: Option<u32>,
    /// The span over which both are counted. Defaults to 10,000.
    pub window_ms: Option<f64>,
}

impl BreakerPlan {
    /// What its breaker goes by.
    pub(super) fn policy(&self, place: &str) -> Result<breaker::Policy, InputError> {
        let preset = breaker::Policy::default();
        let ms = |name: &str, given, preset| span(place, name, given, preset);
        if self.window_calls.is_some() && self.window_ms.is_some() {
            let field = format!("{place}.window_ms");
            let rule = "must not stand beside window_calls; leave one of them out".to_owned();
            return Err(InputError::new(&field, Value::from(self.window_ms), rule));
        }
        let window = match (self.window_calls, self.window_ms) {
            (_, Some(_)) => breaker::Window::Time(ms("window_ms", self.window_ms, Duration::ZERO)?),
            (Some(calls), None) => breaker::Window::Count(calls),
            (None, None) => preset.window,
        };
        let policy = breaker::Policy {
            window,
            minimum_calls: self.minimum_calls.unwrap_or(preset.minimum_calls),
            failure_rate: self.failure_rate.unwrap_or(preset.failure_rate),
            slow_call: ms("slow_call_ms", self.slow_call_ms, preset.slow_call)?,
            slow_call_rate: self.slow_call_rate.unwrap_or(preset.slow_call_rate),
            cool_down: ms("cool_down_ms", self.cool_down_ms, preset.cool_down)?,
            cool_down_growth: self.cool_down_growth.unwrap_or(preset.cool_down_growth),
            cool_down_max: ms("cool_down_max_ms", self.cool_down_max_ms, preset.cool_down_max)?,
            cool_down_jitter: self.cool_down_jitter.unwrap_or(preset.cool_down_jitter),
            probes: self.probes.unwrap_or(preset.probes),
            count_timeouts: self.count_timeouts.unwrap_or(preset.count_timeouts),
            count_refusals: preset.count_refusals,
        };
        policy.check().map_err(|error| at(place, error))?;
        Ok(policy)
    }
}

impl RetryPlan {
    /// What retries go by.
    pub(super) fn policy(&self, place: &str) -> Result<retry::Policy, InputError> {
        let preset = retry::Policy::default();
        let ms = |name: &str, given, preset| span(place, name, given, preset);
        let on = match &self.on {
            Some(words) => retry::Kinds::parse(words.iter().map(String::as_str))
                .map_err(|error| at(place, error))?,
            None => preset.on,
        };
        let policy = retry::Policy {
            attempts: self.attempts.unwrap_or(preset.attempts),
            backoff: ms("backoff_ms", self.backoff_ms, preset.backoff)?,
            backoff_max: ms("backoff_max_ms", self.backoff_max_ms, preset.backoff_max)?,
            on,
            idempotent: self.repeatable,
        };
        policy.check().map_err(|error| at(place, error))?;
        Ok(policy)
    }
}

impl BudgetPlan {
    /// What the budget goes by.
    pub(super) fn policy(&self, place: &str) -> Result<budget::Policy, InputError> {
        let preset = budget::Policy::default();
        let policy = budget::Policy {
            ratio: self.ratio.unwrap_or(preset.ratio),
            floor: self.floor.unwrap_or(preset.floor),
            window: span(place, "window_ms", self.window_ms, preset.window)?,
        };
        policy.check().map_err(|error| at(place, error))?;
        Ok(policy)
    }
}

fn span(
    place: &str,
    name: &str,
    given: Option<f64>,
    preset: Duration,
) -> Result<Duration, InputError> {
    let Some(ms) = given else { return Ok(preset) };
    duration(ms).ok_or_else(|| {
        let rule = "must be 0 to 1e10 milliseconds".to_owned();
        InputError::new(&format!("{place}.{name}"), ms.into(), rule)
    })
}

/// The knob's error as one of the plan's.
pub(super) fn at(place: &str, error: PolicyError) -> InputError {
    let PolicyError { key, value, rule, fix } = error;
    InputError::new(&format!("{place}.{key}"), value.into(), format!("{rule}; {fix}"))
}
