//! One call: the terms its caller offers, and what its body is told while it runs.

mod key;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::time::{Clock, Time};

/// A session or customer inside a partition: the key of fairness, not a partition of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The tenant called `name`.
    pub fn new(name: impl Into<Arc<str>>) -> Tenant {
        Tenant(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<S: Into<Arc<str>>> From<S> for Tenant {
    fn from(name: S) -> Tenant {
        Tenant::new(name)
    }
}

/// The terms of a call; the default has none: nobody's, no deadline, a first attempt.
///
/// ```
/// use std::time::Duration;
/// use watertight::call::Terms;
///
/// let terms = Terms::new().tenant("s-7").deadline(Duration::from_secs(30)).attempt(2);
/// # let _ = terms;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt: u32,
    pub(crate) idempotency_key: Option<Arc<str>>,
}

impl Terms {
    /// No terms.
    pub fn new() -> Terms {
        Terms::default()
    }

    /// On whose behalf the call is made. Defaults to nobody's, which is a tenant like any other.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Tenant>) -> Terms {
        self.tenant = Some(tenant.into());
        self
    }

    /// The whole time the caller has, from the offer, waiting included. The caller is answered by
    /// then whatever the body does. Defaults to none: the partition's own limits bound the call.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Terms {
        self.deadline = Some(deadline);
        self
    }

    /// Which attempt at the same logical call this is, from 1; it changes wording and jitter of
    /// hints only: each attempt may be told to come back a little later, and from the fifth on to go
    /// on without the call. Defaults to 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Terms {
        self.attempt = attempt;
        self
    }

    /// The caller's own key for the logical call, handed to the body as it is. Defaults to one that
    /// is minted when a body asks for it.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Terms {
        self.idempotency_key = Some(key.into());
        self
    }
}

/// What a body is told while it runs: how long it may take, and whether it is called off.
#[derive(Debug)]
pub struct Run {
    pub(crate) clock: Clock,
    pub(crate) limit_at: Time,
    pub(crate) cancel: CancelToken,
    pub(crate) attempt: u32,
    /// The caller's own key, or that of an earlier attempt.
    pub(crate) given_key: Option<Arc<str>>,
    /// The key, once the body has asked for it.
    pub(crate) key: OnceLock<Arc<str>>,
    /// When a quota that is used up is filled again, in the clock's nanoseconds; zero: none is.
    pub(crate) used_up_until: AtomicU64,
}

impl Run {
    /// A run on the caller's own thread, for work under a [`Permit`](crate::Permit) and for tests of
    /// drivers: `limit` from now on the system's clock.
    pub fn detached(limit: Duration, cancel: CancelToken) -> Run {
        let clock = Clock::system();
        let limit_at = clock.now() + limit;
        let (key, used_up_until) = (OnceLock::new(), AtomicU64::new(0));
        Run { clock, limit_at, cancel, attempt: 1, given_key: None, key, used_up_until }
    }

    /// What is left of the effective run limit: the partition's, or the caller's deadline if that
    /// comes first. A driver ends its own work by then and fails with
    /// [`FailureReason::Limit`](crate::outcome::FailureReason::Limit).
    pub fn remaining(&self) -> Duration {
        self.limit_at - self.clock.now()
    }

    /// Tells the body that nobody waits for it any more.
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }

    /// Which attempt at the logical call this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The key of the logical call: the caller's own, or one that is minted (a UUID of version 7)
    /// when it is first asked for, and then the same for every attempt. A call that never had a slot
    /// has none. A body that asks is taken to send it to a backend that honours it: if the call is
    /// retried, it may then be retried although it may have been executed.
    pub fn idempotency_key(&self) -> &str {
        self.key.get_or_init(|| self.given_key.clone().unwrap_or_else(key::mint))
    }

    /// Says that the backend takes `remaining` more calls, and more only in `reset` from now. With
    /// none remaining the partition lets no call in until then, at most for its `throttle_max`,
    /// however this one ends. Of several quotas the one that is used up longest counts.
    ///
    /// ```
    /// use std::time::Duration;
    /// use watertight::outcome::Status;
    /// use watertight::{PartitionSpec, Runtime};
    ///
    /// let runtime = Runtime::builder().partition(PartitionSpec::new("search")).build()?;
    /// let search = runtime.partition("search").expect("it was just built");
    /// let last = search.call(|run| {
    ///     run.report_quota(0, Duration::from_secs(30));
    ///     Ok("three hits")
    /// });
    /// assert!(last.is_ok());
    /// assert_eq!(search.call(|_| Ok(())).status(), Status::Throttled);
    /// # Ok::<(), watertight::SpecError>(())
    /// ```
    pub fn report_quota(&self, remaining: u64, reset: Duration) {
        if remaining == 0 {
            let until = self.clock.now() + reset;
            self.used_up_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
        }
    }

    /// How long, from `now`, until a quota that is used up is filled again; zero: none is.
    pub(crate) fn used_up_for(&self, now: Time) -> Duration {
        Time::from_nanos(self.used_up_until.load(Ordering::Relaxed)) - now
    }
}

