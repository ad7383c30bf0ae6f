//! The handle of a submitted call.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "json")]
use super::cell::catch;
use super::cell::{Late, Pending};
use super::gate::Gate;
use super::partition::Shared;
use super::turn::Completed;
use crate::outcome::{CallError, Outcome, Timing};
use crate::time::{Clock, Time};

/// A call under way. Dropping the ticket cancels the call; [`Ticket::detach`] lets it go on.
///
/// ```
/// use std::time::Duration;
/// use watertight::{PartitionSpec, Runtime};
///
/// let runtime = Runtime::builder().partition(PartitionSpec::new("sums").slots(1)).build()?;
/// let sums = runtime.partition("sums").expect("it was just built");
/// let ticket = sums.submit(|_run| Ok(2 + 2));
/// assert_eq!(ticket.wait().ok(), Some(4));
/// # Ok::<(), watertight::SpecError>(())
/// ```
#[must_use = "dropping the ticket cancels the call"]
pub struct Ticket<T>(State<T>);

enum State<T> {
    /// Answered without ever being offered.
    Settled(Box<Outcome<T>>),
    Live(Live<T>),
    Over,
}

struct Live<T> {
    shared: Arc<Shared>,
    cell: Arc<dyn Pending<T>>,
    backstop: Backstop,
}

impl<T: 'static> Ticket<T> {
    pub(super) fn new(
        shared: Arc<Shared>,
        cell: Arc<dyn Pending<T>>,
        backstop: Backstop,
    ) -> Ticket<T> {
        Ticket(State::Live(Live { shared, cell, backstop }))
    }

    /// The ticket of a call that cannot be made.
    pub(super) fn refused(
        place: (Arc<str>, Option<Arc<str>>),
        attempt: u32,
        error: CallError,
        completed: Option<Completed>,
    ) -> Ticket<T> {
        if let Some(completed) = completed {
            completed.tell();
        }
        let outcome = Outcome::of_error(error, place, attempt, Timing::default());
        Ticket(State::Settled(Box::new(outcome)))
    }

    /// Blocks until the call has an outcome: at most for `max_wait` + `run_limit` +
    /// `cancel_grace` of its partition, or until its deadline; a call that is retried, for as much
    /// for each attempt and for its back-offs. What is left to decode is decoded on this thread.
    pub fn wait(mut self) -> Outcome<T> {
        loop {
            if let Some(outcome) = self.wait_step(None) {
                return outcome;
            }
        }
    }

    /// Blocks like [`Ticket::wait`], but at most for `limit`.
    ///
    /// # Errors
    ///
    /// The ticket itself, if there is no outcome by then.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<Outcome<T>, Ticket<T>> {
        let until = crate::time::instant_in(limit);
        loop {
            if let Some(outcome) = self.wait_step(until) {
                return Ok(outcome);
            }
            if until.is_some_and(crate::time::is_past) {
                return Err(self);
            }
        }
    }

    /// Whether the outcome is there, so that [`Ticket::wait`] would not block. Never blocks.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            State::Live(live) => live.cell.is_ready(),
            State::Settled(_) | State::Over => true,
        }
    }

    /// Calls it off: a waiting call never runs, and a running one is told to end. The outcome is
    /// `cancelled` at once, unless there is one already; the slot is free when the body returns.
    /// Never blocks.
    pub fn cancel(&self) {
        if let State::Live(live) = &self.0 {
            live.cancel();
        }
    }

    /// Lets the call go on with nobody to wait for it; its result is dropped in its slot, or in
    /// here if it is there already. Never blocks.
    pub fn detach(mut self) {
        if let State::Live(live) = std::mem::replace(&mut self.0, State::Over) {
            live.cell.detach();
        }
    }

    /// Waits for the outcome up to `until` or the next backstop, whichever comes first.
    fn wait_step(&mut self, until: Option<Instant>) -> Option<Outcome<T>> {
        match &mut self.0 {
            State::Live(live) => {
                let outcome = live.wait(until)?;
                self.0 = State::Over;
                Some(decode(outcome))
            }
            State::Settled(_) | State::Over => match std::mem::replace(&mut self.0, State::Over) {
                State::Settled(outcome) => Some(*outcome),
                _ => None,
            },
        }
    }

    /// The outcome, if it is there.
    pub(super) fn take(&mut self) -> Option<Outcome<T>> {
        if self.is_finished() { self.wait_step(None) } else { None }
    }

    /// When to look after the call if nobody has answered by then.
    pub(super) fn backstop(&mut self) -> Option<Instant> {
        match &mut self.0 {
            State::Live(live) => live.backstop.peek(live.shared.gate.clock()),
            State::Settled(_) | State::Over => None,
        }
    }

    /// Looks after the call if its backstop is past.
    pub(super) fn look_after(&mut self) {
        if let State::Live(live) = &mut self.0 {
            let due = live.backstop.peek(live.shared.gate.clock());
            if due.is_some_and(crate::time::is_past) {
                live.backstop.go_on(live.shared.gate.clock());
                live.poke();
            }
        }
    }
}

