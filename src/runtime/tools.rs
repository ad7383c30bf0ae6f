//! Configured tools: named, with JSON arguments and JSON results.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::cell::{Late, catch};
use super::family::{Family, Member, Route};
use super::partition::Partition;
use super::spec::SpecError;
use super::ticket::Ticket;
use super::turn::{Completed, Turn};
use super::{Builder, Runtime, spec_error};
use crate::call::{Run, Terms};
use crate::driver::{Args, Tool};
use crate::outcome::{CallError, Executed, Failure, FailureReason, Outcome};
use crate::resilience::retry::Policy;

/// Tools by name.
pub(super) type Tools = HashMap<Arc<str>, Listed>;

/// A tool of a runtime.
pub(super) struct Listed {
    route: Route,
    retry: Option<Policy>,
}

/// A tool on its way into a runtime.
pub(super) struct Entry {
    name: Arc<str>,
    home: Home,
}

/// Where a tool is to go, by the names of partitions.
enum Home {
    Partition(String, Arc<dyn Tool>),
    Family { name: Arc<str>, by: Arc<str>, members: Vec<(Arc<str>, String, Arc<dyn Tool>)> },
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

    /// Its arguments.
    pub fn arguments(&self) -> &Args {
        &self.args
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
        self.tools.push(Entry { name: name.into(), home: Home::Partition(partition.into(), tool) });
        self
    }

    /// Adds a tool whose calls go to one of several partitions: the one whose key is the value of
    /// the argument `by`, a string or a whole number. `members` are keys, names of partitions, and
    /// the tool as each partition's driver makes it, which is not given that argument. `family` is
    /// what outcomes call the whole if a call names no member.
    ///
    /// A shard that hangs then fills its own partition and leaves the others as they were.
    #[must_use]
    pub fn family_tool<K, P>(
        mut self,
        name: impl Into<Arc<str>>,
        family: impl Into<Arc<str>>,
        by: impl Into<Arc<str>>,
        members: impl IntoIterator<Item = (K, P, Arc<dyn Tool>)>,
    ) -> Builder
    where
        K: Into<Arc<str>>,
        P: Into<String>,
    {
        let members = members.into_iter();
        let members =
            members.map(|(key, partition, tool)| (key.into(), partition.into(), tool)).collect();
        let home = Home::Family { name: family.into(), by: by.into(), members };
        self.tools.push(Entry { name: name.into(), home });
        self
    }
}

impl Builder {
    /// Has calls of the tool called `tool` attempted again as `policy` says, within the budget of
    /// their partition. Defaults to one attempt. [`Partition::call_with_retry`] says what is safe.
    #[must_use]
    pub fn retry(mut self, tool: impl Into<Arc<str>>, policy: Policy) -> Builder {
        self.retries.push((tool.into(), policy));
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

    /// The partition that a call of `tool` with `args` goes to. None if there is no such tool, or
    /// its partitions are a family and `args` name none of them.
    pub fn partition_for(&self, tool: &str, args: &Args) -> Option<&Partition> {
        self.tools.get(tool)?.route.partition(args)
    }

    pub(super) fn add_tool(&mut self, entry: Entry) -> Result<(), SpecError> {
        let Entry { name, home } = entry;
        let route = match home {
            Home::Partition(partition, tool) => Route::Partition(self.member(&partition, tool)?),
            Home::Family { name, by, members } => {
                let mut family = Family { name, by, members: HashMap::new() };
                for (key, partition, tool) in members {
                    let member = self.member(&partition, tool)?;
                    if family.members.insert(key, member).is_some() {
                        return Err(spec_error(&partition, MEMBER_TWICE));
                    }
                }
                Route::Family(family)
            }
        };
        if self.tools.contains_key(&name) {
            let fault = ("tool", "must be given once", "rename one of the two tools");
            return Err(spec_error(&name, fault));
        }
        self.tools.insert(name, Listed { route, retry: None });
        Ok(())
    }

    pub(super) fn retry_tool(&mut self, name: &str, policy: Policy) -> Result<(), SpecError> {
        let fault =
            ("retry", "must be of a tool of the runtime", "add the tool, or correct the name");
        let tool = self.tools.get_mut(name).ok_or_else(|| spec_error(name, fault))?;
        policy
            .check()
            .map_err(|error| SpecError { table: Some("retry"), ..SpecError::new(name, error) })?;
        tool.retry = Some(policy);
        Ok(())
    }

    fn member(&self, partition: &str, tool: Arc<dyn Tool>) -> Result<Member, SpecError> {
        let fault = ("partition", "must be one of the runtime's", "add it, or correct the name");
        let known = self.partition(partition).cloned();
        let partition = known.ok_or_else(|| spec_error(partition, fault))?;
        Ok(Member { partition, tool })
    }

    fn submit_as(&self, call: ToolCall, completed: Option<Completed>) -> Ticket<Value> {
        let ToolCall { tool, args, terms } = call;
        let attempt = terms.attempt.max(1);
        let Some(Listed { route, retry }) = self.tools.get(&tool) else {
            let message = format!("there is no tool `{tool}`");
            let failure = Failure::new(FailureReason::UnknownTool, message);
            let error = CallError::Failed(failure.executed(Executed::No));
            return Ticket::refused(("".into(), Some(tool)), attempt, error, completed);
        };
        let (member, args) = match route.of(args) {
            Ok(member) => member,
            Err(failure) => {
                let (name, error) = (Arc::clone(route.name()), CallError::Failed(failure));
                return Ticket::refused((name, Some(tool)), attempt, error, completed);
            }
        };
        let Member { partition, tool: prepared } = member;
        let operation = catch(|| prepared.prepare(&args).map_err(CallError::Failed));
        match operation.unwrap_or_else(|message| Err(CallError::Panicked { message })) {
            Ok(mut operation) => {
                let body = move |run: &Run| {
                    operation(run).map(|response| Late::Decode(Box::new(|| response.decode())))
                };
                match retry {
                    Some(policy) => {
                        partition.submit_again(Some(tool), terms, completed, *policy, body)
                    }
                    None => partition.submit_as(Some(tool), terms, completed, body),
                }
            }
            Err(error) => {
                let name = Arc::clone(&partition.shared.name);
                Ticket::refused((name, Some(tool)), attempt, error, completed)
            }
        }
    }
}

const MEMBER_TWICE: (&str, &str, &str) =
    ("family", "must have each key once", "rename one of the two members");

impl Turn<Value> {
    /// Offers a call of a tool; the number of the call in this turn, from 0. Never blocks.
    pub fn call(&mut self, runtime: &Runtime, call: ToolCall) -> usize {
        self.add(|completed| runtime.submit_as(call, Some(completed)))
    }
}
