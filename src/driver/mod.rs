//! Drivers: what does the work behind a partition's wall.
//!
//! A driver owns its partition's physical resource (an HTTP agent, a pool of connections, child
//! processes) and knows nothing of admission. Its contract:
//!
//! - **Opened for one partition.** [`Sizing`] says how many calls run at once; the driver's pool is
//!   of that size, so that nothing ever waits in it.
//! - **Arguments are checked before a slot is taken**, by [`Tool::prepare`]; nothing in it blocks.
//! - **The work ends by itself** when [`Run::remaining`] is zero, with
//!   [`FailureReason::Limit`](crate::outcome::FailureReason::Limit), and soon after
//!   [`Run::cancel_token`] says so, with
//!   [`FailureReason::Cancelled`](crate::outcome::FailureReason::Cancelled). A cancel comes as a
//!   flag and hooks, which may block and run on a thread of the partition's; a grace later the
//!   timekeeper runs the abort hooks, which must not block.
//! - **It returns when the last byte has landed.** Decoding is left in [`Response`], for the
//!   caller's thread, when the slot is free again.
//! - **What belongs to the call comes from its [`Run`]**: [`Run::idempotency_key`] for a backend that
//!   takes one, so that a call without a slot has none. What the backend says of its quotas goes
//!   there: [`Run::report_quota`].
//! - **Failures say whether anything was executed**, and never carry a credential.
//!
//! A function is a driver, too: the closure given to [`Partition::call`](crate::Partition::call),
//! which ends its own work by [`Run::remaining`] and [`Run::cancel_token`].
//!
//! # Who keeps which promise
//!
//! Run limit, deadline, [`Ticket::cancel`](crate::Ticket::cancel), a dropped ticket and shutdown all
//! reach the work by the same limit and the same token. The test `driver_contract` holds each
//! property against each driver.
//!
//! | driver | the work ends | the backend's work ends | serves the next call | grows over rounds |
//! | --- | --- | --- | --- | --- |
//! | function | when the closure looks | there is none | at once | nothing in 1,000 |
//! | compute | before the next chunk, or when it looks | there is none | at once | nothing in 1,000 |
//! | HTTP | whatever it waits for | the backend sees its connection closed; whether it stops is its own affair | on a new connection | nothing in 1,000 |
//! | PostgreSQL | whatever it waits for, over TCP and on Linux | by a cancel, or 0.5 s after its client is gone | on a new connection | nothing in 1,000 |
//! | SQLite | between two steps of its engine | with the call; it has changed nothing | on the same connection | nothing in 1,000 |
//! | process, with a shim | at once, after a grace on cancel | the whole tree, whatever it did | with a new child | nothing in 1,000 |
//! | process, without | the same | its process group; who has left that gets away, and the outcome says so | the same | nothing in 1,000 |
//!
//! What nobody can end keeps its slot, and the partition counts it as overdue: a function or a chunk
//! that does not look, a file system that does not answer under SQLite, a PostgreSQL server that does
//! not answer over a Unix socket or elsewhere than on Linux, a child that the kernel does not let go.

pub mod args;
#[cfg(feature = "compute")]
pub mod compute;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(all(feature = "process", unix))]
pub mod process;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::call::Run;
use crate::outcome::Failure;

pub use args::Args;

/// One tool: turns arguments into an operation on its partition's resource.
pub trait Tool: Send + Sync + 'static {
    /// Checks `args` and makes the operation. Never blocks.
    ///
    /// # Errors
    ///
    /// [`FailureReason::InvalidCall`](crate::outcome::FailureReason::InvalidCall), naming the
    /// argument that is missing, unknown or of the wrong type.
    fn prepare(&self, args: &Args) -> Result<Operation, Failure>;
}

/// The work of one call. It may be run again, for another attempt at the same call.
pub type Operation = Box<dyn FnMut(&Run) -> Result<Response, Failure> + Send>;

/// What came back, not decoded yet.
pub struct Response(Box<dyn FnOnce() -> Result<Value, Failure> + Send>);

impl Response {
    /// A response that `decode` makes into a value on the caller's thread.
    pub fn new(decode: impl FnOnce() -> Result<Value, Failure> + Send + 'static) -> Response {
        Response(Box::new(decode))
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// [`FailureReason::Decode`](crate::outcome::FailureReason::Decode), or what the driver finds
    /// in the bytes.
    pub fn decode(self) -> Result<Value, Failure> {
        (self.0)()
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").finish_non_exhaustive()
    }
}

/// What a driver must know of the partition it is opened for.
#[derive(Clone, Debug)]
pub struct Sizing {
    /// The partition's name, for threads and messages.
    pub partition: Arc<str>,
    /// How many calls may run at once, all told.
    pub connections: u32,
    /// The longest a call may run.
    pub run_limit: Duration,
}
