//! The loop: reads, offers, collects, writes. One thread does all four, so that whether a
//! partition has room is known for sure when a call is offered.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, TryRecvError};
use serde_json::Value;

use super::call::Call;
use super::feed::Feed;
use super::input::Read;
use super::outcomes::Outcomes;
use super::output::Output;
use super::progress::Progress;
use super::summary::Tally;
use crate::cli::signals::Stop;
use crate::outcome::{CallError, Executed, Outcome};
use crate::runtime::{Runtime, Turn, Waker};
use crate::time::{Clock, Time};

/// Lines taken over before completions are looked at again.
const LINES_AT_ONCE: usize = 64;
/// A slot of an answered call comes free without an outcome: how often to look.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a partition may have no room without running anything of ours, before its calls are
/// offered all the same, to be told why.
const STUCK: Duration = Duration::from_secs(5);
/// How long running calls have to end after Ctrl-C.
const END_GRACE: Duration = Duration::from_secs(1);

/// How it ended.
pub(super) struct End {
    pub(super) interrupted: bool,
    /// Why the input could not be read to its end.
    pub(super) broken: Option<io::Error>,
    pub(super) took: Duration,
}

/// Everything between the input and the output.
pub(super) struct Engine<'r> {
    runtime: &'r Runtime,
    turn: Turn<Value>,
    feed: Feed,
    in_flight: HashMap<usize, InFlight>,
    /// By partition.
    running: HashMap<Arc<str>, Running>,
    outcomes: Outcomes,
    progress: Progress,
    stop: Stop,
    retries: u32,
    clock: Clock,
    start: Time,
    broken: Option<io::Error>,
}

/// A call that has been offered.
struct InFlight {
    call: Call,
    partition: Option<Arc<str>>,
}

/// What of ours is in one partition.
struct Running {
    calls: usize,
    /// When the last of them left it, or its first calls began to wait.
    idle_since: Time,
}

