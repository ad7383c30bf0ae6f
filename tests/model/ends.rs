//! Who answers, and where what nobody wants is dropped: a worker's result against deadlines,
//! cancels, drops and detached tickets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shuttle::thread;
use watertight::Partition;
use watertight::call::Terms;
use watertight::outcome::Status;

use crate::explore::{
    Latch, MS, assert_adds_up, assert_ends, assert_whole, explore, narrow, nothing, one,
};

/// Something of the user's; says where it is dropped.
struct Mine {
    partition: Partition,
    drops: Arc<AtomicU32>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        let thread = thread::current().name().unwrap_or_default().to_owned();
        assert_ne!(thread, "search-time", "it may block");
        if thread == "search-0" {
            let g = self.partition.snapshot().gauges;
            assert!(g.running + g.overdue > 0, "its slot is not free yet");
        }
    }
}

fn mine(partition: &Partition) -> (Mine, Arc<AtomicU32>) {
    let drops = Arc::new(AtomicU32::new(0));
    let mine = Mine { partition: partition.clone(), drops: Arc::clone(&drops) };
    (mine, drops)
}

#[test]
fn a_result_against_its_deadline() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let (mine, drops) = mine(&search);
        let ticket = search.submit_with(Terms::new().deadline(MS), move |_| Ok(mine));
        let clock = thread::spawn(move || hand.advance(MS));
        let outcome = ticket.wait();
        assert_adds_up(&search.snapshot());
        assert!([Status::Ok, Status::Timeout].contains(&outcome.status()));
        drop(outcome);
        clock.join().unwrap();
        assert_whole(&runtime, &search);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_result_against_its_deadline_and_a_dropped_ticket() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let (mine, drops) = mine(&search);
        let ticket = search.submit_with(Terms::new().deadline(MS), move |_| Ok(mine));
        let clock = thread::spawn(move || hand.advance(MS));
        drop(ticket);
        clock.join().unwrap();
        assert_whole(&runtime, &search);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert_eq!(search.snapshot().counts.total(), 2);
    });
}

#[test]
fn a_result_against_its_deadline_and_a_detached_ticket() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let (mine, drops) = mine(&search);
        let ticket = search.submit_with(Terms::new().deadline(MS), move |_| Ok(mine));
        let clock = thread::spawn(move || hand.advance(MS));
        ticket.detach();
        clock.join().unwrap();
        assert_whole(&runtime, &search);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_waiting_body_against_its_expiry_and_a_detached_ticket() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let (mine, drops) = mine(&search);
        let waiter = search.submit(move |_| {
            drop(mine);
            Ok(())
        });
        let clock = thread::spawn(move || hand.advance(50 * MS));
        waiter.detach();
        clock.join().unwrap();
        latch.open();
        assert_whole(&runtime, &search);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_waiting_body_against_its_expiry_and_a_dropped_ticket() {
    explore(|| {
        let (runtime, search, hand) = one(narrow());
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let (mine, drops) = mine(&search);
        let waiter = search.submit(move |_| {
            drop(mine);
            Ok(())
        });
        let clock = thread::spawn(move || hand.advance(50 * MS));
        drop(waiter);
        assert_eq!(drops.load(Ordering::SeqCst), 1, "dropped with its ticket");
        clock.join().unwrap();
        latch.open();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn a_detached_body_against_the_close() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow());
        let latch = Latch::default();
        search.submit(latch.body()).detach();
        let (mine, drops) = mine(&search);
        let waiter = search.submit(move |_| {
            drop(mine);
            Ok(())
        });
        let detach = thread::spawn(move || waiter.detach());
        latch.open();
        assert_ends(&runtime);
        detach.join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

/// Blocks where it is dropped.
struct Blocks(Latch);

impl Drop for Blocks {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[test]
fn a_result_that_blocks_when_dropped_holds_up_nobody() {
    explore(|| {
        let (runtime, search, hand) = one(narrow().slots(2).max_wait(MS));
        let (latch, dropped) = (Latch::default(), Latch::default());
        let other = search.submit(latch.body());
        let blocks = Blocks(dropped.clone());
        let late = search.submit_with(Terms::new().deadline(MS), move |_| Ok(blocks));
        let waiter = search.submit(nothing);
        let clock = thread::spawn(move || hand.advance(MS));
        // The destructor may run where the ticket is detached, if the result is there by then.
        let detach = thread::spawn(move || late.detach());
        // With one worker in the destructor, and time going by, the waiter is answered.
        latch.open();
        assert!([Status::Ok, Status::Busy].contains(&waiter.wait().status()));
        assert!(other.wait().is_ok());
        clock.join().unwrap();
        dropped.open();
        detach.join().unwrap();
        assert_whole(&runtime, &search);
    });
}

#[test]
fn a_cancel_against_the_end() {
    explore(|| {
        let (runtime, search, _hand) = one(narrow().replace_overdue(1));
        let ticket = search.submit(nothing);
        let next = search.submit(nothing);
        ticket.cancel();
        let known = [Status::Ok, Status::Cancelled];
        assert!(known.contains(&ticket.wait().status()));
        assert!(next.wait().is_ok());
        assert_adds_up(&search.snapshot());
        assert_whole(&runtime, &search);
    });
}
