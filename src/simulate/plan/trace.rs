//! Calls that were measured.

use std::io;

use serde::Deserialize;
use serde_json::Value;

use crate::simulate::InputError;

/// A call that was measured: a line of a trace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRow {
    /// Whose call it was: the tenant.
    pub session: String,
    /// When it began, from the session's first call.
    pub t_ms: f64,
    /// How long it took.
    pub dur_ms: f64,
    /// What was called. Defaults to nothing in particular.
    #[serde(default)]
    pub tool: String,
}

/// Reads the trace `file`, one row a line; empty lines are skipped.
pub(super) fn read(
    place: &str,
    file: &str,
    open: &mut impl FnMut(&str) -> io::Result<String>,
) -> Result<Vec<TraceRow>, InputError> {
    let field = format!("{place}.file");
    let refuse = |rule: String| InputError::new(&field, Value::from(file), rule);
    let text =
        open(file).map_err(|error| refuse(format!("must be a file that can be read: {error}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| {
                let rule = "must be {\"session\", \"t_ms\", \"dur_ms\", \"tool\"}";
                refuse(format!("line {}: {error}; each line {rule}", at + 1))
            })
        })
        .collect()
}
