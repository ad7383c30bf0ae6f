//! One call's cell: its body on the way in, its outcome on the way out.
//!
//! Who answers is decided under the gate, once; the cell only carries the answer. A worker stores
//! its result *before* it frees the slot and publishes it *after*, so that a caller who has its
//! answer never meets its own stale slot, and a result that nobody wants is dropped while its slot
//! is still held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::actions::Job;
use super::body::Body;
use super::lineage::PartitionId;
use super::retry::Again;
use super::sync::{AtomicBool, AtomicU8, AtomicU32, Condvar, Mutex};
use super::turn::Completed;
use crate::admission::WaiterId;
use crate::call::{CancelToken, Run};
use crate::outcome::{
    CallError, CancelledBy, EarlierAttempt, Executed, Failure, FailureReason, Outcome, ThrottledBy,
    TimeoutClock, Timing,
};
use crate::resilience::retry::Attempt;
use crate::resilience::{RETRY_AFTER_MIN, breaker, throttle};
use crate::time::Time;

/// A result, or what is left to do on the caller's thread to have it.
pub(crate) enum Late<T> {
    Now(T),
    #[cfg(feature = "json")]
    Decode(Box<dyn FnOnce() -> Result<T, Failure> + Send>),
}

/// What gate, worker and timekeeper know of a call.
pub(crate) trait Call: Send + Sync {
    fn about(&self) -> &About;
    /// Runs the body and stores the result, or drops it if nobody wants it. Returns how it ended,
    /// with the error if there is no result. A pause that the backend asks for is as long as `pauses`
    /// lets it be.
    fn execute(&self, run: &Run, job: &Job, pauses: &throttle::Policy) -> Ended;
    /// Drops the body without running it again, and a result that was stored but not published.
    fn discard(&self);
    /// Makes the stored result visible.
    fn publish(&self);
    /// Answers without a result. Whether nobody holds a ticket who would drop the body.
    fn answer(&self, error: CallError, timing: Timing) -> bool;
}

/// What can be said of a call without knowing its types.
pub(crate) struct About {
    pub(crate) partition: Arc<str>,
    pub(crate) tool: Option<Arc<str>>,
    pub(crate) token: CancelToken,
    pub(crate) attempt: u32,
    pub(crate) given_key: Option<Arc<str>>,
    /// The key that a body has asked for.
    pub(crate) key: OnceLock<Arc<str>>,
    /// What it takes to attempt it again, if that is wanted.
    pub(crate) again: Option<Box<Again>>,
    /// How often it has been; written under the gate.
    pub(crate) retries: AtomicU32,
    pub(crate) lineage: Option<Arc<[PartitionId]>>,
    pub(crate) deadline: Time,
    /// Its slot, once it has one; read and written under the gate only.
    pub(crate) slot: AtomicU32,
    /// Its last place in the queue; the same.
    pub(crate) waiter: parking_lot::Mutex<Option<WaiterId>>,
    begun: AtomicU8,
}

/// No slot yet.
pub(crate) const NO_SLOT: u32 = u32::MAX;

const UNTOUCHED: u8 = 0;
const BEGUN: u8 = 1;
const REVOKED: u8 = 2;

/// How a run ended. A result is in the cell by then, an error is in here: it is the caller's only if
/// the call is not attempted again.
pub(crate) struct Ended {
    pub(crate) at: Time,
    pub(crate) said: Said,
    pub(crate) error: Option<Box<Unanswered>>,
}

/// What a run has brought instead of a result.
pub(crate) struct Unanswered {
    pub(crate) error: CallError,
    pub(crate) timing: Timing,
}

/// What an end says about the backend, for the door.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    /// Nothing, if `None`.
    pub(crate) backend: Option<breaker::Ended>,
    /// How long it asked to be left alone.
    pub(crate) pause: Option<Duration>,
}

impl Said {
    pub(crate) fn of(error: Option<&CallError>) -> Said {
        let Some(error) = error else {
            return Said { backend: Some(breaker::Ended::Ok), pause: None };
        };
        let pause = match error {
            CallError::Throttled { by: ThrottledBy::Backend, retry_after, .. } => {
                Some(*retry_after)
            }
            _ => None,
        };
        Said { backend: breaker::Ended::of_error(error), pause }
    }

    /// And that it wants this pause, if the other one is not longer.
    fn and(self, pause: Option<Duration>) -> Said {
        Said { pause: self.pause.max(pause), ..self }
    }
}

impl About {
    pub(crate) fn new(partition: Arc<str>, deadline: Time) -> About {
        About {
            partition,
            tool: None,
            token: CancelToken::new(),
            attempt: 1,
            given_key: None,
            key: OnceLock::new(),
            again: None,
            retries: AtomicU32::new(0),
            lineage: None,
            deadline,
            slot: AtomicU32::new(NO_SLOT),
            waiter: parking_lot::Mutex::new(None),
            begun: AtomicU8::new(UNTOUCHED),
        }
    }

