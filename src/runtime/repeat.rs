//! Calls that may be attempted again, as their users make them.

use std::sync::Arc;

use super::body::Repeatable;
use super::cell::Late;
use super::partition::Partition;
use super::ticket::Ticket;
use super::turn::{Completed, Turn};
use crate::call::{Run, Terms};
use crate::outcome::{CallError, Executed, Failure, FailureReason, Outcome};
use crate::resilience::retry::Policy;

impl Partition {
    /// Runs `body` in a slot of this partition and blocks until it has an outcome, as
    /// [`Partition::call_with`]; an attempt that ends badly is made again as `policy` says, within the
    /// partition's [budget](super::PartitionSpec::retry_budget). A back-off holds no slot.
    ///
    /// What may have been executed is attempted again only if the policy says
    /// [`idempotent`](Policy::idempotent), or the body has asked for [`Run::idempotency_key`]. An
    /// attempt that does not end at its limit is never made again, since it may still be at work.
    /// A policy with a value that is not allowed is `failed`.
    ///
    /// ```
    /// use watertight::call::Terms;
    /// use watertight::outcome::{Failure, FailureReason};
    /// use watertight::resilience::retry::Policy;
    /// use watertight::{PartitionSpec, Runtime};
    ///
    /// let runtime = Runtime::builder().partition(PartitionSpec::new("search").slots(2)).build()?;
    /// let search = runtime.partition("search").expect("it was just built");
    /// let policy = Policy { idempotent: true, ..Policy::default() };
    /// let outcome = search.call_with_retry(Terms::new(), policy, |run| match run.attempt() {
    ///     1 => Err(Failure::new(FailureReason::Connect, "not there yet")),
    ///     _ => Ok("found"),
    /// });
    /// assert_eq!(outcome.attempt, 2);
    /// assert_eq!(outcome.ok(), Some("found"));
    /// # Ok::<(), watertight::SpecError>(())
    /// ```
    pub fn call_with_retry<T, F>(&self, terms: Terms, policy: Policy, body: F) -> Outcome<T>
    where
        T: Send + 'static,
        F: FnMut(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.submit_with_retry(terms, policy, body).wait()
    }

    /// Offers `body` and returns at once with a ticket for its outcome, which is the last attempt's.
    /// Never blocks. See [`Partition::call_with_retry`].
    pub fn submit_with_retry<T, F>(&self, terms: Terms, policy: Policy, mut body: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.submit_again(None, terms, None, policy, move |run| body(run).map(Late::Now))
    }

    pub(super) fn submit_again<T, F>(
        &self,
        tool: Option<Arc<str>>,
        terms: Terms,
        completed: Option<Completed>,
        policy: Policy,
        body: F,
    ) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Run) -> Result<Late<T>, Failure> + Send + 'static,
    {
        if let Err(error) = policy.check() {
            let failure = Failure::new(FailureReason::InvalidCall, format!("retry.{error}"));
            let error = CallError::Failed(failure.executed(Executed::No));
            let partition = Arc::clone(&self.shared.name);
            return Ticket::refused((partition, tool), terms.attempt.max(1), error, completed);
        }
        self.submit_body(tool, terms, completed, Some(policy), Repeatable(body))
    }
}

impl<T: Send + 'static> Turn<T> {
    /// Offers `body` to `partition` as [`Partition::submit_with_retry`]; the number of the call in
    /// this turn, from 0. Never blocks; a back-off holds up no other outcome.
    pub fn submit_with_retry<F>(
        &mut self,
        partition: &Partition,
        terms: Terms,
        policy: Policy,
        mut body: F,
    ) -> usize
    where
        F: FnMut(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.add(|completed| {
            let body = move |run: &Run| body(run).map(Late::Now);
            partition.submit_again(None, terms, Some(completed), policy, body)
        })
    }
}
