//! A call that is called off between its start and the first step of its worker: nothing was sent.

use std::sync::Arc;
use std::time::Duration;

use super::PartitionSpec;
use super::actions::Actions;
use super::cell::{About, Call, Cell, Late};
use super::gate::{Gate, Offered};
use super::state::{Waiting, Who};
use crate::admission::Offer;
use crate::call::Run;
use crate::outcome::Failure;
use crate::time::{Clock, Time};

/// A gate that lets one call through in an hour, without workers.
fn gate() -> Gate {
    let rate = "1/h".parse().expect("a rate");
    let spec = PartitionSpec::new("search").slots(3).rate(rate);
    Gate::new(spec.policy, &spec.door, Clock::manual().0, None).expect("sensible")
}

fn call() -> Arc<dyn Call> {
    let body = |_: &Run| Ok::<_, Failure>(Late::Now(()));
    Arc::new(Cell::new(About::new("search".into(), Time::MAX), body, None))
}

/// Whether it gets a slot.
fn starts(gate: &Gate, call: &Arc<dyn Call>) -> bool {
    let offer = Offer {
        wait_until: Time::ZERO,
        deadline: Time::MAX,
        run_for: Duration::MAX,
        ..Offer::new(Waiting::new(Who::Call(Arc::clone(call))))
    };
    matches!(gate.offer(Time::ZERO, offer, &mut Actions::default()), Offered::Started(_))
}

#[test]
fn it_gives_back_what_it_was_let_in_with() {
    let (gate, revoked, sent) = (gate(), call(), call());
    assert!(starts(&gate, &revoked));
    gate.cancel(&*revoked, None, &mut Actions::default());
    assert!(!revoked.about().begin(), "no worker runs it");
    assert!(starts(&gate, &sent), "the backend has seen none");
    assert!(sent.about().begin());
    gate.cancel(&*sent, None, &mut Actions::default());
    assert!(!starts(&gate, &call()), "the backend may have seen it");
}