    /// A worker takes the call up; `false`: it was called off first, and must not run.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        self.touch(BEGUN)
    }

    /// Calls it off; whether it has certainly not begun and never will.
    pub(crate) fn revoke(&self) -> bool {
        self.touch(REVOKED) || self.begun.load(Ordering::Acquire) == REVOKED
    }

    /// Its attempt is over, and it will be attempted again.
    pub(crate) fn rest(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        self.begun.store(UNTOUCHED, Ordering::Release);
    }

    /// The present attempt, which has ended in `error`.
    pub(crate) fn ended_in<'e>(&self, error: &'e CallError) -> Attempt<'e> {
        let number = self.retries.load(Ordering::Relaxed) + 1;
        Attempt { repeatable: self.key.get().is_some(), ..Attempt::new(number, error) }
    }

    /// Which attempt the present one is, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt.saturating_add(self.retries.load(Ordering::Relaxed))
    }

    fn touch(&self, to: u8) -> bool {
        self.begun.compare_exchange(UNTOUCHED, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The cell of a call with result `T` and body `B`.
pub(crate) struct Cell<T, B> {
    about: About,
    body: parking_lot::Mutex<Option<B>>,
    reply: Mutex<Reply<T>>,
    signal: Signal,
    changed: Condvar,
    /// Told when the outcome is there.
    completed: Option<Completed>,
}

/// Whether the outcome is there, and whether somebody is parked for it. A publisher sets the one
/// and then looks at the other, a caller the other way round, so that at least one of them sees
/// the other; the lock is taken for those who are parked only. On a line of its own: the caller
/// looks at it again and again while the worker writes to the rest of the cell.
#[derive(Default)]
struct Signal {
    ready: AtomicBool,
    parked: AtomicBool,
}

struct Reply<T> {
    /// The worker's result; visible once `ready`, unless there is an answer.
    stored: Option<Outcome<Late<T>>>,
    answer: Option<Outcome<Late<T>>>,
    /// Nobody will ever ask.
    gone: bool,
}

impl<T, B> Cell<T, B> {
    pub(crate) fn new(about: About, body: B, completed: Option<Completed>) -> Self {
        Cell {
            about,
            body: parking_lot::Mutex::new(Some(body)),
            reply: Mutex::new(Reply { stored: None, answer: None, gone: false }),
            signal: Signal::default(),
            changed: Condvar::default(),
            completed,
        }
    }

    /// Stores the worker's result; gives it back if nobody wants it.
    fn store(&self, outcome: Outcome<Late<T>>) -> Option<Outcome<Late<T>>> {
        let mut reply = self.reply.lock();
        if reply.gone || reply.answer.is_some() {
            return Some(outcome);
        }
        reply.stored = Some(outcome);
        None
    }

    /// Nobody will ask again. A call that `goes_on` keeps its body, unless it is over.
    fn leave(&self, goes_on: bool) {
        let mut reply = self.reply.lock();
        reply.gone = true;
        let left = (reply.stored.take(), reply.answer.take());
        let keeps_body = goes_on && !self.signal.ready.load(Ordering::Acquire);
        drop(reply);
        let body = if keeps_body { None } else { self.body.lock().take() };
        let _ = catch(|| drop(left));
        let _ = catch(|| drop(body));
    }

    fn tell(&self) {
        if let Some(completed) = &self.completed {
            completed.tell();
        }
    }
}

impl<T, B> Call for Cell<T, B>
where
    T: Send,
    B: Body<Late<T>>,
{
    fn about(&self) -> &About {
        &self.about
    }

    fn execute(&self, run: &Run, job: &Job, pauses: &throttle::Policy) -> Ended {
        let (_, clock) = job.limit();
        let mut body = self.body.lock().take();
        let ended = catch(|| body.as_mut().and_then(|body| body.run(run)));
        let at = run.clock.now();
        let quota = pauses.quota(0, run.used_up_for(at));
        let timing = Timing { waited: job.waited, ran: at - job.started };
        let error = match ended {
            Ok(Some(Ok(value))) => {
                let unwanted = self.store(self.about.outcome(Ok(value), timing));
                let _ = catch(|| drop((unwanted, body)));
                return Ended { at, said: Said::of(None).and(quota), error: None };
            }
            Ok(Some(Err(failure))) => failure.into_error(clock, pauses),
            Ok(None) => CallError::Panicked { message: String::new() },
            Err(message) => CallError::Panicked { message },
        };
        let said = Said::of(Some(&error)).and(quota);
        run.key.get().inspect(|key| drop(self.about.key.set(Arc::clone(key))));
        match &self.about.again {
            Some(again) if again.may_follow(&self.about.ended_in(&error)) => {
                *self.body.lock() = body;
            }
            _ => drop(catch(|| drop(body))),
        }
        Ended { at, said, error: Some(Box::new(Unanswered { error, timing })) }
    }

    fn discard(&self) {
        let body = self.body.lock().take();
        let stored = self.reply.lock().stored.take();
        let _ = catch(|| drop(body));
        let _ = catch(|| drop(stored));
    }

    fn publish(&self) {
        self.signal.ready.store(true, Ordering::SeqCst);
        if self.signal.parked.load(Ordering::SeqCst) {
            let _reply = self.reply.lock();
            self.changed.notify_all();
        }
        self.tell();
    }

    fn answer(&self, error: CallError, timing: Timing) -> bool {
        let mut reply = self.reply.lock();
        if reply.answer.is_none() {
            reply.answer = Some(self.about.outcome(Err(error), timing));
            self.signal.ready.store(true, Ordering::SeqCst);
            self.changed.notify_all();
            self.tell();
        }
        reply.gone
    }
}

impl About {
    /// The attempts before the present one. What it takes to have any is another thread's memory,
    /// and left alone as long as there are none.
    fn earlier(&self) -> Vec<EarlierAttempt> {
        match &self.again {
            Some(again) if self.retries.load(Ordering::Relaxed) > 0 => again.earlier(),
            _ => Vec::new(),
        }
    }

    fn outcome<T>(&self, result: Result<T, CallError>, timing: Timing) -> Outcome<T> {
        Outcome {
            result,
            partition: Arc::clone(&self.partition),
            tool: self.tool.clone(),
            attempt: self.attempt(),
            timing,
            earlier: self.earlier(),
        }
    }
}

/// What a ticket knows of a call.
pub(crate) trait Pending<T>: Call {
    fn is_ready(&self) -> bool;
    /// Blocks until the outcome is there or `until` is past; whether it is there.
    fn wait(&self, until: Option<Instant>) -> bool;
    /// Takes the outcome, and drops on this thread what else is left of the call.
    fn take(&self) -> Option<Outcome<Late<T>>>;
    /// Nobody will ask again: drops on this thread what is left of the call.
    fn forget(&self);
    /// The same of a call that goes on: its body stays until it has run.
    fn detach(&self);
}

impl<T, B> Pending<T> for Cell<T, B>
where
    T: Send,
    B: Body<Late<T>>,
{
    #[inline]
    fn is_ready(&self) -> bool {
        self.signal.ready.load(Ordering::SeqCst)
    }

    fn wait(&self, until: Option<Instant>) -> bool {
        if spin(|| self.is_ready()) {
            return true;
        }
        let mut reply = self.reply.lock();
        self.signal.parked.store(true, Ordering::SeqCst);
        while !self.is_ready() {
            if until.is_some_and(crate::time::is_past) {
                return false;
            }
            reply = self.changed.wait(reply, until);
        }
        true
    }

    fn take(&self) -> Option<Outcome<Late<T>>> {
        if !self.is_ready() {
            return None;
        }
        let mut reply = self.reply.lock();
        reply.gone = true;
        let (answer, stored) = (reply.answer.take(), reply.stored.take());
        drop(reply);
        let body = self.body.lock().take();
        let _ = catch(|| drop(body));
        if answer.is_some() {
            let _ = catch(|| drop(stored));
            return answer;
        }
        stored
    }

    fn forget(&self) {
        self.leave(false);
    }

    fn detach(&self) {
        self.leave(true);
    }
}

impl Failure {
    /// The error a caller sees; `clock` is the limit that ended the work, if one did, and `pauses`
    /// bounds the pause that the backend asks for.
    pub(crate) fn into_error(self, clock: TimeoutClock, pauses: &throttle::Policy) -> CallError {
        let Failure { executed, evidence, .. } = self;
        // Work that was begun and did not end may have been done or not.
        let cut_short = match executed {
            Executed::No => Executed::No,
            Executed::Yes | Executed::Unknown => Executed::Unknown,
        };
        match self.reason {
            FailureReason::Limit => CallError::Timeout { clock, executed: cut_short, evidence },
            FailureReason::Cancelled => {
                CallError::Cancelled { by: CancelledBy::Caller, executed: cut_short, evidence }
            }
            FailureReason::Throttled => {
                let retry_after = pauses.pause(self.retry_after).max(RETRY_AFTER_MIN);
                CallError::Throttled { by: ThrottledBy::Backend, executed, retry_after }
            }
            _ => CallError::Failed(Failure { evidence, ..self }),
        }
    }
}

/// Runs `f`; a panic becomes its message. Whatever the panic carried is dropped in here, too.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        message.unwrap_or_default()
    })
}

/// Looks for a while before the caller parks: a hot hand-off is over sooner than a wake-up takes.
/// The steps are even, and short: a longer one would be overslept by half of it on average.
fn spin(done: impl Fn() -> bool) -> bool {
    const LOOKS: u32 = 64;
    const PAUSES: u32 = 4;
    const YIELDS: u32 = 16;
    for round in 0..LOOKS + YIELDS {
        if done() {
            return true;
        }
        if cfg!(watertight_model) {
            return false;
        }
        if round < LOOKS {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        } else {
            std::thread::yield_now();
        }
    }
    done()
}
