//! Calls of SQL tools outside a partition.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use watertight::call::{CancelToken, Run};
use watertight::driver::{Args, Sizing, Tool};
use watertight::outcome::Failure;

/// Long enough for any call that is meant to end well.
pub(crate) const AMPLE: Duration = Duration::from_secs(30);

/// A partition called `sql` of `connections` slots.
pub(crate) fn sizing(connections: u32) -> Sizing {
    Sizing { partition: "sql".into(), connections, run_limit: AMPLE }
}

/// An object as arguments.
pub(crate) fn args(value: &Value) -> Args {
    value.as_object().cloned().expect("arguments are an object")
}

/// One call with all the time it needs.
pub(crate) fn call(tool: &Arc<dyn Tool>, given: &Value) -> Result<Value, Failure> {
    call_within(tool, given, AMPLE, &CancelToken::new())
}

/// One call that must end within `limit`, or when `cancel` says so.
pub(crate) fn call_within(
    tool: &Arc<dyn Tool>,
    given: &Value,
    limit: Duration,
    cancel: &CancelToken,
) -> Result<Value, Failure> {
    let mut operation = tool.prepare(&args(given))?;
    operation(&Run::detached(limit, cancel.clone()))?.decode()
}
