//! Results, captures and panic payloads whose destructors panic or block cost their own call, and
//! nothing else: not a worker, not the timekeeper, not another caller.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use watertight::call::Run;
use watertight::outcome::{Failure, Status};
use watertight::{Partition, PartitionSpec};

use crate::support::{HANG, MS, assert_whole, ends, held, occupy, one_on_manual_clock, until};

const RUN_END: Duration = Duration::from_millis(30_100);

/// Something of the user's whose destructor goes wrong, and says on which thread.
struct Mine {
    dropped_on: Sender<String>,
    blocks: Option<Receiver<()>>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        let thread = thread::current().name().unwrap_or_default().to_owned();
        let _ = self.dropped_on.send(thread);
        match &self.blocks {
            Some(released) => drop(released.recv()),
            None => resume_unwind(Box::new("a destructor")),
        }
    }
}

/// What the test sees of it; dropping this lets a blocked destructor go on.
struct Watch {
    dropped_on: Receiver<String>,
    _release: Sender<()>,
}

impl Watch {
    #[track_caller]
    fn thread(&self) -> String {
        self.dropped_on.recv_timeout(HANG).expect("never dropped")
    }
}

fn mine(blocks: bool) -> (Mine, Watch) {
    let (dropped, dropped_on) = bounded(1);
    let (release, released) = bounded(0);
    let mine = Mine { dropped_on: dropped, blocks: blocks.then_some(released) };
    let watch = Watch { dropped_on, _release: release };
    (mine, watch)
}

