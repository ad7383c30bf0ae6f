//! Checks that several policies share.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::PolicyError;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);

/// What a knob's error says: what is allowed, and what to do.
pub(super) type Advice = (&'static str, &'static str);

pub(super) fn refusal(
    key: &'static str,
    value: impl fmt::Display,
    (rule, fix): Advice,
) -> PolicyError {
    PolicyError { key, value: value.to_string(), rule, fix }
}

/// Refuses a count outside `range`.
pub(super) fn count(
    key: &'static str,
    value: u32,
    range: RangeInclusive<u32>,
    advice: Advice,
) -> Result<(), PolicyError> {
    if range.contains(&value) { Ok(()) } else { Err(refusal(key, value, advice)) }
}

/// Refuses a span outside `range`.
pub(super) fn span(
    key: &'static str,
    value: Duration,
    range: RangeInclusive<Duration>,
    advice: Advice,
) -> Result<(), PolicyError> {
    if range.contains(&value) { Ok(()) } else { Err(refusal(key, format!("{value:?}"), advice)) }
}

/// A share up to `max` in millionths, so that comparing it with counts is exact. Rounded down, but
/// what is more than nothing stays more than nothing.
pub(super) fn millionths(
    key: &'static str,
    value: f64,
    max: f64,
    advice: Advice,
) -> Result<u64, PolicyError> {
    if !(0.0..=max).contains(&value) {
        return Err(refusal(key, value, advice));
    }
    let whole = (value * 1e6) as u64;
    Ok(if value > 0.0 { whole.max(1) } else { 0 })
}
