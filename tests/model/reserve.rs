//! The reserve: nobody waits beside a free slot of it, whatever overtakes what.

use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::Mutex;
use shuttle::thread;
use watertight::outcome::Status;
use watertight::time::{Clock, ManualClock};
use watertight::{Partition, PartitionSpec, Runtime};

use crate::explore::{Latch, MS, assert_adds_up, assert_ends, explore, nothing};

/// Two partitions of one slot each that may borrow the one slot of the reserve.
fn two() -> (Runtime, [Partition; 2], ManualClock) {
    let (clock, hand) = Clock::manual();
    let spec = |name| PartitionSpec::new(name).slots(1).queue(4).reserve_max(1);
    let runtime = Runtime::builder().reserve(1).clock(clock);
    let runtime = runtime.partition(spec("a")).partition(spec("b")).build().unwrap();
    let partitions = ["a", "b"].map(|name| runtime.partition(name).unwrap().clone());
    (runtime, partitions, hand)
}

/// A clock that stands still expires nobody: a waiter that was left beside a free slot would wait
/// for ever, and the model would say deadlock.
#[test]
fn a_release_against_a_registration() {
    explore(|| {
        let (runtime, [a, b], _hand) = two();
        let (own, lent) = (Latch::default(), Latch::default());
        a.submit(own.body()).detach();
        b.submit(own.body()).detach();
        let borrower = a.submit(lent.body());
        let releases = thread::spawn(move || lent.open());
        let registers = thread::spawn(move || b.submit(nothing).wait().status());
        assert_eq!(registers.join().unwrap(), Status::Ok);
        releases.join().unwrap();
        assert!(borrower.wait().is_ok());
        own.open();
        assert_ends(&runtime);
        assert_eq!(runtime.snapshot().reserve.free, 1);
        assert_adds_up(&a.snapshot());
    });
}

#[test]
fn whoever_gives_a_slot_back_comes_after_those_in_line() {
    explore(|| {
        let (runtime, [a, b], _hand) = two();
        let (own, lent) = (Latch::default(), Latch::default());
        a.submit(own.body()).detach();
        b.submit(own.body()).detach();
        a.submit(lent.body()).detach();
        let order = Arc::new(Mutex::new(Vec::new()));
        let submit = |partition: &Partition| {
            let (name, order) = (partition.name().to_owned(), Arc::clone(&order));
            partition.submit(move |_| Ok(order.lock().unwrap().push(name)))
        };
        let tickets = [&a, &a, &b, &b].map(submit);
        lent.open();
        for ticket in tickets {
            assert!(ticket.wait().is_ok());
        }
        assert_eq!(*order.lock().unwrap(), ["b", "a", "b", "a"]);
        own.open();
        assert_ends(&runtime);
    });
}

#[test]
fn a_grant_against_the_expiry_of_the_one_it_is_for() {
    explore(|| {
        let (runtime, [a, b], hand) = two();
        let (own, lent) = (Latch::default(), Latch::default());
        a.submit(own.body()).detach();
        b.submit(own.body()).detach();
        a.submit(lent.body()).detach();
        let waiter = b.submit(nothing);
        let threads =
            [thread::spawn(move || lent.open()), thread::spawn(move || hand.advance(50 * MS))];
        assert!([Status::Ok, Status::Busy].contains(&waiter.wait().status()));
        for thread in threads {
            thread.join().unwrap();
        }
        own.open();
        assert_ends(&runtime);
        assert_eq!(runtime.snapshot().reserve.free, 1, "whoever had it gave it back");
    });
}

#[test]
fn a_grant_against_the_end() {
    explore(|| {
        let (runtime, [a, b], _hand) = two();
        let (own, lent) = (Latch::default(), Latch::default());
        a.submit(own.body()).detach();
        b.submit(own.body()).detach();
        a.submit(lent.body()).detach();
        let waiter = b.submit(nothing);
        let opens = thread::spawn(move || {
            lent.open();
            own.open();
        });
        assert!(runtime.shutdown(Duration::from_secs(3_600)).is_clean());
        assert!([Status::Ok, Status::Cancelled].contains(&waiter.wait().status()));
        opens.join().unwrap();
        assert_eq!(runtime.snapshot().reserve.free, 1);
    });
}
