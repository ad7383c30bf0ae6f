//! What a critical section decided, done after the gate is left.

use std::sync::Arc;
use std::time::Duration;

use super::cell::Call;
use super::permit::{Granted, Waiter};
use crate::admission::SlotId;
use crate::outcome::{CallError, TimeoutClock, Timing};
use crate::time::Time;

/// A started call, for a worker.
pub(crate) struct Job {
    pub(crate) call: Arc<dyn Call>,
    pub(crate) slot: SlotId,
    pub(crate) waited: Duration,
    pub(crate) started: Time,
    /// When the run limit ends it.
    pub(crate) limit_at: Time,
}

impl Job {
    /// The limit that ends the run first, and when.
    pub(crate) fn limit(&self) -> (Time, TimeoutClock) {
        let deadline = self.call.about().deadline;
        if deadline < self.limit_at {
            (deadline, TimeoutClock::Deadline)
        } else {
            (self.limit_at, TimeoutClock::Run)
        }
    }
}

/// An answer to a call that its worker does not give.
pub(crate) struct Answer {
    pub(crate) call: Arc<dyn Call>,
    pub(crate) error: CallError,
    pub(crate) timing: Timing,
}

/// What is to be done once the gate is left: nothing of the user's runs under its lock.
#[derive(Default)]
pub(crate) struct Actions {
    /// The first start; most sections decide nothing else, and then nothing is allocated.
    first: Option<Job>,
    rest: Option<Box<Rest>>,
}

#[derive(Default)]
struct Rest {
    jobs: Vec<Job>,
    grants: Vec<(Arc<Waiter>, Granted)>,
    answers: Vec<Answer>,
    cancels: Vec<Arc<dyn Call>>,
    aborts: Vec<Arc<dyn Call>>,
    /// Partitions that are owed a slot of the reserve, by number.
    lent: Vec<usize>,
}

impl Actions {
    /// A worker is to run a call.
    pub(super) fn start(&mut self, job: Job) {
        if self.first.is_none() {
            self.first = Some(job);
        } else {
            self.rest().jobs.push(job);
        }
    }

    /// A thread that waits for a permit is to be told.
    pub(super) fn grant(&mut self, waiter: Arc<Waiter>, granted: Granted) {
        self.rest().grants.push((waiter, granted));
    }

    /// A call is to be answered.
    pub(super) fn answer(&mut self, answer: Answer) {
        self.rest().answers.push(answer);
    }

    /// The work of a call is to be called off.
    pub(super) fn cancel(&mut self, call: Arc<dyn Call>) {
        self.rest().cancels.push(call);
    }

    /// The work of a call is to be ended by force.
    pub(super) fn abort(&mut self, call: Arc<dyn Call>) {
        self.rest().aborts.push(call);
    }

    /// A partition is owed the slot of the reserve that was given back.
    pub(super) fn lend(&mut self, to: usize) {
        self.rest().lent.push(to);
    }

    /// Those that are owed one.
    pub(super) fn take_lent(&mut self) -> Vec<usize> {
        self.rest.as_mut().map(|rest| std::mem::take(&mut rest.lent)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Answers, grants, calls off; the starts are `start`'s, what may block or is the user's is
    /// `ender`'s. Nothing in here blocks.
    #[inline]
    pub(crate) fn act(self, start: impl Fn(Job), ender: impl Fn(Errand)) {
        if let Some(job) = self.first {
            start(job);
        }
        if let Some(rest) = self.rest {
            rest.act(start, ender);
        }
    }
}

impl Rest {
    fn act(self, start: impl Fn(Job), ender: impl Fn(Errand)) {
        for answer in self.answers {
            // With no ticket left, the body is dropped where it may block.
            if answer.call.answer(answer.error, answer.timing) {
                ender(Errand::Discard(answer.call));
            }
        }
        for (waiter, granted) in self.grants {
            waiter.grant(granted);
        }
        for job in self.jobs {
            start(job);
        }
        for call in self.cancels {
            call.about().token.trip();
            ender(Errand::Cancel(call));
        }
        for call in self.aborts {
            call.about().token.abort();
        }
    }
}

/// What may block, or drops something of the user's: for the ender.
pub(crate) enum Errand {
    /// Run the hooks of a cancelled token.
    Cancel(Arc<dyn Call>),
    /// Drop the body of a detached call that never ran.
    Discard(Arc<dyn Call>),
    /// The partition has ended.
    Exit,
}
