//! The reserve: idle capacity that several partitions may use, and that never costs its owner.

use std::time::Duration;

use watertight::outcome::Status;
use watertight::time::{Clock, ManualClock};
use watertight::{Partition, PartitionSpec, Runtime};

use crate::support::{MS, assert_adds_up, assert_whole, ends, held, occupy, until};

/// A runtime with a reserve, on a clock of the test's own.
fn runtime(reserve: u32, specs: impl IntoIterator<Item = PartitionSpec>) -> (Runtime, ManualClock) {
    let (clock, hand) = Clock::manual();
    let builder = Runtime::builder().reserve(reserve).clock(clock);
    let builder = specs.into_iter().fold(builder, watertight::Builder::partition);
    (builder.build().unwrap(), hand)
}

fn borrower(name: &str, most: u32) -> PartitionSpec {
    PartitionSpec::new(name).slots(1).queue(8).reserve_max(most)
}

fn partition(runtime: &Runtime, name: &str) -> Partition {
    runtime.partition(name).unwrap().clone()
}

fn free(runtime: &Runtime) -> u32 {
    runtime.snapshot().reserve.free
}

#[test]
fn a_full_partition_borrows_as_much_as_it_may_and_gives_it_back() {
    let (runtime, _hand) = runtime(3, [borrower("search", 2), borrower("tickets", 2)]);
    let search = partition(&runtime, "search");
    let holds: Vec<_> = (0..3).map(|_| occupy(&search)).collect();
    let gauges = search.snapshot().gauges;
    assert_eq!((gauges.running, gauges.borrowed, free(&runtime)), (3, 2, 1));
    assert_adds_up(&search.snapshot());

    let fourth = search.submit(|_| Ok(()));
    assert_eq!(search.snapshot().gauges.waiting, 1, "reserve_max bounds it");
    holds.into_iter().for_each(crate::support::Held::release);
    assert!(fourth.wait().is_ok());
    until("everything is given back", || free(&runtime) == 3);
    assert_whole(&search);
}

#[test]
fn a_borrower_at_its_limit_takes_nothing_from_its_neighbour() {
    let neighbour = PartitionSpec::new("tickets").slots(2);
    let (runtime, _hand) = runtime(2, [borrower("search", 1), neighbour]);
    let (search, tickets) = (partition(&runtime, "search"), partition(&runtime, "tickets"));
    let _searches = [occupy(&search), occupy(&search)];
    let refused = search.submit(|_| Ok(()));
    assert_eq!((search.snapshot().gauges.waiting, free(&runtime)), (1, 1));
    let _reads = [occupy(&tickets), occupy(&tickets)];
    let third = tickets.submit(|_| Ok(()));
    let gauges = tickets.snapshot().gauges;
    assert_eq!((gauges.waiting, gauges.borrowed), (1, 0), "without reserve_max it never borrows");
    drop((refused, third));
}

#[test]
fn a_call_that_cannot_wait_borrows_too() {
    let spec = borrower("search", 1).queue(0).max_wait(Duration::ZERO);
    let (runtime, _hand) = runtime(1, [spec]);
    let search = partition(&runtime, "search");
    let _holds = [occupy(&search), occupy(&search)];
    assert_eq!(search.call(|_| Ok(())).status(), Status::Busy);
    assert!(search.permit().is_err());
}

#[test]
fn a_permit_borrows_and_gives_back() {
    let (runtime, _hand) = runtime(1, [borrower("search", 1)]);
    let search = partition(&runtime, "search");
    let own = occupy(&search);
    let permit = search.permit().unwrap();
    assert_eq!((search.snapshot().gauges.borrowed, free(&runtime)), (1, 0));
    drop(permit);
    assert_eq!((search.snapshot().gauges.borrowed, free(&runtime)), (0, 1));
    drop(own);
}

#[test]
fn a_slot_that_comes_back_goes_to_the_partition_in_line() {
    let (runtime, _hand) = runtime(1, [borrower("search", 1), borrower("tickets", 1)]);
    let (search, tickets) = (partition(&runtime, "search"), partition(&runtime, "tickets"));
    let (own, lent) = (occupy(&search), occupy(&search));
    let also_own = occupy(&tickets);
    let (held, body) = held();
    let waits = tickets.submit(body);
    assert_eq!(tickets.snapshot().gauges.waiting, 1);
    assert_eq!(runtime.snapshot().reserve.waiting, 1);

    lent.release();
    held.wait_begun();
    let (search_gauges, tickets_gauges) = (search.snapshot().gauges, tickets.snapshot().gauges);
    assert_eq!((search_gauges.borrowed, tickets_gauges.borrowed), (0, 1));
    assert_eq!((free(&runtime), runtime.snapshot().reserve.waiting), (0, 0));
    held.release();
    assert!(waits.wait().is_ok());
    until("it is free", || free(&runtime) == 1);
    drop((own, also_own));
}

