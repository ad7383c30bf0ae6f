//! One line of the input: a call, or what is wrong with it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::call::{Tenant, Terms};
use crate::driver::Args;
use crate::runtime::{Partition, Runtime, ToolCall};
use crate::time::Time;

/// A call that has been read and has no final outcome yet.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) about: About,
    pub(super) tool: Arc<str>,
    args: Args,
    pub(super) tenant: Option<Tenant>,
    pub(super) turn: Option<u64>,
    /// When to offer it, from the start.
    pub(super) at: Option<Duration>,
    pub(super) deadline: Option<Duration>,
    idempotency_key: Option<String>,
    /// The length of its line.
    pub(super) bytes: usize,
    /// How often it has been offered.
    pub(super) offers: u32,
    /// How often it has been attempted: once for each offer, and for each retry of its tool.
    pub(super) attempts: u32,
    /// When it was first offered.
    pub(super) first_offer: Option<Time>,
}

/// What an outcome is told apart by.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// The line's number, from 1.
    pub(super) line: u64,
    /// What the caller calls it.
    pub(super) id: Option<Value>,
}

/// A line that is no call.
#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) about: About,
    pub(super) message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    id: Option<Value>,
    tool: String,
    #[serde(default)]
    args: Args,
    tenant: Option<String>,
    turn: Option<u64>,
    at_ms: Option<u64>,
    deadline_ms: Option<u64>,
    idempotency_key: Option<String>,
}

/// Reads `text`, the line numbered `line`.
pub(super) fn parse(line: u64, text: &[u8]) -> Result<Call, Invalid> {
    let raw: Raw = serde_json::from_slice(text).map_err(|error| {
        let id = serde_json::from_slice::<Value>(text).ok();
        let id = id.as_ref().and_then(|value| value.get("id")).cloned();
        Invalid { about: About { line, id }, message: explain(line, &error) }
    })?;
    Ok(Call {
        about: About { line, id: raw.id },
        tool: raw.tool.into(),
        args: raw.args,
        tenant: raw.tenant.map(Tenant::from),
        turn: raw.turn,
        at: raw.at_ms.map(Duration::from_millis),
        deadline: raw.deadline_ms.map(Duration::from_millis),
        idempotency_key: raw.idempotency_key,
        bytes: text.len(),
        offers: 0,
        attempts: 0,
        first_offer: None,
    })
}

/// The error without the line that it counts, which is always the first.
fn explain(line: u64, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let column = error.column();
    format!(
        "line {line}, column {column}: {what}; a call is one object such as {{\"tool\":\"search\",\"args\":{{}}}}"
    )
}

impl Call {
    /// The partition it goes to, if there is one.
    pub(super) fn partition<'r>(&self, runtime: &'r Runtime) -> Option<&'r Partition> {
        runtime.partition_for(&self.tool, &self.args)
    }

    /// The call to offer at `now`, with what is left of its deadline.
    pub(super) fn offer(&mut self, now: Time) -> ToolCall {
        self.offers += 1;
        let first = *self.first_offer.get_or_insert(now);
        let mut terms = Terms::new().attempt(self.attempts.saturating_add(1));
        if let Some(tenant) = &self.tenant {
            terms = terms.tenant(tenant.clone());
        }
        if let Some(deadline) = self.deadline {
            terms = terms.deadline(deadline.saturating_sub(now - first));
        }
        if let Some(key) = &self.idempotency_key {
            terms = terms.idempotency_key(key.as_str());
        }
        ToolCall::new(Arc::clone(&self.tool)).args(self.args.clone()).terms(terms)
    }

    /// When it may be offered again after `hint`, if its deadline leaves time for that.
    pub(super) fn retry_at(&self, now: Time, hint: Duration) -> Option<Time> {
        let at = now + hint;
        let end = self.deadline.zip(self.first_offer).map(|(deadline, first)| first + deadline);
        end.is_none_or(|end| at < end).then_some(at)
    }
}