/// Tells a body that it is called off: as a flag, as a wait, and as a hook for work that blocks in
/// a socket of its own. Clones are the same token. Once cancelled, it stays so.
///
/// ```
/// use std::time::Duration;
/// use watertight::call::CancelToken;
///
/// let token = CancelToken::new();
/// assert!(!token.wait(Duration::ZERO));
/// token.cancel();
/// assert!(token.is_cancelled());
/// assert!(token.wait(Duration::from_secs(60)), "returns at once");
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<TokenState>);

#[derive(Default)]
struct TokenState {
    cancelled: AtomicBool,
    hooks: Mutex<Hooks>,
    changed: Condvar,
}

#[derive(Default)]
struct Hooks {
    next_id: u64,
    aborted: bool,
    on_cancel: Vec<(u64, HookFn)>,
    on_abort: Vec<(u64, HookFn)>,
}

pub(crate) type HookFn = Box<dyn FnOnce() + Send>;

/// When a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Cancel,
    #[cfg_attr(
        not(any(feature = "http", feature = "process")),
        allow(dead_code, reason = "only drivers end work so")
    )]
    Abort,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Whether it has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Blocks until it is cancelled, at most for `limit`; whether it is.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut hooks = self.0.hooks.lock();
        let _ = self.0.changed.wait_while_for(&mut hooks, |_| !self.is_cancelled(), limit);
        self.is_cancelled()
    }

    /// Cancels, and runs the hooks on this thread. Blocks for as long as they do. In a partition
    /// the runtime does this on a thread of its own.
    ///
    /// # Panics
    ///
    /// If a hook does; those after it are still armed then, for the next cancel.
    pub fn cancel(&self) {
        self.trip();
        while let Some(hook) = self.next_hook() {
            hook();
        }
    }

    /// Has `hook` called once when the token is cancelled, on a thread of the partition's that may
    /// block; at once and on this thread if it is cancelled already. The newest hook comes first.
    /// Dropping the guard disarms it.
    #[must_use = "dropping the guard disarms the hook"]
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) -> HookGuard {
        self.arm(Stage::Cancel, Box::new(hook))
    }

    /// Has `hook` called once when the work has not ended a grace after the cancel. It runs on the
    /// timekeeper and must not block: shut a socket down, send a signal.
    #[must_use = "dropping the guard disarms the hook"]
    #[cfg_attr(
        not(any(feature = "http", feature = "process")),
        allow(dead_code, reason = "only drivers end work so")
    )]
    pub(crate) fn on_abort(&self, hook: impl FnOnce() + Send + 'static) -> HookGuard {
        self.arm(Stage::Abort, Box::new(hook))
    }

    fn arm(&self, stage: Stage, hook: HookFn) -> HookGuard {
        let mut hooks = self.0.hooks.lock();
        let past = match stage {
            Stage::Cancel => self.is_cancelled(),
            Stage::Abort => hooks.aborted,
        };
        let id = hooks.next_id;
        hooks.next_id += 1;
        if past {
            drop(hooks);
            hook();
        } else {
            hooks.of(stage).push((id, hook));
        }
        HookGuard { token: self.clone(), stage, id }
    }

    /// Marks it cancelled and wakes whoever waits; the hooks are left to [`CancelToken::next_hook`].
    /// Never blocks.
    pub(crate) fn trip(&self) {
        let _hooks = self.0.hooks.lock();
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.0.changed.notify_all();
    }

    /// The next hook that a cancelled token has not called yet.
    pub(crate) fn next_hook(&self) -> Option<HookFn> {
        let mut hooks = self.0.hooks.lock();
        if !self.is_cancelled() {
            return None;
        }
        Some(hooks.on_cancel.pop()?.1)
    }

    /// Ends the work by force: calls the hooks for it on this thread.
    pub(crate) fn abort(&self) {
        for hook in self.take_abort_hooks() {
            hook();
        }
    }

    /// The hooks that end the work by force, to be called by the caller.
    pub(crate) fn take_abort_hooks(&self) -> Vec<HookFn> {
        let mut hooks = self.0.hooks.lock();
        hooks.aborted = true;
        let taken = std::mem::take(&mut hooks.on_abort);
        taken.into_iter().map(|(_, hook)| hook).collect()
    }
}

impl Hooks {
    fn of(&mut self, stage: Stage) -> &mut Vec<(u64, HookFn)> {
        match stage {
            Stage::Cancel => &mut self.on_cancel,
            Stage::Abort => &mut self.on_abort,
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelToken").field(&self.is_cancelled()).finish()
    }
}

/// Keeps a hook armed.
pub struct HookGuard {
    token: CancelToken,
    stage: Stage,
    id: u64,
}

impl HookGuard {
    /// Disarms the hook; `false` if it has been called, or is about to be. Never blocks.
    pub fn disarm(self) -> bool {
        self.take().is_some()
    }

    fn take(&self) -> Option<HookFn> {
        let mut hooks = self.token.0.hooks.lock();
        let armed = hooks.of(self.stage);
        let at = armed.iter().position(|(id, _)| *id == self.id)?;
        Some(armed.remove(at).1)
    }
}

impl Drop for HookGuard {
    fn drop(&mut self) {
        // The hook's captures are the user's: they are dropped after the lock.
        drop(self.take());
    }
}

impl fmt::Debug for HookGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookGuard").field("stage", &self.stage).finish()
    }
}
