//! A partition as its users hold it: call, submit, permit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::actions::{Actions, Errand, Job};
#[cfg(feature = "tracing")]
use super::body::Spanned;
use super::body::{Body, Once};
use super::cell::{About, Call, Cell, Late, Pending};
use super::gate::Gate;
use super::lender::Membership;
use super::lineage::{self, PartitionId};
use super::permit::{Permit, Waiter};
use super::retry::{ASLEEP_MAX, Again};
use super::shutdown::Alive;
use super::spec::PartitionSpec;
use super::sync::{AtomicBool, Receiver, Sender, TrySendError, bounded};
use super::ticket::{Backstop, Ticket};
use super::turn::Completed;
use crate::admission::{Offer, PolicyError};
use crate::call::{Run, Tenant, Terms};
use crate::outcome::{CallError, Failure, Outcome, Timing};
use crate::resilience::retry::Policy;
use crate::time::{Clock, Time};

/// One dependency class behind its wall: its own threads, its own bounded admission. Clones are
/// the same partition.
///
/// ```
/// use watertight::{PartitionSpec, Runtime};
///
/// let runtime = Runtime::builder().partition(PartitionSpec::new("files").slots(2)).build()?;
/// let files = runtime.partition("files").expect("it was just built");
/// let outcome = files.call(|_run| Ok(std::fs::read_to_string("Cargo.toml")?.len()));
/// assert!(outcome.is_ok());
/// # Ok::<(), watertight::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Partition {
    pub(super) shared: Arc<Shared>,
}

/// What a partition's handles, tickets and threads share.
pub(crate) struct Shared {
    pub(super) id: PartitionId,
    pub(super) name: Arc<str>,
    pub(super) gate: Gate,
    pub(super) spec: PartitionSpec,
    work: Sender<Work>,
    /// The other end as well, for what is sent when no worker may be left.
    work_back: Receiver<Work>,
    /// Whether workers leave once there is nothing to do.
    pub(super) over: AtomicBool,
    errands: Sender<Errand>,
    pub(super) alive: Arc<Alive>,
}

/// What a worker is handed.
pub(super) enum Work {
    Run(Job),
    /// The partition has ended.
    Exit,
}

/// The receiving ends, for the threads.
pub(super) struct Inbox {
    pub(super) work: Receiver<Work>,
    pub(super) errands: Receiver<Errand>,
}

impl Shared {
    pub(super) fn new(
        id: PartitionId,
        spec: PartitionSpec,
        clock: Clock,
        member: Option<Membership>,
    ) -> Result<(Shared, Inbox), PolicyError> {
        let capacity = spec.capacity() as usize;
        let (work, work_inbox) = bounded(capacity);
        // A cancel and a discard for every call there can be; those that sleep are only discarded.
        let calls = capacity + spec.policy.queue as usize;
        let (errands, errand_inbox) = bounded(2 * calls + ASLEEP_MAX);
        let shared = Shared {
            id,
            name: spec.shared_name(),
            gate: Gate::new(&spec, clock, member)?,
            spec,
            work,
            work_back: work_inbox.clone(),
            over: AtomicBool::new(false),
            errands,
            alive: Arc::default(),
        };
        Ok((shared, Inbox { work: work_inbox, errands: errand_inbox }))
    }

    /// Has the gate `decide`, and does what follows. Never blocks.
    #[inline]
    pub(super) fn step(&self, decide: impl FnOnce(&Gate, &mut Actions)) {
        let mut actions = Actions::default();
        decide(&self.gate, &mut actions);
        self.act(actions);
    }

    /// Does what a critical section decided. Never blocks.
    #[inline]
    pub(super) fn act(&self, mut actions: Actions) {
        if actions.is_empty() {
            return;
        }
        let lent = actions.take_lent();
        actions.act(|job| self.hand_off(job), |errand| self.send_errand(errand));
        if let (false, Some(member)) = (lent.is_empty(), self.gate.member()) {
            member.deliver(lent);
        }
    }

