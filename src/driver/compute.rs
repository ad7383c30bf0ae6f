//! CPU-bound tools in process: one `rayon` pool a partition.
//!
//! A tool is a closure. The partition's worker hands it to the pool and waits for it, so that what
//! computes is bounded by the pool's threads, however many chunks a call is cut into.
//!
//! ```
//! use serde_json::json;
//! use watertight::driver::args::{ArgSpec, ArgType};
//! use watertight::driver::compute::Compute;
//! use watertight::{PartitionSpec, Runtime, ToolCall};
//!
//! let spec = PartitionSpec::new("sums").slots(2);
//! let pool = Compute::new().open(&spec.sizing())?;
//! let n = ArgSpec { name: "n".to_owned(), kind: ArgType::Integer, default: None };
//! let squares = pool.tool([n], |args, work| {
//!     let numbers: Vec<u64> = (1..=args["n"].as_u64().unwrap_or(0)).collect();
//!     let sums = work.par_chunks(&numbers, 1000, |chunk| chunk.iter().map(|n| n * n).sum::<u64>())?;
//!     Ok(json!(sums.iter().sum::<u64>()))
//! });
//! let runtime = Runtime::builder().partition(spec).tool("squares", "sums", squares).build()?;
//! let outcome = runtime.call(ToolCall::new("squares").arg("n", 2000));
//! assert_eq!(outcome.ok(), Some(json!(2_668_667_000_u64)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a call ends
//!
//! At its run limit or on a cancel, as soon as it looks: [`Work::par_chunks`] looks before each
//! chunk, loops of one's own by [`Work::check`]. Nothing ends a closure that never looks: it is
//! overdue and keeps its slot and its thread, like any body of a partition.
//!
//! # What is refused
//!
//! Work on another partition's pool from a thread of this one: `rayon` would have the thread take
//! up its own partition's other calls while it waits, inside the stack of this call, so that one
//! slow partition holds up the other. Offer the other partition a call instead; on a thread of a
//! pool that is a call from outside, so one to the same partition is not known as reentrant.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rayon::ThreadPoolBuilder;
use rayon::iter::ParallelIterator;
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use serde_json::Value;

use super::args::{ArgSpec, ArgType, Signature};
use super::{Args, Operation, Response, Sizing, Tool};
use crate::call::Run;
use crate::outcome::{Executed, Failure, FailureReason};

/// The most threads of a pool.
pub const THREADS_MAX: u32 = 1024;

/// The settings of a pool.
#[derive(Clone, Debug, Default)]
pub struct Compute {
    threads: Option<u32>,
}

impl Compute {
    /// The defaults, each said at its setter.
    pub fn new() -> Compute {
        Compute::default()
    }

    /// How many threads compute. Defaults to one for each call that may run; with more, a call that
    /// runs alone uses several CPUs; with fewer, calls share them, and one may wait for a thread.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Compute {
        self.threads = Some(threads);
        self
    }

    /// Starts the pool's threads. They end when the last tool, and clone, of the pool is dropped.
    ///
    /// # Errors
    ///
    /// Fewer threads than 1 or more than [`THREADS_MAX`], and threads that the system refuses.
    pub fn open(self, sizing: &Sizing) -> Result<Pool, String> {
        let threads = self.threads.unwrap_or(sizing.connections);
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(format!(
                "`threads`: {threads} must be 1 to {THREADS_MAX}: about one for each CPU that the \
                 partition may use"
            ));
        }
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = PoolId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let (alive, ended) = bounded(0);
        let mut handles = Vec::new();
        let built = ThreadPoolBuilder::new()
            .num_threads(threads as usize)
            // By default a panic of work that nobody waits for ends the whole harness.
            .panic_handler(|_| {})
            .spawn_handler(|thread| {
                handles.push(spawn(id, &sizing.partition, alive.clone(), thread)?);
                Ok(())
            })
            .build();
        drop(alive);
        let pool = built.map_err(|error| {
            format!("`threads`: the system refused one of {threads}: {error}; lower it")
        })?;
        Ok(Pool(Arc::new(Inner {
            id,
            partition: Arc::clone(&sizing.partition),
            pool: Some(pool),
            threads: handles,
            ended,
        })))
    }
}

