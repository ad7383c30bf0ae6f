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

/// What is to be done once the gate is left, in order: nothing of the user's runs under its lock.
#[derive(Default)]
pub(crate) struct Actions {
    /// The first start; nearly always the only one, and then nothing is allocated.
    pub(super) first: Option<Job>,
    pub(super) jobs: Vec<Job>,
    pub(super) grants: Vec<(Arc<Waiter>, Granted)>,
    pub(super) answers: Vec<Answer>,
    /// Calls whose work is called off.
    pub(super) cancels: Vec<Arc<dyn Call>>,
    /// Calls whose work is ended by force.
    pub(super) aborts: Vec<Arc<dyn Call>>,
}

impl Actions {
    pub(super) fn start(&mut self, job: Job) {
        if self.first.is_none() {
            self.first = Some(job);
        } else {
            self.jobs.push(job);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
            && self.jobs.is_empty()
            && self.grants.is_empty()
            && self.answers.is_empty()
            && self.cancels.is_empty()
            && self.aborts.is_empty()
    }

    /// Answers, grants and calls off; the starts are `start`'s, what may block or is the user's
    /// is `ender`'s. Nothing in here blocks.
    pub(crate) fn act(self, start: impl Fn(Job), ender: impl Fn(Errand)) {
        for answer in self.answers {
            // With no ticket left, the body is dropped where it may block.
            if answer.call.answer(answer.error, answer.timing) {
                ender(Errand::Discard(answer.call));
            }
        }
        for (waiter, granted) in self.grants {
            waiter.grant(granted);
        }
        for job in self.first.into_iter().chain(self.jobs) {
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