    /// Hands a started call to a worker. The channel holds as many jobs as calls can run, so it is
    /// full only at the end, of exits: a start that was decided before the end of the partition may
    /// be sent after it. If it was sent before, a worker finds it before it leaves; if not, it is
    /// taken back here.
    fn hand_off(&self, job: Job) {
        if let Err(unsent) = self.work.try_send(Work::Run(job)) {
            self.take_back(unsent.into_inner());
        } else if self.over.load(Ordering::SeqCst) {
            self.work_back.try_iter().for_each(|work| self.take_back(work));
            self.send_exit();
        }
    }

    /// Calls off a start that found no worker.
    fn take_back(&self, work: Work) {
        if let Work::Run(job) = work {
            job.call.about().revoke();
            self.step(|gate, actions| gate.unsent(&job, actions));
        }
    }

    /// Leaves to the ender what may block. If it has been stuck for so long that its queue is
    /// full, a hook is not called, and a body is forgotten, not dropped here: a leak is better
    /// than a stuck partition. If it has ended, so has the partition, and nothing is held up here.
    fn send_errand(&self, errand: Errand) {
        match self.errands.try_send(errand) {
            Err(TrySendError::Full(Errand::Discard(call))) => std::mem::forget(call),
            Err(TrySendError::Disconnected(Errand::Discard(call))) => call.discard(),
            Err(_) | Ok(()) => {}
        }
    }

    /// Lets idle workers go, and the ender. One exit will do: each worker passes it on. If there
    /// is no room for it, there is a job, and whoever takes that one leaves as well.
    pub(super) fn send_exits(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.send_exit();
        let _ = self.errands.try_send(Errand::Exit);
    }

    /// Whether there was room for it.
    pub(super) fn send_exit(&self) -> bool {
        self.work.try_send(Work::Exit).is_ok()
    }
}

impl Partition {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The knobs it was built with.
    pub fn spec(&self) -> &PartitionSpec {
        &self.shared.spec
    }

    /// Runs `body` in a slot of this partition and blocks until it has an outcome: at most for
    /// `max_wait` + `run_limit` + `cancel_grace`, whatever the body does.
    ///
    /// The body learns from [`Run`] how long it may take and whether it is called off. It is
    /// dropped when it has run; a panic in it is an outcome like any other.
    pub fn call<T, F>(&self, body: F) -> Outcome<T>
    where
        T: Send + 'static,
        F: FnOnce(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.submit(body).wait()
    }

    /// The same under `terms`: a tenant, a deadline.
    pub fn call_with<T, F>(&self, terms: Terms, body: F) -> Outcome<T>
    where
        T: Send + 'static,
        F: FnOnce(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.submit_with(terms, body).wait()
    }

    /// Offers `body` and returns at once with a ticket for its outcome. Never blocks.
    pub fn submit<T, F>(&self, body: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.submit_with(Terms::default(), body)
    }

    /// The same under `terms`.
    pub fn submit_with<T, F>(&self, terms: Terms, body: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&Run) -> Result<T, Failure> + Send + 'static,
    {
        self.submit_as(None, terms, None, move |run| body(run).map(Late::Now))
    }