fn spawn(
    id: PoolId,
    partition: &str,
    alive: Sender<()>,
    thread: rayon::ThreadBuilder,
) -> io::Result<JoinHandle<()>> {
    let name = format!("{partition}-cpu-{}", thread.index());
    std::thread::Builder::new().name(name).spawn(move || {
        HOME.set(Some(id));
        thread.run();
        drop(alive);
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PoolId(u64);

thread_local! {
    /// The pool that this thread belongs to.
    static HOME: Cell<Option<PoolId>> = const { Cell::new(None) };
}

/// The threads of one partition. Clones are the same pool.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    id: PoolId,
    partition: Arc<str>,
    /// There until this is dropped.
    pool: Option<rayon::ThreadPool>,
    threads: Vec<JoinHandle<()>>,
    /// Disconnected when every thread has ended.
    ended: Receiver<()>,
}

/// How long a pool's threads may take to end. Only work that a tool left behind with
/// `rayon::spawn` takes longer; its thread ends after it.
const JOIN_LIMIT: Duration = Duration::from_millis(100);

impl Pool {
    /// A tool that runs `body` on the pool, with `args` as they are declared.
    pub fn tool<F>(&self, args: impl IntoIterator<Item = ArgSpec>, body: F) -> Arc<dyn Tool>
    where
        F: Fn(&Args, &Work<'_>) -> Result<Value, Failure> + Send + Sync + 'static,
    {
        Arc::new(ComputeTool {
            pool: self.clone(),
            signature: Signature::of([], args.into_iter().collect(), ArgType::Any),
            body: Arc::new(body),
        })
    }

    /// Runs `body` on the pool, for a call of the partition that is a closure itself; blocks until
    /// it returns.
    ///
    /// # Errors
    ///
    /// What `body` says; [`FailureReason::Limit`] or [`FailureReason::Cancelled`] if the call is
    /// over before it begins; and [`FailureReason::Error`] on a thread of another pool.
    ///
    /// # Panics
    ///
    /// If `body` does; in a partition that is an outcome.
    ///
    /// ```
    /// use watertight::driver::compute::Compute;
    /// use watertight::{PartitionSpec, Runtime};
    ///
    /// let spec = PartitionSpec::new("sums").slots(2);
    /// let pool = Compute::new().threads(1).open(&spec.sizing())?;
    /// let runtime = Runtime::builder().partition(spec).build()?;
    /// let sums = runtime.partition("sums").expect("it was just built");
    /// let outcome = sums.call(move |run| pool.run(run, |work| {
    ///     Ok(work.par_chunks(&[1, 2, 3], 2, |chunk| chunk.len())?)
    /// }));
    /// assert_eq!(outcome.ok(), Some(vec![2, 1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<T, F>(&self, run: &Run, body: F) -> Result<T, Failure>
    where
        T: Send,
        F: FnOnce(&Work<'_>) -> Result<T, Failure> + Send,
    {
        let work = Work { run };
        let not_begun = |failure: Failure| failure.executed(Executed::No);
        work.check().map_err(not_begun)?;
        let Inner { id, partition, .. } = &*self.0;
        if HOME.get().is_some_and(|home| home != *id) {
            let message = format!(
                "work for the pool of partition `{partition}` was begun on a thread of another \
                 partition's pool; offer `{partition}` a call instead"
            );
            return Err(not_begun(Failure::new(FailureReason::Error, message)));
        }
        let pool = self.0.pool.as_ref().expect("it is taken on drop only");
        // The call may have waited for a thread.
        pool.install(|| work.check().map_err(not_begun).and_then(|()| body(&work)))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("partition", &self.0.partition)
            .field("threads", &self.0.threads.len())
            .finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.pool.take());
        // A tool may have left the last clone with work of its own pool.
        if HOME.get() == Some(self.id) {
            return;
        }
        if self.ended.recv_timeout(JOIN_LIMIT) == Err(RecvTimeoutError::Disconnected) {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

/// A call that computes: whether it is to go on, and parallel steps that end when it is not.
#[derive(Debug)]
pub struct Work<'r> {
    run: &'r Run,
}

impl Work<'_> {
    /// The call: what is left of its time, its cancel, its attempt.
    pub fn run(&self) -> &Run {
        self.run
    }

    /// Whether to go on. Reads an atomic and the clock: call it every thousand steps or so.
    ///
    /// # Errors
    ///
    /// [`FailureReason::Limit`] or [`FailureReason::Cancelled`], to be returned as it is.
    pub fn check(&self) -> Result<(), Failure> {
        let (reason, message) = if self.run.cancel_token().is_cancelled() {
            (FailureReason::Cancelled, "the computation was called off")
        } else if self.run.remaining().is_zero() {
            (FailureReason::Limit, "the computation did not end within its limit")
        } else {
            return Ok(());
        };
        Err(Failure::new(reason, message).executed(Executed::Unknown))
    }

    /// Computes `each` of the chunks of `size` items, on all threads of the pool; the results are in
    /// order. The call is looked after before each chunk: make one last some milliseconds at most.
    ///
    /// # Errors
    ///
    /// As [`Work::check`]; chunks that have begun are computed to their end.
    ///
    /// # Panics
    ///
    /// If `each` does, or if `size` is 0.
    pub fn par_chunks<T, R, F>(&self, items: &[T], size: usize, each: F) -> Result<Vec<R>, Failure>
    where
        T: Sync,
        R: Send,
        F: Fn(&[T]) -> R + Sync,
    {
        let chunks = items.par_chunks(size);
        chunks.map(|chunk| self.check().map(|()| each(chunk))).collect()
    }

    /// The same on chunks that `each` may change. After a failure some are changed.
    ///
    /// # Errors
    ///
    /// As [`Work::par_chunks`].
    ///
    /// # Panics
    ///
    /// As [`Work::par_chunks`].
    pub fn par_chunks_mut<T, R, F>(
        &self,
        items: &mut [T],
        size: usize,
        each: F,
    ) -> Result<Vec<R>, Failure>
    where
        T: Send,
        R: Send,
        F: Fn(&mut [T]) -> R + Sync,
    {
        let chunks = items.par_chunks_mut(size);
        chunks.map(|chunk| self.check().map(|()| each(chunk))).collect()
    }
}

type Body = dyn Fn(&Args, &Work<'_>) -> Result<Value, Failure> + Send + Sync;

struct ComputeTool {
    pool: Pool,
    signature: Signature,
    body: Arc<Body>,
}

impl Tool for ComputeTool {
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        let args = self.signature.check(args)?;
        let (pool, body) = (self.pool.clone(), Arc::clone(&self.body));
        Ok(Box::new(move |run| {
            let value = pool.run(run, |work| body(&args, work))?;
            Ok(Response::new(move || Ok(value)))
        }))
    }
}
