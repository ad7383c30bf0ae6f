//! A call that is called off between its start and the first step of its worker: nothing was sent.

use std::sync::Arc;

use super::PartitionSpec;
use super::actions::Actions;
use super::body::Once;
use super::cell::{About, Call, Cell, Late};
use super::gate::Gate;
use crate::admission::Offer;
use crate::call::Run;
use crate::outcome::Failure;
use crate::time::{Clock, Time};

/// A gate that lets one call through in an hour, without workers.
fn gate() -> Gate {
    let rate = "1/h".parse().expect("a rate");
    let spec = PartitionSpec::new("search").slots(3).rate(rate);
    Gate::new(&spec, Clock::manual().0, None).expect("sensible")
}

fn call() -> Arc<dyn Call> {
    let body = |_: &Run| Ok::<_, Failure>(Late::Now(()));
    Arc::new(Cell::new(About::new("search".into(), Time::MAX), Once::new(body), None))
}

/// Whether it gets a slot.
fn starts(gate: &Gate, call: &Arc<dyn Call>) -> bool {
    let terms = Offer { wait_until: Time::ZERO, ..Offer::new(()) };
    gate.offer_call(Time::ZERO, call, terms, &mut Actions::default()).is_some()
}

#[test]
fn it_gives_back_what_it_was_let_in_with() {
    let (gate, revoked, sent) = (gate(), call(), call());
    assert!(starts(&gate, &revoked));
    gate.cancel(&*revoked, &mut Actions::default());
    assert!(!revoked.about().begin(), "no worker runs it");
    assert!(starts(&gate, &sent), "the backend has seen none");
    assert!(sent.about().begin());
    gate.cancel(&*sent, &mut Actions::default());
    assert!(!starts(&gate, &call()), "the backend may have seen it");
}
