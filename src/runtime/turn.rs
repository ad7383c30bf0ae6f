//! Many calls from one thread, their outcomes in order of completion.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::partition::Partition;
use super::sync::{Condvar, Mutex};
use super::ticket::Ticket;
use crate::call::{Run, Terms};
use crate::outcome::{Failure, Outcome};

use super::cell::Late;

/// An agent's turn: calls fanned out from one thread. As an iterator it blocks for the next outcome
/// and says which call it belongs to. Dropping it cancels what has not ended.
///
/// ```
/// use watertight::call::Terms;
/// use watertight::{PartitionSpec, Runtime, Turn};
///
/// let runtime = Runtime::builder().partition(PartitionSpec::new("sums").slots(4)).build()?;
/// let sums = runtime.partition("sums").expect("it was just built");
/// let mut turn = Turn::new();
/// for n in 0..3 {
///     turn.submit(&sums, Terms::new(), move |_run| Ok(n * n));
/// }
/// let mut squares: Vec<_> = turn.map(|(_, outcome)| outcome.ok()).collect();
/// squares.sort();
/// assert_eq!(squares, [Some(0), Some(1), Some(4)]);
/// # Ok::<(), watertight::SpecError>(())
/// ```
pub struct Turn<T> {
    completions: Arc<Completions>,
    tickets: Vec<Option<Ticket<T>>>,
    left: usize,
}

impl<T: Send + 'static> Turn<T> {
    /// A turn without calls.
    pub fn new() -> Turn<T> {
        Turn {
            completions: Arc::default(),
            tickets: Vec::new(),
            left: 0,
        }
    }

    /// Offers `body` to `partition`; the number of the call in this turn, from 0. Never blocks.
    pub fn submit<F>(&mut self, partition: &Partition, terms: Terms, body: F) -> usize
    where
        F: FnOnce(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.add(|completed| {
            let body = move |run: &Run| body(run).map(Late::Now);
            partition.submit_as(None, terms, Some(completed), body)
        })
    }

    pub(super) fn add(&mut self, submit: impl FnOnce(Completed) -> Ticket<T>) -> usize {
        let index = self.tickets.len();
        let completed = Completed {
            completions: Arc::clone(&self.completions),
            index,
        };
        self.tickets.push(Some(submit(completed)));
        self.left += 1;
        index
    }

    /// How many calls have no outcome yet that was handed out.
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Calls off the call numbered `index`, as [`Ticket::cancel`]. Never blocks.
    pub fn cancel(&self, index: usize) {
        if let Some(Some(ticket)) = self.tickets.get(index) {
            ticket.cancel();
        }
    }

    /// Blocks until some call has completed, looking after those that are overdue meanwhile.
    fn next_completed(&mut self) -> usize {
        loop {
            let until = self
                .tickets
                .iter_mut()
                .flatten()
                .filter_map(Ticket::backstop)
                .min();
            if let Some(index) = self.completions.wait(until) {
                return index;
            }
            self.tickets
                .iter_mut()
                .flatten()
                .for_each(Ticket::look_after);
        }
    }
}

impl<T: Send + 'static> Default for Turn<T> {
    fn default() -> Turn<T> {
        Turn::new()
    }
}

impl<T: Send + 'static> Iterator for Turn<T> {
    type Item = (usize, Outcome<T>);

    fn next(&mut self) -> Option<(usize, Outcome<T>)> {
        while self.left > 0 {
            let index = self.next_completed();
            if let Some(outcome) = self.tickets[index].as_mut().and_then(Ticket::take) {
                self.tickets[index] = None;
                self.left -= 1;
                return Some((index, outcome));
            }
        }
        None
    }
}

impl<T> fmt::Debug for Turn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("remaining", &self.left)
            .finish_non_exhaustive()
    }
}

/// The calls of a turn that have completed, in that order; each is in here at most once.
#[derive(Default)]
pub(crate) struct Completions {
    done: Mutex<VecDeque<usize>>,
    changed: Condvar,
}

impl Completions {
    fn wait(&self, until: Option<std::time::Instant>) -> Option<usize> {
        let mut done = self.done.lock();
        loop {
            if !done.is_empty() || until.is_some_and(crate::time::is_past) {
                return done.pop_front();
            }
            done = self.changed.wait(done, until);
        }
    }
}

/// Tells a turn that one of its calls has completed.
pub(crate) struct Completed {
    completions: Arc<Completions>,
    index: usize,
}

impl Completed {
    pub(crate) fn tell(&self) {
        self.completions.done.lock().push_back(self.index);
        self.completions.changed.notify_all();
    }
}
