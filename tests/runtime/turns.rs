//! Turns: many calls from one thread, outcomes in order of completion.

use crossbeam_channel::bounded;
use watertight::call::Terms;
use watertight::outcome::Status;
use watertight::{PartitionSpec, Turn};

use crate::support::{HANG, assert_whole, ends, held, one, one_on_manual_clock, until};

fn spec() -> PartitionSpec {
    PartitionSpec::new("search").slots(4).max_wait(HANG)
}

#[test]
fn in_order_of_completion() {
    let (_runtime, search) = one(spec());
    let mut turn = Turn::new();
    let mut held_bodies = Vec::new();
    for _ in 0..3 {
        let (held, body) = held();
        assert_eq!(turn.submit(&search, Terms::new(), body), held_bodies.len());
        held.wait_begun();
        held_bodies.push(Some(held));
    }
    assert_eq!(turn.remaining(), 3);
    for at in [2, 0, 1] {
        held_bodies[at].take().unwrap().release();
        let (index, outcome) = turn.next().unwrap();
        assert_eq!(index, at);
        assert!(outcome.is_ok());
    }
    assert_eq!(turn.remaining(), 0);
    assert!(turn.next().is_none());
}

#[test]
fn every_outcome_is_handed_out_once() {
    let (_runtime, search) = one(spec().queue(5_000));
    let mut turn = Turn::new();
    for at in 0..5_000_usize {
        turn.submit(&search, Terms::new(), move |_| Ok(at));
    }
    let mut seen = vec![false; 5_000];
    for (index, outcome) in turn.by_ref() {
        assert_eq!(outcome.ok(), Some(index));
        assert!(!std::mem::replace(&mut seen[index], true));
    }
    assert!(seen.into_iter().all(|seen| seen));
    turn.submit(&search, Terms::new(), |_| Ok(7));
    assert_eq!(turn.next().unwrap().1.ok(), Some(7), "it may go on");
}

#[test]
fn rejections_are_outcomes_like_any_other() {
    let (_runtime, search) = one(spec().slots(1).queue(0));
    let (held, body) = held();
    let mut turn = Turn::new();
    turn.submit(&search, Terms::new(), body);
    held.wait_begun();
    turn.submit(&search, Terms::new(), |_| Ok(()));
    let (index, outcome) = turn.next().unwrap();
    assert_eq!((index, outcome.status()), (1, Status::Busy));
    held.release();
    assert!(turn.next().unwrap().1.is_ok());
}

#[test]
fn one_call_of_many_is_cancelled() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    let (held, body) = held();
    let mut turn = Turn::new();
    turn.submit(&search, Terms::new(), body);
    held.wait_begun();
    turn.cancel(7);
    turn.cancel(0);
    let (index, outcome) = turn.next().unwrap();
    assert_eq!((index, outcome.status()), (0, Status::Cancelled));
    turn.cancel(0);
    held.release();
    assert_whole(&search);
}

#[test]
fn dropping_it_cancels_the_rest() {
    let (_runtime, search) = one(spec());
    let (begins, begun) = bounded(2);
    let (ends, ended) = bounded(2);
    let mut turn = Turn::new();
    for _ in 0..2 {
        let (begins, ends) = (begins.clone(), ends.clone());
        turn.submit(&search, Terms::new(), move |run| {
            begins.send(()).unwrap();
            ends.send(run.cancel_token().wait(HANG)).unwrap();
            Ok(())
        });
        begun.recv_timeout(HANG).unwrap();
    }
    drop(turn);
    for _ in 0..2 {
        assert_eq!(ended.recv_timeout(HANG), Ok(true));
    }
    assert_whole(&search);
    assert_eq!(search.snapshot().counts.cancelled, 2);
}

#[test]
fn it_need_not_be_looked_after() {
    let (_runtime, search, hand) = one_on_manual_clock(spec().slots(1));
    let (held, body) = held();
    let mut turn = Turn::new();
    turn.submit(&search, Terms::new(), body);
    held.wait_begun();
    turn.submit(&search, Terms::new(), |_| Ok(()));
    hand.advance(HANG);
    until("both are answered", || search.snapshot().counts.total() == 2);
    let statuses = ends("a turn", move || {
        let ended: Vec<_> = turn.map(|(_, outcome)| outcome.status()).collect();
        ended
    });
    assert_eq!(statuses.len(), 2);
    assert!(statuses.contains(&Status::Timeout));
    assert!(statuses.contains(&Status::Busy));
    held.release();
}
