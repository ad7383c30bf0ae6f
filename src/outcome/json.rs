//! Outcomes as the JSON a harness hands to a model.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{EarlierAttempt, Outcome, Status};

impl<T: Serialize> Outcome<T> {
    /// As JSON: `status`, `tool`, `partition`, `reason` or `clock`, `executed`, `retry_after_ms`,
    /// `detail`, `evidence`, `result`, `waited_ms`, `ran_ms`, `earlier_attempts`, each only where there
    /// is something to say. Never a stack trace, a header's value or a credential. A result that cannot be JSON is
    /// `null`.
    ///
    /// ```
    /// use watertight::{PartitionSpec, Runtime};
    ///
    /// let runtime = Runtime::builder().partition(PartitionSpec::new("sums").slots(1)).build()?;
    /// let sums = runtime.partition("sums").expect("it was just built");
    /// let json = sums.call(|_run| Ok(4)).to_json();
    /// assert_eq!(json["status"], "ok");
    /// assert_eq!(json["result"], 4);
    /// # Ok::<(), watertight::SpecError>(())
    /// ```
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| json.insert(key.to_owned(), value);
        put("status", self.status().as_str().into());
        if let Some(tool) = &self.tool {
            put("tool", (&**tool).into());
        }
        if !self.partition.is_empty() {
            put("partition", (&*self.partition).into());
        }
        if let Err(error) = &self.result {
            put_reason(error.status(), error.reason(), &mut put);
        }
        put("executed", self.executed().as_str().into());
        if let Some(after) = self.retry_after() {
            put("retry_after_ms", whole_ms(after).into());
        }
        if let Some(detail) = self.detail() {
            put("detail", detail.into());
        }
        match &self.result {
            Ok(value) => {
                put("result", serde_json::to_value(value).unwrap_or(Value::Null));
            }
            Err(error) => {
                if let Some(evidence) = error.evidence().and_then(super::Evidence::value) {
                    put("evidence", evidence.clone());
                }
            }
        }
        put("waited_ms", ms(self.timing.waited));
        put("ran_ms", ms(self.timing.ran));
        if !self.earlier.is_empty() {
            let earlier = self.earlier.iter().map(EarlierAttempt::to_json);
            put("earlier_attempts", earlier.collect());
        }
        Value::Object(json)
    }
}

impl EarlierAttempt {
    fn to_json(&self) -> Value {
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| json.insert(key.to_owned(), value);
        put("status", self.status.as_str().into());
        put_reason(self.status, self.reason, &mut put);
        put("executed", self.executed.as_str().into());
        put("waited_ms", ms(self.timing.waited));
        put("ran_ms", ms(self.timing.ran));
        put("backoff_ms", ms(self.backoff));
        Value::Object(json)
    }
}

/// The reason, which is a clock's for a time-out; nothing where the status says it all.
fn put_reason(status: Status, reason: &str, put: &mut impl FnMut(&str, Value) -> Option<Value>) {
    match (status, reason) {
        (_, "") => None,
        (Status::Timeout, clock) => put("clock", clock.into()),
        (_, reason) => put("reason", reason.into()),
    };
}

/// At least 1, and never before the time it stands for.
fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

/// With three decimals: microseconds.
fn ms(span: Duration) -> Value {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a span of 285 years is exact to the microsecond"
    )]
    let ms = (span.as_micros() as f64) / 1000.0;
    ms.into()
}
