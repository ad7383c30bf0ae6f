//! Streams that hold a slot: an answer that is read while it comes.

use std::time::Duration;

use super::partition::Partition;
use super::sync::bounded;
use super::turn::Turn;
use crate::call::Terms;
use crate::driver::http::{Opening, Stream};
use crate::outcome::Outcome;

impl Partition {
    /// Opens a stream in a slot of this partition, which it holds until it ends or is dropped, and
    /// blocks until the head of its answer is there: as long as [`Partition::call`] at most.
    ///
    /// It is a call like any other, which lasts as long as the stream: it ends at the run limit, at
    /// the deadline in `terms`, by [`Stream::cancel_token`], by the stream's own limits and when the
    /// runtime is shut down. Whoever reads it then gets an error, whether the backend answers or
    /// not. Once the reader has seen the end, or has dropped the stream, the slot is free.
    ///
    /// # Errors
    ///
    /// The outcome of a stream that never began: nothing was sent if it is `busy`.
    pub fn stream(&self, terms: Terms, opening: Opening) -> Result<Stream, Box<Outcome<()>>> {
        let mut turn = Turn::new();
        let waker = turn.waker();
        let (opened, stream) = bounded(1);
        turn.submit(self, terms, move |run| {
            let stream = opening.open(run)?;
            let ending = stream.ending();
            // With nobody there to take it, it is dropped here, which ends it.
            drop(opened.send(stream));
            waker.wake();
            ending.wait()
        });
        loop {
            if let Some((_, outcome)) = turn.next_within(Duration::MAX) {
                return Err(Box::new(outcome));
            }
            if let Ok(mut stream) = stream.try_recv() {
                stream.on_release(move || drop(turn.next()));
                return Ok(stream);
            }
        }
    }
}
