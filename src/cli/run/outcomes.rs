//! The final outcomes: counted, and written a line each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::call::{About, Call, Invalid};
use super::output::{Output, Unwritten};
use super::summary::Tally;
use crate::cli::signals::Stop;
use crate::driver::args::invalid;
use crate::outcome::{CallError, CancelledBy, Evidence, Executed, Outcome, Timing};
use crate::time::{Clock, Time};

/// How long the reader has to take the rest after a stop was asked for.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Where final outcomes go.
pub(super) struct Outcomes {
    pub(super) tally: Tally,
    output: Output,
    stop: Stop,
    clock: Clock,
    /// When to give the reader up.
    until: Option<Time>,
    closed: bool,
}

impl Outcomes {
    pub(super) fn new(output: Output, stop: Stop, clock: Clock) -> Outcomes {
        Outcomes { tally: Tally::default(), output, stop, clock, until: None, closed: false }
    }

    /// Whether nobody reads them any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The last outcome of `call`.
    pub(super) fn ended(&mut self, call: &Call, outcome: &Outcome<Value>) {
        self.write(&call.about, outcome);
    }

    /// A line that is no call.
    pub(super) fn refused(&mut self, Invalid { about, message }: Invalid) {
        let error = CallError::Failed(invalid(message));
        self.write(&about, &Outcome::of_error(error, ("".into(), None), 1, Timing::default()));
    }

    /// A call of `partition` that is not offered, or not again, because all ends.
    pub(super) fn never_offered(&mut self, call: &Call, partition: &str) {
        let error = CallError::Cancelled {
            by: CancelledBy::Shutdown,
            executed: Executed::No,
            evidence: Evidence::default(),
        };
        let place = (partition.into(), Some(Arc::clone(&call.tool)));
        let attempts = call.attempts.max(1);
        self.write(&call.about, &Outcome::of_error(error, place, attempts, Timing::default()));
    }

    /// Waits for the last line to be written; what was counted, and whether all was written.
    pub(super) fn finish(self) -> (Tally, io::Result<()>) {
        let limit = if self.stop.is_asked() { DRAIN_LIMIT } else { Duration::MAX };
        (self.tally, self.output.finish(limit))
    }

    /// Blocks while the reader is behind; after a stop was asked for, not for long.
    fn write(&mut self, about: &About, outcome: &Outcome<Value>) {
        self.tally.add(outcome);
        if self.closed {
            return;
        }
        let Outcomes { output, stop, clock, until, .. } = self;
        let goes_on = || {
            !stop.is_asked() || {
                let now = clock.now();
                now < *until.get_or_insert(now + DRAIN_LIMIT)
            }
        };
        match output.write(line(about, outcome), goes_on) {
            Ok(()) => {}
            Err(Unwritten::Closed | Unwritten::GivenUp) => self.closed = true,
        }
    }
}

fn line(about: &About, outcome: &Outcome<Value>) -> Vec<u8> {
    let mut json = Map::new();
    if let Some(id) = &about.id {
        json.insert("id".to_owned(), id.clone());
    }
    if about.id.is_none() || outcome.tool.is_none() {
        json.insert("line".to_owned(), about.line.into());
    }
    if let Value::Object(fields) = outcome.to_json() {
        json.extend(fields);
    }
    if outcome.attempt > 1 {
        json.insert("attempts".to_owned(), outcome.attempt.into());
    }
    let mut line = Value::Object(json).to_string().into_bytes();
    line.push(b'\n');
    line
}
