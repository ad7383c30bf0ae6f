//! Responses that are read while they come, such as a model's tokens.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;

use ureq::http::header::HeaderMap;

use super::client::Partition;
use super::exchange::accepted;
use super::failure::too_large;
use super::line::{self, Line};
use super::open_body::OpenBody;
use super::plan::{Filled, Plan};
use super::watch::Watch;
use crate::call::{CancelToken, HookGuard, Run};
use crate::driver::Args;
use crate::outcome::{Failure, FailureReason};

/// What bounds a stream beside the run limit, which bounds it as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The longest the backend may send nothing, before the head of its answer or after. Defaults
    /// to 30 s.
    pub silence_max: Duration,
    /// The longest the consumer may go without reading. Its stream is closed then, whether or not
    /// it ever comes back. Defaults to 30 s.
    pub idle_max: Duration,
    /// The most bytes. Defaults to 16 MiB.
    pub bytes_max: u64,
}

impl Default for StreamLimits {
    fn default() -> StreamLimits {
        let half_a_minute = Duration::from_secs(30);
        StreamLimits {
            silence_max: half_a_minute,
            idle_max: half_a_minute,
            bytes_max: 16 * 1024 * 1024,
        }
    }
}

/// A tool whose answer is a [`Stream`].
#[derive(Clone)]
pub struct StreamTool {
    partition: Arc<Partition>,
    plan: Arc<Plan>,
    limits: StreamLimits,
}

impl StreamTool {
    pub(super) fn new(partition: Arc<Partition>, plan: Plan, limits: StreamLimits) -> StreamTool {
        StreamTool { partition, plan: Arc::new(plan), limits }
    }

    /// Checks `args`. Never blocks.
    ///
    /// # Errors
    ///
    /// [`FailureReason::InvalidCall`], naming the argument.
    pub fn prepare(&self, args: &Args) -> Result<Opening, Failure> {
        let partition = &self.partition;
        let filled = self.plan.fill(partition.origin.as_str(), &partition.headers, args)?;
        Ok(Opening { tool: self.clone(), filled })
    }
}

impl fmt::Debug for StreamTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamTool").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A stream that can be opened, and opened again for another attempt at the same call.
pub struct Opening {
    tool: StreamTool,
    filled: Filled,
}

impl Opening {
    /// Sends the request; returns when the head of the answer is there. From then on the stream is
    /// ended by the limit of `run`, its cancel and the tool's [`StreamLimits`], whether or not it is
    /// being read.
    ///
    /// # Errors
    ///
    /// As for a tool that is no stream.
    pub fn open(&self, run: &Run) -> Result<Stream, Failure> {
        let StreamTool { partition, plan, limits } = &self.tool;
        let watch = &partition.watch;
        let line = Arc::new(Line::default());
        let body = watch.body(Arc::clone(&line), run.remaining(), limits.idle_max);
        let (first, second) = (Arc::clone(&body), Arc::clone(&body));
        let hooks = [
            run.cancel_token().on_cancel(move || first.cancel()),
            run.cancel_token().on_abort(move || second.cancel()),
        ];
        let silence_max = Some(limits.silence_max);
        let response = line::enter(&line, || {
            accepted(partition, plan, &self.filled, run, &line, silence_max)
        })?;
        let (head, reader) = response.into_parts();
        body.open(reader.into_reader())?;
        let stream = Stream {
            watch: Arc::clone(watch),
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            received: 0,
            bytes_max: limits.bytes_max,
            cancel: run.cancel_token().clone(),
            release: None,
            _hooks: hooks,
        };
        watch.add(&stream.body)?;
        Ok(stream)
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").finish_non_exhaustive()
    }
}

/// A response that is read while it comes. Dropping it before its end closes its connection.
///
/// It is ended by whatever comes first: its end, the run limit, a cancel, the backend's silence,
/// the consumer's idleness, too many bytes. Reading after an end that was no good fails with the
/// same failure again.
pub struct Stream {
    watch: Arc<Watch>,
    status: u16,
    headers: HeaderMap,
    body: Arc<OpenBody>,
    received: u64,
    bytes_max: u64,
    cancel: CancelToken,
    /// Gives back what was held for as long as it lasted.
    release: Option<Box<dyn FnOnce() + Send>>,
    _hooks: [HookGuard; 2],
}

/// Waits for the end of a stream that somebody else reads.
pub(crate) struct Ending(Arc<OpenBody>);

impl Ending {
    /// Blocks until it has ended, within its limits; how it has.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        self.0.wait()
    }
}

impl Stream {
    /// The status, which was accepted.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The header called `name`, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Reads what there is into `block`; 0 at the end. Blocks until there is something, within the
    /// stream's limits.
    ///
    /// # Errors
    ///
    /// [`FailureReason::Limit`] for each of the limits in time, [`FailureReason::Cancelled`],
    /// [`FailureReason::TooLarge`], and [`FailureReason::HttpProtocol`] if it breaks off.
    pub fn receive(&mut self, block: &mut [u8]) -> Result<usize, Failure> {
        let result = self.read_some(block);
        if result.is_err() || (matches!(result, Ok(0)) && !block.is_empty()) {
            self.release();
        }
        result
    }

    /// Ends the stream from another thread: who reads it gets [`FailureReason::Cancelled`].
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }

    /// Has `release` called once, when the stream has ended and its reader knows, or is gone.
    pub(crate) fn on_release(&mut self, release: impl FnOnce() + Send + 'static) {
        self.release = Some(Box::new(release));
    }

    /// What another thread can wait for its end with.
    pub(crate) fn ending(&self) -> Ending {
        Ending(Arc::clone(&self.body))
    }

    fn read_some(&mut self, block: &mut [u8]) -> Result<usize, Failure> {
        let count = self.body.read(block)?;
        self.received += count as u64;
        if self.received > self.bytes_max {
            let too_large = too_large("stream", self.bytes_max);
            self.body.close(too_large.clone());
            return Err(too_large);
        }
        Ok(count)
    }

    fn release(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// As [`Stream::receive`], with the failure's words alone.
impl Read for Stream {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        self.receive(block).map_err(|failure| {
            let kind = match failure.reason {
                FailureReason::Limit => ErrorKind::TimedOut,
                FailureReason::Cancelled => ErrorKind::ConnectionAborted,
                _ => ErrorKind::Other,
            };
            io::Error::new(kind, failure.message)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.body.finish();
        self.watch.look_again();
        self.release();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("status", &self.status)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}
