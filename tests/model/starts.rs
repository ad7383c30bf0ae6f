//! Who starts: grants against expiries, cancels and drops; starts against the close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shuttle::thread;
use watertight::call::Terms;
use watertight::outcome::{Executed, Status};
use watertight::{PartitionSpec, Turn};

use crate::explore::{
    Latch, MS, assert_adds_up, assert_ends, assert_whole, explore, narrow, nothing, one,
};

#[test]
fn a_waiter_is_granted_or_expires_or_is_cancelled() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let (latch, ran) = (Latch::default(), Arc::new(AtomicU32::new(0)));
        let holder = search.submit(latch.body());
        let runs = Arc::clone(&ran);
        let waiter = search.submit(move |_| Ok(runs.fetch_add(1, Ordering::SeqCst)));
        let threads =
            [thread::spawn(move || latch.open()), thread::spawn(move || hand.advance(50 * MS))];
        waiter.cancel();
        let outcome = waiter.wait();
        assert_adds_up(&search.snapshot());
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(holder.wait().is_ok());
        assert_whole(&runtime, &search);
        let ran = ran.load(Ordering::SeqCst);
        match (outcome.status(), outcome.executed()) {
            (Status::Ok, _) => assert_eq!(ran, 1),
            (Status::Busy, _) | (Status::Cancelled, Executed::No) => assert_eq!(ran, 0),
            (Status::Cancelled, Executed::Unknown) => assert!(ran <= 1),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_waiter_is_granted_or_expires_or_is_dropped() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let waiter = search.submit(nothing);
        let behind = search.submit(nothing);
        let threads = [
            thread::spawn(move || latch.open()),
            thread::spawn(move || hand.advance(50 * MS)),
            thread::spawn(move || drop(waiter)),
        ];
        assert!([Status::Ok, Status::Busy].contains(&behind.wait().status()));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_whole(&runtime, &search);
        let counts = search.snapshot().counts;
        assert_eq!(counts.total(), 4);
    });
}

#[test]
fn permits_are_granted_or_expire() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let held = search.permit().unwrap();
        let waits = [search.clone(), search.clone()].map(|search| {
            thread::spawn(move || match search.permit() {
                Ok(permit) => {
                    assert_eq!(search.snapshot().gauges.running, 1);
                    permit.release();
                    Status::Ok
                }
                Err(refused) => refused.status(),
            })
        });
        let clock = thread::spawn(move || hand.advance(50 * MS));
        held.release();
        clock.join().unwrap();
        for waiter in waits {
            let status = waiter.join().unwrap();
            assert!([Status::Ok, Status::Busy].contains(&status));
        }
        assert_whole(&runtime, &search);
    });
}

#[test]
fn a_caller_that_has_its_answer_finds_its_slot_free() {
    explore(|| {
        let spec = narrow().queue(0).max_wait(Duration::ZERO);
        let (runtime, search, hand) = one(spec);
        let clock = thread::spawn(move || hand.advance(MS));
        assert!(search.call(nothing).is_ok());
        assert!(search.call(nothing).is_ok());
        drop(search.permit().unwrap());
        clock.join().unwrap();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn callers_that_are_preempted_after_the_decision_overtake_nobody() {
    explore(|| {
        let (runtime, search, _hand) = one(PartitionSpec::new("search").slots(2).queue(1));
        let now = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let callers = [0, 1, 2].map(|_| {
            let (search, now) = (search.clone(), Arc::clone(&now));
            thread::spawn(move || {
                let outcome = search.call(move |_| {
                    let inside = now.0.fetch_add(1, Ordering::SeqCst) + 1;
                    now.1.fetch_max(inside, Ordering::SeqCst);
                    thread::yield_now();
                    now.0.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                });
                assert!(outcome.is_ok());
            })
        });
        assert_adds_up(&search.snapshot());
        for caller in callers {
            caller.join().unwrap();
        }
        assert!(now.1.load(Ordering::SeqCst) <= 2);
        assert_whole(&runtime, &search);
    });
}

#[test]
fn a_start_against_the_close() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow());
        let callers = [0, 1].map(|_| {
            let search = search.clone();
            thread::spawn(move || {
                let outcome = search.call(nothing);
                let known = [Status::Ok, Status::Cancelled, Status::Failed];
                assert!(known.contains(&outcome.status()), "{outcome:?}");
            })
        });
        runtime.shutdown(Duration::ZERO);
        for caller in callers {
            caller.join().unwrap();
        }
        assert_ends(&runtime);
        let snapshot = search.snapshot();
        assert_adds_up(&snapshot);
        assert_eq!(snapshot.gauges.free, 1);
        assert_eq!(snapshot.counts.total(), 2);
    });
}

#[test]
fn two_shutdowns_at_once_against_a_running_call() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow());
        let runtime = Arc::new(runtime);
        let latch = Latch::default();
        let running = search.submit(latch.body());
        let waiting = search.submit(nothing);
        let other = Arc::clone(&runtime);
        let other = thread::spawn(move || drop(other.shutdown(Duration::ZERO)));
        runtime.shutdown(Duration::ZERO);
        assert_eq!(running.wait().status(), Status::Cancelled);
        assert_eq!(waiting.wait().status(), Status::Cancelled);
        latch.open();
        other.join().unwrap();
        assert_ends(&runtime);
    });
}

#[test]
fn a_turn_hands_out_every_outcome_once() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let mut turn = Turn::new();
        for _ in 0..3 {
            turn.submit(&search, Terms::new(), nothing);
        }
        turn.cancel(2);
        let clock = thread::spawn(move || hand.advance(50 * MS));
        let mut seen: Vec<_> = turn.map(|(index, _)| index).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
        clock.join().unwrap();
        assert_whole(&runtime, &search);
    });
}
