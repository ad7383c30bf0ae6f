//! The timekeeper: no wake-up is lost, whatever arms it, and a clock that was moved comes to rest.

use std::time::Duration;

use shuttle::thread;
use watertight::call::Terms;
use watertight::outcome::Status;

use crate::explore::{
    Latch, MS, assert_adds_up, assert_ends, assert_whole, explore, narrow, nothing, one,
};

#[test]
fn an_earlier_target_against_a_clock_that_moves() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let latch = Latch::default();
        let hung = search.submit_with(Terms::new().deadline(20 * MS), latch.body());
        let moves = hand.clone();
        let clock = thread::spawn(move || moves.advance(MS));
        let waiter = search.submit_with(Terms::new().deadline(2 * MS), nothing);
        clock.join().unwrap();
        hand.advance(2 * MS);
        assert!(waiter.is_finished(), "it is due by now, and the clock has settled");
        assert!(!hung.is_finished());
        hand.advance(17 * MS);
        assert!(hung.is_finished());
        assert_eq!(hung.wait().status(), Status::Timeout);
        assert_eq!(waiter.wait().status(), Status::Timeout);
        latch.open();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn two_offers_that_arm_it_and_a_clock_that_moves() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let offers = [3, 2].map(|ms| {
            let search = search.clone();
            thread::spawn(move || search.submit_with(Terms::new().deadline(ms * MS), nothing))
        });
        hand.advance(MS);
        let tickets = offers.map(|offer| offer.join().unwrap());
        hand.advance(3 * MS);
        for ticket in tickets {
            assert!(ticket.is_finished());
            assert_eq!(ticket.wait().status(), Status::Timeout);
        }
        latch.open();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn nobody_waits_on_the_ticket() {
    explore(|| {
        let (runtime, search, hand) = one(narrow().run_limit(5 * MS).cancel_grace(MS));
        let latch = Latch::default();
        let hung = search.submit(latch.body());
        hand.advance(5 * MS);
        hand.advance(MS);
        assert!(hung.is_finished());
        latch.open();
        assert_whole(&runtime, &search);
        assert_eq!(hung.wait().status(), Status::Timeout);
    });
}

#[test]
fn two_hands_on_one_clock() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let waiter = search.submit(nothing);
        let other = hand.clone();
        let other = thread::spawn(move || other.advance(25 * MS));
        hand.advance(25 * MS);
        other.join().unwrap();
        assert!(waiter.is_finished());
        assert_adds_up(&search.snapshot());
        latch.open();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn a_spare_against_the_return() {
    explore(|| {
        let spec = narrow().run_limit(5 * MS).cancel_grace(MS);
        let (runtime, search, hand) = one(spec.replace_overdue(1).max_wait(Duration::from_secs(1)));
        let latch = Latch::default();
        let hung = search.submit(latch.body());
        let waiter = search.submit(nothing);
        let clock = thread::spawn(move || hand.advance(6 * MS));
        latch.open();
        assert!([Status::Ok, Status::Timeout].contains(&hung.wait().status()));
        assert!([Status::Ok, Status::Timeout].contains(&waiter.wait().status()));
        assert_adds_up(&search.snapshot());
        clock.join().unwrap();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn a_clock_that_moves_while_the_runtime_ends() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let clock = thread::spawn(move || hand.advance(50 * MS));
        let waiter = search.submit(nothing);
        assert_ends(&runtime);
        clock.join().unwrap();
        let known = [Status::Ok, Status::Cancelled];
        assert!(known.contains(&waiter.wait().status()));
    });
}
