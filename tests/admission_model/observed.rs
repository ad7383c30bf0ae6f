//! What can be seen of one step, of the scheduler or of the model.

use std::time::Duration;

use watertight::admission::{Decision, Effects, Rejection, Started};
use watertight::outcome::{BusyReason, TimeoutClock};

/// A call that was given a slot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Start {
    pub(crate) call: u32,
    pub(crate) slot: u32,
    pub(crate) waited: Duration,
    pub(crate) borrowed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Start(Start),
    Wait,
    Reject(Rejection),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) answer: Option<Answer>,
    pub(crate) started: Vec<Start>,
    /// By call: the order of rejections of one step means nothing.
    pub(crate) rejected: Vec<(u32, Rejection, Duration)>,
    pub(crate) overdue: Vec<(u32, TimeoutClock)>,
    pub(crate) abort: Vec<u32>,
    pub(crate) returned: u32,
}

impl Observed {
    /// Brings what has no order into one.
    pub(crate) fn sorted(mut self) -> Observed {
        self.rejected.sort_by_key(|&(call, ..)| call);
        self.abort.sort_unstable();
        self
    }

    /// What the scheduler's step brought about.
    ///
    /// # Panics
    ///
    /// If a hint is where none belongs, is missing, or is less than a millisecond.
    pub(crate) fn of(effects: &Effects<u32>) -> Observed {
        let rejected = effects.rejected.iter().map(|rejected| {
            check_hint(rejected.rejection, rejected.retry_after);
            (rejected.payload, rejected.rejection, rejected.waited)
        });
        Observed {
            answer: None,
            started: effects.started.iter().map(start).collect(),
            rejected: rejected.collect(),
            overdue: effects.overdue.iter().map(|due| (due.slot.0, due.clock)).collect(),
            abort: effects.abort.iter().map(|slot| slot.0).collect(),
            returned: effects.returned,
        }
    }
}

/// The answer to an offer, without what only its caller needs.
pub(crate) fn answer(decision: &Decision<u32>) -> Answer {
    match decision {
        Decision::Start(started) => Answer::Start(start(started)),
        Decision::Wait(_) => Answer::Wait,
        Decision::Reject(rejected) => {
            check_hint(rejected.rejection, rejected.retry_after);
            Answer::Reject(rejected.rejection)
        }
    }
}

fn start(started: &Started<u32>) -> Start {
    Start {
        call: started.payload,
        slot: started.slot.0,
        waited: started.waited,
        borrowed: started.borrowed,
    }
}

fn check_hint(rejection: Rejection, hint: Option<Duration>) {
    let comes_back =
        matches!(rejection, Rejection::Busy(reason) if reason != BusyReason::Reentrant);
    assert_eq!(comes_back, hint.is_some(), "{rejection:?} with {hint:?}");
    assert!(hint.is_none_or(|hint| hint >= Duration::from_millis(1)));
}
