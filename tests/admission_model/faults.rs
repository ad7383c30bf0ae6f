//! Faults that other bulkheads are known for.

use std::time::Duration;

use watertight::admission::{
    Decision, Effects, Offer, Policy, Rejected, Rejection, Scheduler, SlotId, Started, WaiterId,
};
use watertight::outcome::{BusyReason, TimeoutClock};
use watertight::time::Time;

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn at(ms: u32) -> Time {
    Time::ZERO + ms * MS
}

pub(crate) fn waiting_until(payload: u32, until: Time) -> Offer<u32> {
    Offer { wait_until: until, ..Offer::new(payload) }
}

pub(crate) fn started(decision: Decision<u32>) -> Started<u32> {
    match decision {
        Decision::Start(started) => started,
        other => panic!("expected a start: {other:?}"),
    }
}

pub(crate) fn waiting(decision: Decision<u32>) -> WaiterId {
    match decision {
        Decision::Wait(id) => id,
        other => panic!("expected a wait: {other:?}"),
    }
}

pub(crate) fn rejected(decision: Decision<u32>) -> Rejected<u32> {
    match decision {
        Decision::Reject(rejected) => rejected,
        other => panic!("expected a rejection: {other:?}"),
    }
}

#[test]
fn waiters_that_expired_never_take_the_slot_that_comes_free() {
    let policy = Policy { queue: 8, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut now = at(0);
    for round in 0..1000 {
        let mut effects = Effects::default();
        let holder = started(scheduler.offer(now, Offer::new(round), &mut effects));
        for call in 0..8 {
            let offer = waiting_until(call, now + 5 * MS);
            waiting(scheduler.offer(now, offer, &mut effects));
        }
        now = now + 5 * MS;
        scheduler.finish(now, holder.slot);
        scheduler.dispatch(now, &mut effects);
        assert_eq!((effects.started.len(), effects.rejected.len()), (0, 8));

        let next = started(scheduler.offer(now, Offer::new(round), &mut effects));
        assert!(scheduler.finish(now, next.slot).is_some());
        scheduler.dispatch(now, &mut effects);
        assert_eq!(scheduler.gauges().free, 1);
    }
    assert!(!scheduler.is_broken());
}

#[test]
fn a_slot_that_comes_free_at_the_instant_of_expiry_is_not_granted_in_either_order() {
    for finish_first in [true, false] {
        let mut scheduler = Scheduler::new(Policy::new(1)).unwrap();
        let mut effects = Effects::default();
        let holder = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
        waiting(scheduler.offer(at(0), waiting_until(1, at(5)), &mut effects));
        if !finish_first {
            scheduler.dispatch(at(5), &mut effects);
        }
        scheduler.finish(at(5), holder.slot);
        scheduler.dispatch(at(5), &mut effects);
        assert!(effects.started.is_empty(), "finish first: {finish_first}");
        let [rejected] = &effects.rejected[..] else { panic!("one expired: {effects:?}") };
        assert_eq!(rejected.rejection, Rejection::Busy(BusyReason::SlotsFull));
        assert_eq!(rejected.waited, 5 * MS);
        started(scheduler.offer(at(5), Offer::new(2), &mut effects));
    }
}

#[test]
fn a_waiter_is_granted_until_just_before_it_expires() {
    let mut scheduler = Scheduler::new(Policy::new(1)).unwrap();
    let mut effects = Effects::default();
    let holder = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    waiting(scheduler.offer(at(0), waiting_until(1, at(5)), &mut effects));
    let just_before = Time::from_nanos(at(5).as_nanos() - 1);
    scheduler.finish(just_before, holder.slot);
    scheduler.dispatch(just_before, &mut effects);
    assert_eq!(effects.started.len(), 1);
}

#[test]
fn bursts_within_the_idle_slots_see_no_rejection() {
    for queue in [0, 5] {
        let policy = Policy { queue, ..Policy::new(5) };
        let mut scheduler = Scheduler::new(policy).unwrap();
        let mut effects = Effects::default();
        for burst in 0..1000 {
            let mut slots: Vec<_> = (0..4)
                .map(|call| {
                    // It would never wait: a rejection, if there is no slot at once.
                    let offer = waiting_until(call, at(burst));
                    started(scheduler.offer(at(burst), offer, &mut effects)).slot
                })
                .collect();
            slots.rotate_left(burst as usize % 4);
            for slot in slots {
                scheduler.finish(at(burst), slot);
            }
            scheduler.dispatch(at(burst), &mut effects);
        }
        assert!(effects.is_empty());
    }
}

#[test]
fn expired_waiters_never_count_as_full() {
    let policy = Policy { queue: 1, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut effects = Effects::default();
    started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    waiting(scheduler.offer(at(0), waiting_until(1, at(5)), &mut effects));
    let full = rejected(scheduler.offer(at(4), waiting_until(2, at(9)), &mut effects));
    assert_eq!(full.rejection, Rejection::Busy(BusyReason::QueueFull));
    waiting(scheduler.offer(at(5), waiting_until(3, at(9)), &mut effects));
    assert_eq!(effects.rejected.len(), 1);
}

#[test]
fn a_withdrawn_head_never_blocks_the_next() {
    let mut scheduler = Scheduler::new(Policy::new(1)).unwrap();
    let mut effects = Effects::default();
    let holder = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    let head = waiting(scheduler.offer(at(0), Offer::new(1), &mut effects));
    waiting(scheduler.offer(at(0), Offer::new(2), &mut effects));
    assert_eq!(scheduler.withdraw(at(1), head), Some((1, MS)));
    assert_eq!(scheduler.withdraw(at(1), head), None);
    scheduler.finish(at(1), holder.slot);
    scheduler.dispatch(at(1), &mut effects);
    assert_eq!(effects.started[0].payload, 2);
}

#[test]
fn a_lone_waiter_is_due_on_time_and_says_which_limit_it_was() {
    let mut scheduler = Scheduler::new(Policy::new(1)).unwrap();
    let mut effects = Effects::default();
    started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    let offer = Offer { deadline: at(4), ..waiting_until(1, at(5)) };
    waiting(scheduler.offer(at(0), offer, &mut effects));
    assert_eq!(scheduler.next_due(), at(4));
    scheduler.dispatch(at(4), &mut effects);
    assert_eq!(effects.rejected[0].rejection, Rejection::Deadline);
    assert_eq!(effects.rejected[0].retry_after, None);
    assert_eq!(scheduler.next_due(), Time::MAX);
}

#[test]
fn a_call_that_never_returns_costs_one_slot_until_it_is_made_up_for() {
    let policy = Policy { replace_overdue: 1, ..Policy::new(2) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut effects = Effects::default();
    let stuck = [0, 1].map(|call| {
        let offer = Offer { run_for: 10 * MS, ..Offer::new(call) };
        started(scheduler.offer(at(0), offer, &mut effects)).slot
    });
    scheduler.dispatch(at(10), &mut effects);
    let clocks: Vec<_> = effects.overdue.iter().map(|due| due.clock).collect();
    assert_eq!(clocks, [TimeoutClock::Run; 2]);
    let busy = rejected(scheduler.offer(at(10), waiting_until(2, at(0)), &mut effects));
    assert_eq!(busy.rejection, Rejection::Busy(BusyReason::SlotsStuck));

    assert!(scheduler.replace(stuck[0]));
    assert!(!scheduler.replace(stuck[0]), "one spare for one call");
    assert!(!scheduler.replace(stuck[1]), "no spare is left");
    assert_eq!(scheduler.gauges().free, 1);
    let third = started(scheduler.offer(at(10), Offer::new(3), &mut effects));

    scheduler.finish(at(20), stuck[0]);
    let gauges = scheduler.gauges();
    assert_eq!((gauges.free, gauges.replaced), (1, 1), "the spare went on to the other");
    scheduler.finish(at(20), stuck[1]);
    scheduler.finish(at(20), third.slot);
    let gauges = scheduler.gauges();
    assert_eq!((gauges.free, gauges.replaced, gauges.overdue), (2, 0, 0));
}

#[test]
fn an_overdue_call_is_aborted_once_its_grace_is_over() {
    for grace in [Duration::ZERO, 3 * MS] {
        let policy = Policy { cancel_grace: grace, ..Policy::new(1) };
        let mut scheduler = Scheduler::new(policy).unwrap();
        let mut effects = Effects::default();
        let offer = Offer { deadline: at(10), ..Offer::new(0) };
        let stuck = started(scheduler.offer(at(0), offer, &mut effects)).slot;
        scheduler.dispatch(at(10), &mut effects);
        assert_eq!(effects.overdue[0].clock, TimeoutClock::Deadline);
        assert_eq!(effects.abort.is_empty(), !grace.is_zero());
        scheduler.dispatch(at(10) + grace, &mut effects);
        scheduler.dispatch(at(99), &mut effects);
        assert_eq!(effects.abort, [stuck], "once and no more");
    }
}

#[test]
fn a_slot_that_does_not_exist_is_no_slot() {
    let mut scheduler = Scheduler::<u32>::new(Policy::new(1)).unwrap();
    for slot in [SlotId(0), SlotId(1), SlotId(u32::MAX)] {
        assert_eq!(scheduler.finish(at(0), slot), None);
        assert!(!scheduler.answer(at(0), slot));
        assert!(!scheduler.replace(slot));
    }
    assert!(!scheduler.is_broken());
}
