//! The caller's span is entered in the worker, and whatever a subscriber does costs one call.

use std::panic::resume_unwind;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use tracing::span::Id;
use tracing::{Subscriber, info_span, subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use watertight::PartitionSpec;
use watertight::outcome::Status;

use crate::support::{MS, assert_whole, occupy, one, one_on_manual_clock};

type Seen = (&'static str, &'static str, String);

/// Tells of spans entered, left and closed, and on which thread; panics when a worker enters a
/// span called `bad`.
struct Spy(Sender<Seen>);

impl Spy {
    fn tell<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
        what: &'static str,
        id: &Id,
        ctx: &Context<'_, S>,
    ) {
        let span = ctx.span(id).unwrap().name();
        let thread = thread::current().name().unwrap_or_default().to_owned();
        self.0.send((what, span, thread)).ok();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spy {
    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        self.tell("enter", id, &ctx);
        let is_bad = ctx.span(id).unwrap().name() == "bad";
        if is_bad && thread::current().name() == Some("search-0") {
            resume_unwind(Box::new("a subscriber"));
        }
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        self.tell("exit", id, &ctx);
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        self.tell("close", &id, &ctx);
    }
}

/// Runs `f` with a spy, and says what it saw.
fn spied(f: impl FnOnce()) -> Receiver<Seen> {
    let (seen, sees) = unbounded();
    subscriber::with_default(Registry::default().with(Spy(seen)), f);
    sees
}

#[track_caller]
fn next(sees: &Receiver<Seen>, what: &str, thread: &str) {
    let seen = sees.recv_timeout(crate::support::HANG).unwrap();
    assert_eq!((seen.0, &*seen.2), (what, thread));
}

fn here() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn the_body_runs_in_its_callers_span() {
    let (_runtime, search) = one(PartitionSpec::new("search").slots(1));
    let sees = spied(|| {
        let ticket = info_span!("turn").in_scope(|| search.submit(|_| Ok(())));
        assert!(ticket.wait().is_ok());
    });
    next(&sees, "enter", &here());
    let seen: Vec<_> = sees.iter().collect();
    let of_worker = seen.iter().filter(|seen| seen.2 == "search-0");
    let what: Vec<_> = of_worker.map(|seen| (seen.0, seen.1)).take(2).collect();
    assert_eq!(what, [("enter", "turn"), ("exit", "turn")]);
}

#[test]
fn without_a_span_nothing_is_entered() {
    let (_runtime, search) = one(PartitionSpec::new("search").slots(1));
    let sees = spied(|| assert!(search.call(|_| Ok(())).is_ok()));
    assert_eq!(sees.iter().count(), 0);
}

#[test]
fn a_subscriber_that_panics_costs_its_call() {
    let (_runtime, search) = one(PartitionSpec::new("search").slots(1));
    let _sees = spied(|| {
        for _ in 0..10 {
            let outcome = info_span!("bad").in_scope(|| search.submit(|_| Ok(()))).wait();
            assert_eq!(outcome.status(), Status::Panicked);
        }
    });
    assert_whole(&search);
}

#[test]
fn the_timekeeper_closes_no_span() {
    let (_runtime, search, hand) = one_on_manual_clock(PartitionSpec::new("search").slots(1));
    let held = occupy(&search);
    let sees = spied(|| {
        let ticket = info_span!("turn").in_scope(|| search.submit(|_| Ok(())));
        hand.advance(50 * MS);
        assert!(ticket.is_finished());
        drop(ticket);
        info_span!("turn").in_scope(|| search.submit(|_| Ok(())).detach());
        hand.advance(50 * MS);
    });
    drop(held);
    let closed: Vec<_> = sees.iter().filter(|seen| seen.0 == "close").collect();
    assert_eq!(closed.len(), 2);
    assert!(closed.iter().all(|seen| seen.2 != "search-time"), "{closed:?}");
}