#[test]
fn what_nobody_in_line_wants_any_more_goes_on_to_the_next() {
    let specs = ["a", "b", "c"].map(|name| borrower(name, 1).max_wait(50 * MS));
    let (runtime, hand) = runtime(1, specs);
    let [a, b, c] = ["a", "b", "c"].map(|name| partition(&runtime, name));
    let own = [occupy(&a), occupy(&b), occupy(&c)];
    let lent = occupy(&a);
    let expires = b.submit(|_| Ok(()));
    hand.advance(40 * MS);
    let stays = c.submit(|_| Ok(()));
    hand.advance(10 * MS);
    assert_eq!(expires.wait().status(), Status::Busy);
    lent.release();
    assert!(stays.wait().is_ok(), "b is in line before it, and wants nothing");
    until("it is free", || free(&runtime) == 1);
    drop(own);
}

#[test]
fn partitions_take_turns_at_the_reserve() {
    let (runtime, _hand) = runtime(1, [borrower("a", 1).queue(50), borrower("b", 1).queue(50)]);
    let (a, b) = (partition(&runtime, "a"), partition(&runtime, "b"));
    let own = [occupy(&a), occupy(&b)];
    let lent = occupy(&a);
    let (tell, told) = crossbeam_channel::bounded(40);
    for (name, partition, calls) in [("a", &a, 20), ("b", &b, 20)] {
        for _ in 0..calls {
            let tell = tell.clone();
            let body = move |_: &watertight::call::Run| {
                tell.send(name).unwrap();
                Ok(())
            };
            partition.submit(body).detach();
        }
    }
    lent.release();
    let order: Vec<_> = (0..40).map(|_| told.recv_timeout(crate::support::HANG).unwrap()).collect();
    // The one that gave it up gets in line behind the other; then they alternate.
    for pair in order.windows(2) {
        assert_ne!(pair[0], pair[1], "{order:?}");
    }
    drop(own);
}

#[test]
fn a_panic_and_a_dropped_ticket_give_the_slot_back() {
    let (runtime, _hand) = runtime(1, [borrower("search", 1)]);
    let search = partition(&runtime, "search");
    let own = occupy(&search);
    for _ in 0..100 {
        let panics = search.submit(|_| -> Result<(), _> { panic!("on purpose") });
        assert_eq!(panics.wait().status(), Status::Panicked);
        drop(search.submit(|_| Ok(())));
        until("it is given back", || free(&runtime) == 1);
    }
    drop(own);
    assert_whole(&search);
}

#[test]
fn a_shutdown_with_a_line_for_the_reserve_ends() {
    let (runtime, hand) = runtime(1, [borrower("a", 1), borrower("b", 1)]);
    let (a, b) = (partition(&runtime, "a"), partition(&runtime, "b"));
    let holds = [occupy(&a), occupy(&a), occupy(&b)];
    let waits = b.submit(|_| Ok(()));
    assert_eq!(runtime.snapshot().reserve.waiting, 1);
    let report = ends("a shutdown", move || runtime.shutdown(Duration::ZERO));
    assert_eq!(report.left.len(), 3);
    assert_eq!(waits.wait().status(), Status::Cancelled);
    drop((holds, hand));
}

#[test]
fn a_reserve_that_cannot_be_is_refused() {
    let without = Runtime::builder().partition(borrower("search", 1)).build();
    assert_eq!(
        without.unwrap_err().to_string(),
        "partition.search.reserve_max = 1: has no reserve to borrow from; add a reserve, or leave \
         it out"
    );
    let huge = Runtime::builder().reserve(4097).build();
    assert!(huge.unwrap_err().to_string().contains("must be 0 to 4096"));
    let much = Runtime::builder().reserve(1).partition(borrower("search", 4097)).build();
    assert!(much.unwrap_err().to_string().contains("must be 0 to 4096"));
    assert_eq!(borrower("search", 2).replace_overdue(3).capacity(), 1 + 2 + 3);
}