    pub(super) fn submit_as<T, F>(
        &self,
        tool: Option<Arc<str>>,
        terms: Terms,
        completed: Option<Completed>,
        body: F,
    ) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&Run) -> Result<Late<T>, Failure> + Send + 'static,
    {
        self.submit_body(tool, terms, completed, None, Once::new(body))
    }

    /// Offers a call whose body is `body`; it is attempted again as `retry` says.
    pub(super) fn submit_body<T: Send + 'static>(
        &self,
        tool: Option<Arc<str>>,
        terms: Terms,
        completed: Option<Completed>,
        retry: Option<Policy>,
        body: impl Body<Late<T>> + 'static,
    ) -> Ticket<T> {
        #[cfg(feature = "tracing")]
        let body = Spanned(tracing::Span::current(), body);
        let shared = &self.shared;
        let now = shared.gate.clock().now();
        let deadline = terms.deadline.map_or(Time::MAX, |deadline| now + deadline);
        let mut about = About::new(Arc::clone(&shared.name), deadline);
        about.tool = tool;
        about.attempt = terms.attempt.max(1);
        about.given_key = terms.idempotency_key;
        about.lineage = lineage::current();
        about.again = retry.map(|policy| {
            Box::new(Again::new(policy, terms.tenant.clone(), lineage::contains(shared.id)))
        });
        let cell = Arc::new(Cell::new(about, body, completed)) as Arc<dyn Pending<T>>;
        let call = Arc::clone(&cell) as Arc<dyn Call>;
        let backstop = self.offer_call(now, &call, terms.tenant, deadline);
        Ticket::new(Arc::clone(shared), cell, backstop)
    }

    /// Offers a call: starts it, has it wait, or answers it.
    fn offer_call(
        &self,
        now: Time,
        call: &Arc<dyn Call>,
        tenant: Option<Tenant>,
        deadline: Time,
    ) -> Backstop {
        let run_for = self.shared.spec.run_for();
        let terms = self.terms(now, (tenant, call.about().attempt), deadline, run_for);
        let backstop = Backstop::new(terms.wait_until, deadline, run_for);
        let mut actions = Actions::default();
        if let Some(job) = self.shared.gate.offer_call(now, call, terms, &mut actions) {
            self.shared.hand_off(job);
        } else {
            self.shared.act(actions);
        }
        backstop
    }

    fn terms(
        &self,
        now: Time,
        (tenant, attempt): (Option<Tenant>, u32),
        deadline: Time,
        run_for: Duration,
    ) -> Offer<()> {
        let wait_until = now + self.shared.spec.max_wait;
        let reentrant = lineage::contains(self.shared.id);
        Offer { payload: (), tenant, wait_until, deadline, run_for, reentrant, attempt }
    }

    /// Takes a slot for work on this thread, and blocks for it at most for `max_wait`.
    ///
    /// # Errors
    ///
    /// [`CallError::Busy`] if no slot came free in time, and [`CallError::Failed`] if the
    /// partition is closed, in an outcome that a harness can show to a model like any other.
    #[inline]
    pub fn permit(&self) -> Result<Permit, Box<Outcome<()>>> {
        self.permit_with(Terms::default())
    }

    /// The same under `terms`: a tenant, a deadline for the wait.
    ///
    /// # Errors
    ///
    /// As [`Partition::permit`], and [`CallError::Timeout`] if the deadline came first.
    #[inline]
    pub fn permit_with(&self, terms: Terms) -> Result<Permit, Box<Outcome<()>>> {
        super::sync::thread_local! {
            static WAITER: Arc<Waiter> = Arc::default();
        }
        let shared = &self.shared;
        let now = shared.gate.clock().now();
        let deadline = terms.deadline.map_or(Time::MAX, |deadline| now + deadline);
        let attempt = terms.attempt.max(1);
        let offer = self.terms(now, (terms.tenant, attempt), deadline, Duration::MAX);
        let backstop = Backstop::new(offer.wait_until, deadline, Duration::MAX);
        let mut actions = Actions::default();
        let waiter = || WAITER.with(Arc::clone);
        let slot = shared.gate.offer_permit(now, waiter, offer, &mut actions);
        shared.act(actions);
        match slot {
            Some(slot) => Ok(Permit::new(Arc::clone(shared), slot, Duration::ZERO)),
            None => self.await_permit(&waiter(), backstop, attempt),
        }
    }

    #[cold]
    fn await_permit(
        &self,
        waiter: &Waiter,
        mut backstop: Backstop,
        attempt: u32,
    ) -> Result<Permit, Box<Outcome<()>>> {
        let shared = &self.shared;
        loop {
            let until = backstop.next(shared.gate.clock());
            match waiter.wait(until) {
                Some(Ok((slot, waited))) => {
                    return Ok(Permit::new(Arc::clone(shared), slot, waited));
                }
                Some(Err((error, timing))) => return Err(self.refused(error, timing, attempt)),
                None => shared.step(Gate::poke),
            }
        }
    }

    fn refused(&self, error: CallError, timing: Timing, attempt: u32) -> Box<Outcome<()>> {
        let place = (Arc::clone(&self.shared.name), None);
        Box::new(Outcome::of_error(error, place, attempt, timing))
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