fn two_slots() -> PartitionSpec {
    PartitionSpec::new("search").slots(2).queue(2)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

fn is_worker(thread: &str) -> bool {
    thread == "search-0" || thread == "search-1"
}

/// While a destructor blocks a worker: its slot is held, the other one works.
#[track_caller]
fn assert_one_slot_is_held(search: &Partition) {
    let g = search.snapshot().gauges;
    assert_eq!((g.running + g.overdue, g.free), (1, 1), "{g:?}");
    assert!(search.call(nothing).is_ok());
}

#[test]
fn a_result_that_came_too_late() {
    for blocks in [false, true] {
        let (_runtime, search, _hand) = one_on_manual_clock(two_slots());
        let (mine, watch) = mine(blocks);
        let (held, body) = held();
        let ticket = search.submit(move |run| body(run).map(|()| mine));
        held.wait_begun();
        ticket.cancel();
        assert_eq!(ticket.wait().status(), Status::Cancelled);
        held.release();
        assert!(is_worker(&watch.thread()));
        if blocks {
            assert_one_slot_is_held(&search);
        }
        drop(watch);
        assert_whole(&search);
    }
}

#[test]
fn a_result_whose_ticket_was_dropped_meanwhile() {
    for blocks in [false, true] {
        let (_runtime, search, _hand) = one_on_manual_clock(two_slots());
        let (mine, watch) = mine(blocks);
        let (held, body) = held();
        let ticket = search.submit(move |run| body(run).map(|()| mine));
        held.wait_begun();
        drop(ticket);
        held.release();
        assert!(is_worker(&watch.thread()));
        if blocks {
            assert_one_slot_is_held(&search);
        }
        drop(watch);
        assert_whole(&search);
    }
}

#[test]
fn a_result_of_a_detached_call() {
    for blocks in [false, true] {
        let (_runtime, search, hand) = one_on_manual_clock(two_slots());
        let (mine, watch) = mine(blocks);
        let (held, body) = held();
        search.submit(move |run| body(run).map(|()| mine)).detach();
        held.wait_begun();
        held.release();
        assert!(is_worker(&watch.thread()));
        if blocks {
            assert_one_slot_is_held(&search);
            hand.advance(RUN_END);
            assert_eq!(search.snapshot().gauges.overdue, 1);
            assert_one_slot_is_held(&search);
        }
        drop(watch);
        assert_whole(&search);
    }
}

#[test]
fn detached_results_that_panic_one_after_the_other() {
    let (_runtime, search, _hand) = one_on_manual_clock(two_slots());
    for _ in 0..100 {
        let (mine, watch) = mine(false);
        search.submit(move |_| Ok(mine)).detach();
        watch.thread();
    }
    assert_whole(&search);
}

#[test]
fn a_result_that_nobody_took() {
    let (_runtime, search, _hand) = one_on_manual_clock(two_slots());
    for detach in [false, true] {
        let (mine, watch) = mine(false);
        let ticket = search.submit(move |_| Ok(mine));
        until("it is finished", || ticket.is_finished());
        if detach {
            ticket.detach();
        } else {
            drop(ticket);
        }
        let here = thread::current().name().unwrap_or_default().to_owned();
        assert_eq!(watch.thread(), here, "its slot is free already");
    }
    assert_whole(&search);
}

#[test]
fn a_capture_of_a_body_that_ran() {
    for blocks in [false, true] {
        let (_runtime, search, hand) = one_on_manual_clock(two_slots());
        let (mine, watch) = mine(blocks);
        let ticket = search.submit(move |_| {
            let _mine = mine;
            Ok(())
        });
        assert!(is_worker(&watch.thread()));
        if blocks {
            assert_one_slot_is_held(&search);
            hand.advance(RUN_END);
            assert_eq!(ticket.wait().status(), Status::Timeout);
        } else {
            assert_eq!(ticket.wait().status(), Status::Panicked);
        }
        drop(watch);
        assert_whole(&search);
    }
}

#[test]
fn a_panic_payload() {
    for blocks in [false, true] {
        let (_runtime, search, hand) = one_on_manual_clock(two_slots());
        let (mine, watch) = mine(blocks);
        let ticket = search.submit::<(), _>(move |_| resume_unwind(Box::new(mine)));
        assert!(is_worker(&watch.thread()));
        if blocks {
            assert_one_slot_is_held(&search);
            hand.advance(RUN_END);
            assert_eq!(ticket.wait().status(), Status::Timeout);
        } else {
            assert_eq!(ticket.wait().status(), Status::Panicked);
        }
        drop(watch);
        assert_whole(&search);
    }
}

#[test]
fn a_body_that_was_turned_away() {
    for blocks in [false, true] {
        let spec = two_slots().queue(0);
        let (_runtime, search, hand) = one_on_manual_clock(spec);
        let held = [occupy(&search), occupy(&search)];
        let (mine, watch) = mine(blocks);
        let ticket = search.submit(move |_| {
            drop(mine);
            Ok(())
        });
        assert!(ticket.is_finished());
        let waits = thread::Builder::new().name("caller".into());
        let waits = waits.spawn(move || ticket.wait().status()).unwrap();
        assert_eq!(watch.thread(), "caller");
        hand.advance(MS);
        drop(held);
        until("the slots are free", || search.snapshot().gauges.free == 2);
        drop(watch);
        assert_eq!(waits.join().unwrap(), Status::Busy);
        assert_whole(&search);
    }
}

#[test]
fn a_body_that_waited_in_vain() {
    for blocks in [false, true] {
        let (_runtime, search, hand) = one_on_manual_clock(two_slots());
        let held = [occupy(&search), occupy(&search)];
        let (mine, watch) = mine(blocks);
        let ticket = search.submit(move |_| {
            drop(mine);
            Ok(())
        });
        hand.advance(50 * MS);
        assert!(ticket.is_finished());
        let waits = thread::Builder::new().name("caller".into());
        let waits = waits.spawn(move || drop(ticket)).unwrap();
        assert_eq!(watch.thread(), "caller");
        drop(held);
        drop(watch);
        waits.join().unwrap();
        assert_whole(&search);
    }
}

#[test]
fn a_detached_body_that_waited_in_vain() {
    for blocks in [false, true] {
        let (_runtime, search, hand) = one_on_manual_clock(two_slots());
        let held = [occupy(&search), occupy(&search)];
        let (mine, watch) = mine(blocks);
        search
            .submit(move |_| {
                drop(mine);
                Ok(())
            })
            .detach();
        hand.advance(50 * MS);
        assert_eq!(watch.thread(), "search-end");

        let next = search.submit(nothing);
        hand.advance(50 * MS);
        assert!(next.is_finished(), "nobody else's answer waits for it");
        drop(held);
        until("the slots are free", || search.snapshot().gauges.free == 2);
        assert!(search.call(nothing).is_ok());
        drop(watch);
        assert_whole(&search);
    }
}

#[test]
fn a_detached_body_in_a_shutdown() {
    for blocks in [false, true] {
        let (runtime, search, _hand) = one_on_manual_clock(two_slots());
        let held = [occupy(&search), occupy(&search)];
        let (mine, watch) = mine(blocks);
        search
            .submit(move |_| {
                drop(mine);
                Ok(())
            })
            .detach();
        let report = ends("a shutdown", move || runtime.shutdown(Duration::ZERO));
        assert_eq!(report.left.len(), 2);
        assert_eq!(watch.thread(), "search-end");
        drop(held);
        drop(watch);
    }
}

#[test]
fn a_cancelled_body_that_never_ran() {
    let (_runtime, search, _hand) = one_on_manual_clock(two_slots());
    let held = [occupy(&search), occupy(&search)];
    let (mine, watch) = mine(false);
    let ticket = search.submit(move |_| {
        drop(mine);
        Ok(())
    });
    drop(ticket);
    watch.thread();
    assert_eq!(search.snapshot().gauges.waiting, 0);
    drop(held);
    assert_whole(&search);
}
