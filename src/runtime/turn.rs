//! Many calls from one thread, their outcomes in order of completion.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    tickets: BTreeMap<usize, Ticket<T>>,
    submitted: usize,
}

impl<T: Send + 'static> Turn<T> {
    /// A turn without calls.
    pub fn new() -> Turn<T> {
        Turn { completions: Arc::default(), tickets: BTreeMap::new(), submitted: 0 }
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
        let index = self.submitted;
        let completed = Completed { completions: Arc::clone(&self.completions), index };
        self.tickets.insert(index, submit(completed));
        self.submitted += 1;
        index
    }

    /// How many calls have no outcome yet that was handed out.
    pub fn remaining(&self) -> usize {
        self.tickets.len()
    }

    /// Calls off the call numbered `index`, as [`Ticket::cancel`]. Never blocks.
    pub fn cancel(&self, index: usize) {
        if let Some(ticket) = self.tickets.get(&index) {
            ticket.cancel();
        }
    }

    /// The next outcome, as the iterator yields it. Blocks for it at most for `limit` and until a
    /// [`Waker`] of this turn is used, also while the turn has no calls.
    pub fn next_within(&mut self, limit: Duration) -> Option<(usize, Outcome<T>)> {
        let until = crate::time::instant_in(limit);
        loop {
            let index = self.next_completed(Wait::Until(until))?;
            if let Some(outcome) = self.take(index) {
                return Some((index, outcome));
            }
        }
    }

    /// What other threads wake [`Turn::next_within`] with, to tell of something else to do.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.completions))
    }

    fn take(&mut self, index: usize) -> Option<Outcome<T>> {
        let outcome = self.tickets.get_mut(&index)?.take()?;
        self.tickets.remove(&index);
        Some(outcome)
    }

    /// Blocks until some call has completed, looking after those that are overdue meanwhile. `None`
    /// if `wait` ends first.
    fn next_completed(&mut self, wait: Wait) -> Option<usize> {
        loop {
            if let Some(index) = self.completions.pop() {
                return Some(index);
            }
            let backstops = self.tickets.values_mut().filter_map(Ticket::backstop);
            let until = backstops.chain(wait.limit()).min();
            let (completed, woken) = self.completions.wait(until, wait);
            if completed.is_some() || woken || wait.limit().is_some_and(crate::time::is_past) {
                return completed;
            }
            self.tickets.values_mut().for_each(Ticket::look_after);
        }
    }
}

/// How long to wait for a completion.
#[derive(Clone, Copy)]
enum Wait {
    /// For as long as it takes.
    Forever,
    /// Up to a time, if it can be told, and until woken.
    Until(Option<Instant>),
}

impl Wait {
    fn limit(self) -> Option<Instant> {
        match self {
            Wait::Forever => None,
            Wait::Until(until) => until,
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
        while !self.tickets.is_empty() {
            let index = self.next_completed(Wait::Forever)?;
            if let Some(outcome) = self.take(index) {
                return Some((index, outcome));
            }
        }
        None
    }
}

impl<T> fmt::Debug for Turn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("remaining", &self.tickets.len()).finish_non_exhaustive()
    }
}

/// Ends the wait of a [`Turn::next_within`], now or the next one. Clones wake the same turn.
///
/// ```
/// use std::time::Duration;
/// use watertight::Turn;
///
/// let mut turn = Turn::<()>::new();
/// let waker = turn.waker();
/// std::thread::spawn(move || waker.wake());
/// assert!(turn.next_within(Duration::MAX).is_none(), "it returns all the same");
/// ```
#[derive(Clone)]
pub struct Waker(Arc<Completions>);

impl Waker {
    /// Wakes. Never blocks; several calls before the turn looks count as one.
    pub fn wake(&self) {
        self.0.state.lock().woken = true;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// The calls of a turn that have completed, in that order; each is in here at most once.
#[derive(Default)]
pub(crate) struct Completions {
    state: Mutex<CompletionState>,
    changed: Condvar,
}

#[derive(Default)]
struct CompletionState {
    done: VecDeque<usize>,
    woken: bool,
}

impl Completions {
    /// The next one, if it is there.
    fn pop(&self) -> Option<usize> {
        self.state.lock().done.pop_front()
    }

    /// The next one, if there is one by `until`; and whether it was woken, if `wait` heeds that.
    fn wait(&self, until: Option<Instant>, wait: Wait) -> (Option<usize>, bool) {
        let heeds = matches!(wait, Wait::Until(_));
        let mut state = self.state.lock();
        loop {
            if heeds && std::mem::take(&mut state.woken) {
                return (state.done.pop_front(), true);
            }
            if !state.done.is_empty() || until.is_some_and(crate::time::is_past) {
                return (state.done.pop_front(), false);
            }
            state = self.changed.wait(state, until);
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
        self.completions.state.lock().done.push_back(self.index);
        self.completions.changed.notify_all();
    }
}
