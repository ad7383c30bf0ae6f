//! The error of a knob that is out of range.

use std::fmt;

/// A knob with a value that is not allowed.
///
/// ```
/// use watertight::resilience::breaker::Policy;
///
/// let policy = Policy { failure_rate: 50.0, ..Policy::default() };
/// assert_eq!(
///     policy.check().unwrap_err().to_string(),
///     "failure_rate = 50: must be a share from 0 to 1; for half of the calls write 0.5",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The knob.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub rule: &'static str,
    /// What to do.
    pub fix: &'static str,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyError { key, value, rule, fix } = self;
        write!(f, "{key} = {value}: {rule}; {fix}")
    }
}

impl std::error::Error for PolicyError {}