impl<T> Live<T> {
    fn wait(&mut self, until: Option<Instant>) -> Option<Outcome<Late<T>>> {
        let backstop = self.backstop.peek(self.shared.gate.clock());
        let first = [until, backstop].into_iter().flatten().min();
        if !self.cell.wait(first) {
            if backstop.is_some_and(crate::time::is_past) {
                self.backstop.go_on(self.shared.gate.clock());
                self.poke();
            }
            return None;
        }
        self.cell.take()
    }

    fn cancel(&self) {
        self.shared.step(|gate, actions| gate.cancel(&*self.cell, actions));
    }

    /// Does what the timekeeper does, should it be late.
    fn poke(&self) {
        self.shared.step(Gate::poke);
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let State::Live(live) = &self.0 {
            if !live.cell.is_ready() {
                live.cancel();
            }
            live.cell.forget();
        }
    }
}

/// Decodes on this thread what the driver left to decode.
fn decode<T>(outcome: Outcome<Late<T>>) -> Outcome<T> {
    outcome.with(|result| match result? {
        Late::Now(value) => Ok(value),
        #[cfg(feature = "json")]
        Late::Decode(decode) => match catch(decode) {
            Ok(decoded) => decoded.map_err(CallError::Failed),
            Err(message) => Err(CallError::Panicked { message }),
        },
    })
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finished = match &self.0 {
            State::Live(live) => live.cell.is_ready(),
            State::Settled(_) | State::Over => true,
        };
        f.debug_struct("Ticket").field("finished", &finished).finish_non_exhaustive()
    }
}

/// When a caller looks for itself whether its call is due: a little after the timekeeper should
/// have answered. It never has to on a manual clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backstop {
    dues: [Time; 3],
    step: usize,
    /// The next one after these.
    later: Time,
}

/// How long the timekeeper is given.
const SLACK: Duration = Duration::from_millis(1);
/// How often to look after all dues are past.
const AGAIN: Duration = Duration::from_millis(100);

impl Backstop {
    pub(super) fn new(wait_until: Time, deadline: Time, run_for: Duration) -> Backstop {
        let latest_end = wait_until + run_for;
        let dues = [wait_until.min(deadline), latest_end.min(deadline), latest_end];
        Backstop { dues, step: 0, later: latest_end + AGAIN }
    }

    /// The present one.
    fn peek(&self, clock: &Clock) -> Option<Instant> {
        clock.instant(self.due() + SLACK)
    }

    fn due(&self) -> Time {
        self.dues.get(self.step).copied().unwrap_or(self.later)
    }

    /// Goes on to the next. Who comes late does not make up for those that were missed.
    fn go_on(&mut self, clock: &Clock) {
        self.step += 1;
        if self.step >= self.dues.len() {
            self.later = self.later.max(clock.now() + AGAIN);
        }
    }

    /// The present one, and goes on to the next.
    pub(super) fn next(&mut self, clock: &Clock) -> Option<Instant> {
        let due = self.peek(clock);
        self.go_on(clock);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_looks_once_for_all_that_was_missed() {
        let (clock, hand) = Clock::manual();
        let mut backstop = Backstop::new(Time::ZERO, Time::ZERO, Duration::ZERO);
        hand.advance(Duration::from_secs(600));
        for _ in 0..3 {
            backstop.go_on(&clock);
        }
        assert_eq!(backstop.due(), clock.now() + AGAIN, "after the three dues");
        backstop.go_on(&clock);
        assert_eq!(backstop.due(), clock.now() + AGAIN, "and not by more and more");
    }
}
