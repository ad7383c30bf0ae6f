//! The body of a stream: read by its consumer, closed by whoever comes first.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use ureq::BodyReader;

use super::failure::{cancelled, failure, limit};
use super::line::{self, Line};
use crate::outcome::Failure;
use crate::time::{Clock, Time};

/// A body that may be closed from another thread.
///
/// Closing says why, cuts the line, so that a read ends, and takes the reader away unless a read
/// holds it. A read looks at the line after it has let the reader go. So one of the two drops it,
/// and with it the connection, and neither waits for the other.
pub(super) struct OpenBody {
    line: Arc<Line>,
    clock: Clock,
    limit_at: Time,
    idle_max: Duration,
    reader: Mutex<Option<BodyReader<'static>>>,
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Default)]
struct State {
    /// Since when nobody reads; `None` while someone does.
    idle_since: Option<Time>,
    /// How it ended: by itself or not.
    end: Option<Result<(), Failure>>,
    /// It has ended and its connection is gone or given back.
    is_over: bool,
}

impl OpenBody {
    /// One whose answer is still to come.
    pub(super) fn new(
        line: Arc<Line>,
        clock: Clock,
        limit: Duration,
        idle_max: Duration,
    ) -> OpenBody {
        let limit_at = clock.now() + limit;
        let (reader, state) = (Mutex::default(), Mutex::default());
        OpenBody { line, clock, limit_at, idle_max, reader, state, over: Condvar::new() }
    }

    /// The answer has begun; fails if it has been closed meanwhile.
    pub(super) fn open(&self, reader: BodyReader<'static>) -> Result<(), Failure> {
        *self.reader.lock() = Some(reader);
        self.rest()
    }

    /// Reads what there is; 0 at the end.
    pub(super) fn read(&self, block: &mut [u8]) -> Result<usize, Failure> {
        self.state.lock().idle_since = None;
        let mut reader = self.reader.lock();
        let Some(open) = reader.as_mut() else {
            return self.end(Ok(())).map(|()| 0);
        };
        match line::enter(&self.line, || open.read(block)) {
            Ok(count) if count > 0 || block.is_empty() => {
                drop(reader);
                self.rest().map(|()| count)
            }
            ended => {
                *reader = None;
                drop(reader);
                let how = ended.map(drop).map_err(|error| failure(error.into(), &self.line));
                let how = self.end(how).map(|()| 0);
                self.settle();
                how
            }
        }
    }

    /// Closes it: the consumer is told `why`, unless it has ended before. Never blocks.
    pub(super) fn close(&self, why: Failure) {
        let _ = self.end(Err(why));
        self.line.cut();
        let taken = self.reader.try_lock().and_then(|mut reader| reader.take());
        drop(taken);
        self.settle();
    }

    pub(super) fn cancel(&self) {
        self.close(cancelled(&self.line));
    }

    /// The consumer is gone.
    pub(super) fn finish(&self) {
        let _ = self.end(Ok(()));
        drop(self.reader.lock().take());
        self.settle();
    }

    /// Blocks until it is over, which its limit bounds; how it ended.
    pub(super) fn wait(&self) -> Result<(), Failure> {
        let mut state = self.state.lock();
        self.over.wait_while(&mut state, |state| !state.is_over);
        state.end.clone().unwrap_or(Ok(()))
    }

    /// When to look whether it must be closed; `None` if it has ended.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let state = self.state.lock();
        let idle_since = state.idle_since.unwrap_or(now);
        state.end.is_none().then(|| self.limit_at.min(idle_since + self.idle_max))
    }

    /// Closes it if it must be.
    pub(super) fn expire(&self, now: Time) {
        let idle_since = self.state.lock().idle_since;
        if now >= self.limit_at {
            self.close(limit(&self.line));
        } else if idle_since.is_some_and(|since| now >= since + self.idle_max) {
            let message = format!("nobody has read the stream for {:?}", self.idle_max);
            self.close(Failure { message, ..limit(&self.line) });
        }
    }

    /// Nobody reads from now on. Fails if it was closed; its connection is gone then.
    fn rest(&self) -> Result<(), Failure> {
        self.state.lock().idle_since = Some(self.clock.now());
        if self.line.is_cut() {
            drop(self.reader.lock().take());
            let how = self.end(Err(cancelled(&self.line)));
            self.settle();
            return how;
        }
        Ok(())
    }

    /// Lets go who waits for the end.
    fn settle(&self) {
        self.state.lock().is_over = true;
        self.over.notify_all();
    }

    /// Notes how it ended, unless it has ended before; how it has.
    fn end(&self, how: Result<(), Failure>) -> Result<(), Failure> {
        self.state.lock().end.get_or_insert(how).clone()
    }
}