impl<'r> Engine<'r> {
    pub(super) fn new(
        runtime: &'r Runtime,
        output: Output,
        progress: Progress,
        stop: Stop,
        retries: u32,
    ) -> Engine<'r> {
        let clock = Clock::system();
        let start = clock.now();
        Engine {
            runtime,
            turn: Turn::new(),
            feed: Feed::default(),
            in_flight: HashMap::new(),
            running: HashMap::new(),
            outcomes: Outcomes::new(output, stop.clone(), clock.clone()),
            progress,
            stop,
            retries,
            clock,
            start,
            broken: None,
        }
    }

    /// What wakes the loop.
    pub(super) fn waker(&self) -> Waker {
        self.turn.waker()
    }

    /// Runs the calls of `lines` to their ends; blocks until then, or until a stop is asked for or
    /// nobody reads the outcomes any more.
    pub(super) fn run(&mut self, lines: &Receiver<Read>) -> End {
        let mut ended = false;
        while !self.outcomes.is_closed() && !self.stop.is_asked() {
            let more = self.take_lines(lines, &mut ended);
            self.offer_due();
            let waits = self.offer_as_room();
            if ended && self.feed.held() == 0 && self.turn.remaining() == 0 {
                break;
            }
            let limit = if more { Duration::ZERO } else { self.pause(waits) };
            self.collect(limit);
            self.show();
        }
        if self.stop.is_asked() {
            self.interrupt();
        }
        End {
            interrupted: self.stop.is_asked(),
            broken: self.broken.take(),
            took: self.clock.now() - self.start,
        }
    }

    /// Waits for the last line to be written; what was counted, and whether all was written.
    pub(super) fn finish(self) -> (Tally, io::Result<()>) {
        self.progress.clear();
        self.outcomes.finish()
    }

    /// Takes over what has been read, as there is room for it. Whether there may be more at once.
    fn take_lines(&mut self, lines: &Receiver<Read>, ended: &mut bool) -> bool {
        for _ in 0..LINES_AT_ONCE {
            if !self.feed.has_room() || self.outcomes.is_closed() {
                return false;
            }
            match lines.try_recv() {
                Ok(Read::Call(call)) => {
                    let partition = call.partition(self.runtime);
                    let partition = partition.map(|partition| Arc::from(partition.name()));
                    self.feed.push(*call, partition.as_ref(), self.start);
                }
                Ok(Read::Invalid(invalid)) => self.outcomes.refused(invalid),
                Ok(Read::Broken(error)) => self.broken = Some(error),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    *ended = true;
                    return false;
                }
            }
        }
        true
    }

    /// Offers what is due, come what may.
    fn offer_due(&mut self) {
        while let Some((call, late)) = self.feed.due(self.clock.now(), self.start) {
            self.outcomes.tally.offered(late);
            self.offer(call);
        }
    }

    /// Offers what waits for room where there is some. Whether some still wait.
    fn offer_as_room(&mut self) -> bool {
        for name in self.feed.waited_for() {
            let Some(partition) = self.runtime.partition(&name) else {
                continue;
            };
            while let Some(call) = self.feed.next_for(&name, |tenant| partition.is_full_for(tenant))
            {
                self.offer(call);
            }
            if self.is_stuck(&name)
                && let Some(call) = self.feed.next_for(&name, |_| false)
            {
                self.offer(call);
            }
        }
        !self.feed.waited_for().is_empty()
    }

    /// Whether `partition` has had no room for a while although nothing of ours runs in it.
    fn is_stuck(&mut self, partition: &Arc<str>) -> bool {
        let now = self.clock.now();
        let running = self.running(partition);
        running.calls == 0 && now - running.idle_since >= STUCK
    }

    fn running(&mut self, partition: &Arc<str>) -> &mut Running {
        let idle_since = self.clock.now();
        let running = self.running.entry(Arc::clone(partition));
        running.or_insert(Running { calls: 0, idle_since })
    }

    fn offer(&mut self, mut call: Call) {
        let index = self.turn.call(self.runtime, call.offer(self.clock.now()));
        let partition = call.partition(self.runtime);
        let partition = partition.map(|partition| Arc::<str>::from(partition.name()));
        if let Some(partition) = &partition {
            self.running(partition).calls += 1;
        }
        self.in_flight.insert(index, InFlight { call, partition });
    }

    /// How long there is nothing to do but to wait for completions and lines.
    fn pause(&self, waits: bool) -> Duration {
        let now = self.clock.now();
        let due = self.feed.next_due().map(|due| due - now);
        let look = waits.then_some(LOOK_AGAIN);
        due.into_iter().chain(look).min().unwrap_or(Duration::MAX)
    }

    /// Takes the outcomes that are there; blocks for the first one, at most for `limit`.
    fn collect(&mut self, limit: Duration) {
        let mut next = self.turn.next_within(limit);
        while let Some((index, outcome)) = next {
            self.complete(index, &outcome);
            if self.outcomes.is_closed() || self.stop.is_asked() {
                return;
            }
            next = self.turn.next_within(Duration::ZERO);
        }
    }

    /// A call has an outcome: it is offered again, or that is its last.
    fn complete(&mut self, index: usize, outcome: &Outcome<Value>) {
        let Some(InFlight { mut call, partition }) = self.in_flight.remove(&index) else {
            return;
        };
        call.attempts = outcome.attempt;
        let now = self.clock.now();
        if let Some(running) = partition.and_then(|partition| self.running.get_mut(&partition)) {
            running.calls -= 1;
            if outcome.executed() != Executed::No {
                running.idle_since = now;
            }
        }
        if let Some(at) = self.retry_at(&call, outcome, now) {
            self.outcomes.tally.retried();
            self.feed.retry(call, at);
            return;
        }
        self.feed.ended(&call, self.start);
        self.outcomes.ended(&call, outcome);
    }

    /// When to offer it again, if it was turned away and may be.
    fn retry_at(&self, call: &Call, outcome: &Outcome<Value>, now: Time) -> Option<Time> {
        let failed = matches!(outcome.result, Ok(_) | Err(CallError::Failed(_)));
        if failed || outcome.executed() != Executed::No || call.offers > self.retries {
            return None;
        }
        call.retry_at(now, outcome.retry_after()?)
    }

    /// Resolves everything: what was not offered is cancelled, what runs is ended.
    fn interrupt(&mut self) {
        for call in self.feed.drain() {
            let partition = call.partition(self.runtime);
            let partition = partition.map_or("", |partition| partition.name());
            self.outcomes.never_offered(&call, partition);
        }
        self.runtime.shutdown(END_GRACE);
        for (index, outcome) in self.turn.by_ref() {
            if let Some(InFlight { call, .. }) = self.in_flight.remove(&index) {
                self.outcomes.ended(&call, &outcome);
            }
        }
    }

    fn show(&mut self) {
        let Engine { progress, clock, outcomes, feed, turn, .. } = self;
        progress.show(clock.now(), || {
            let (running, held) = (turn.remaining(), feed.held());
            format!("{} · {running} under way, {held} to come", outcomes.tally.brief())
        });
    }
}
