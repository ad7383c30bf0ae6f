//! Configured tools: named, with JSON arguments and JSON results.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::cell::{Late, catch};
use super::partition::Partition;
use super::spec::SpecError;
use super::ticket::Ticket;
use super::turn::{Completed, Turn};
use super::{Builder, Runtime, spec_error};
use crate::call::{Run, Terms};
use crate::driver::{Args, Tool};
use crate::outcome::{CallError, Executed, Failure, FailureReason, Outcome, Timing};

/// Tools by name.
pub(super) type Tools = HashMap<Arc<str>, (Partition, Arc<dyn Tool>)>;

/// A tool on its way into a runtime.
pub(super) struct Entry {
    name: Arc<str>,
    partition: String,
    tool: Arc<dyn Tool>,
}

/// A call of a configured tool.
///
/// ```
/// use watertight::ToolCall;
/// use watertight::call::Terms;
///
/// let call = ToolCall::new("search_docs").arg("q", "bulkheads").arg("limit", 5);
/// let call = call.terms(Terms::new().tenant("s-7"));
/// # let _ = call;
/// ```
#[derive(Clone, Debug)]
pub struct ToolCall {
    tool: Arc<str>,
    args: Args,
    terms: Terms,
}

impl ToolCall {
    /// A call of `tool` without arguments.
    pub fn new(tool: impl Into<Arc<str>>) -> ToolCall {
        ToolCall { tool: tool.into(), args: Args::new(), terms: Terms::default() }
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<Value>) -> ToolCall {
        self.args.insert(name.into(), value.into());
        self
    }

    /// Replaces all arguments.
    #[must_use]
    pub fn args(mut self, args: Args) -> ToolCall {
        self.args = args;
        self
    }

    /// Sets the terms: a tenant, a deadline.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> ToolCall {
        self.terms = terms;
        self
    }
}

impl Builder {
    /// Adds a tool called `name` to the partition called `partition`.
    #[must_use]
    pub fn tool(
        mut self,
        name: impl Into<Arc<str>>,
        partition: impl Into<String>,
        tool: Arc<dyn Tool>,
    ) -> Builder {
        self.tools.push(Entry { name: name.into(), partition: partition.into(), tool });
        self
    }
}

impl Runtime {
    /// Calls a tool and blocks until it has an outcome, as [`Partition::call`]. The result is
    /// decoded on this thread.
    pub fn call(&self, call: ToolCall) -> Outcome<Value> {
        self.submit(call).wait()
    }

    /// Offers a call of a tool and returns at once with a ticket. Never blocks. A call that cannot
    /// be made (no such tool, a wrong argument) has its outcome at once and takes no slot.
    pub fn submit(&self, call: ToolCall) -> Ticket<Value> {
        self.submit_as(call, None)
    }

    /// Fans out many calls from this thread; the iterator yields each outcome with the number of
    /// its call, in order of completion.
    pub fn turn(&self, calls: impl IntoIterator<Item = ToolCall>) -> Turn<Value> {
        let mut turn = Turn::new();
        for call in calls {
            turn.call(self, call);
        }
        turn
    }

    /// The names of all tools, in order.
    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.tools.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// The partition of a tool.
    pub fn partition_of(&self, tool: &str) -> Option<&Partition> {
        self.tools.get(tool).map(|(partition, _)| partition)
    }

    pub(super) fn add_tool(&mut self, entry: Entry) -> Result<(), SpecError> {
        let Entry { name, partition, tool } = entry;
        let Some(partition) = self.partition(&partition).cloned() else {
            let fault =
                ("partition", "must be one of the runtime's", "add it, or correct the name");
            return Err(spec_error(&partition, fault));
        };
        if self.tools.contains_key(&name) {
            let fault = ("tool", "must be given once", "rename one of the two tools");
            return Err(spec_error(&name, fault));
        }
        self.tools.insert(name, (partition, tool));
        Ok(())
    }

    fn submit_as(&self, call: ToolCall, completed: Option<Completed>) -> Ticket<Value> {
        let ToolCall { tool, args, terms } = call;
        let attempt = terms.attempt.max(1);
        let Some((partition, prepared)) = self.tools.get(&tool) else {
            let message = format!("there is no tool `{tool}`");
            let failure = Failure::new(FailureReason::UnknownTool, message);
            let error = CallError::Failed(failure.executed(Executed::No));
            return refuse(attempt, "".into(), tool, error, completed);
        };
        let operation = catch(|| prepared.prepare(&args).map_err(CallError::Failed));
        match operation.unwrap_or_else(|message| Err(CallError::Panicked { message })) {
            Ok(mut operation) => {
                let body = move |run: &Run| {
                    operation(run).map(|response| Late::Decode(Box::new(|| response.decode())))
                };
                partition.submit_as(Some(tool), terms, completed, body)
            }
            Err(error) => {
                refuse(attempt, Arc::clone(&partition.shared.name), tool, error, completed)
            }
        }
    }
}

fn refuse(
    attempt: u32,
    partition: Arc<str>,
    tool: Arc<str>,
    error: CallError,
    completed: Option<Completed>,
) -> Ticket<Value> {
    let outcome = Outcome {
        result: Err(error),
        partition,
        tool: Some(tool),
        attempt,
        timing: Timing::default(),
    };
    if let Some(completed) = completed {
        completed.tell();
    }
    Ticket::settled(outcome)
}

impl Turn<Value> {
    /// Offers a call of a tool; the number of the call in this turn, from 0. Never blocks.
    pub fn call(&mut self, runtime: &Runtime, call: ToolCall) -> usize {
        self.add(|completed| runtime.submit_as(call, Some(completed)))
    }
}
