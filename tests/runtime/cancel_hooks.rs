//! Cancel hooks: each runs once, newest first, on a thread that may block, and delays nobody.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use watertight::PartitionSpec;
use watertight::call::{CancelToken, Run, Terms};
use watertight::outcome::{Failure, Status};

use crate::support::{HANG, MS, assert_whole, held, one_on_manual_clock};

const RUN_END: Duration = Duration::from_millis(30_100);

fn spec() -> PartitionSpec {
    PartitionSpec::new("search").slots(2)
}

fn nothing(_: &Run) -> Result<(), Failure> {
    Ok(())
}

/// A body that ends when it is called off.
fn until_cancelled(begun: Sender<()>) -> impl FnOnce(&Run) -> Result<(), Failure> + Send + 'static {
    move |run| {
        begun.send(()).unwrap();
        assert!(run.cancel_token().wait(HANG));
        Ok(())
    }
}

#[test]
fn newest_first_on_the_enders_thread() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let (calls, called) = unbounded();
    let (release, released) = bounded::<()>(0);
    let (begins, begun) = bounded(1);
    let ticket = search.submit_with(Terms::new().deadline(MS), move |run| {
        let arm = |at: u32| {
            let calls = calls.clone();
            run.cancel_token().on_cancel(move || {
                let thread = thread::current().name().unwrap_or_default().to_owned();
                calls.send((at, thread)).unwrap();
            })
        };
        let guards: Vec<_> = (0..5).map(arm).collect();
        let mut guards = guards.into_iter();
        let (first, second) = (guards.next(), guards.next());
        assert!(second.unwrap().disarm());
        begins.send(()).unwrap();
        let _ = released.recv();
        drop((first, guards));
        Ok(())
    });
    begun.recv_timeout(HANG).unwrap();
    hand.advance(MS);
    let order: Vec<_> = (0..4).map(|_| called.recv_timeout(HANG).unwrap()).collect();
    let numbers: Vec<_> = order.iter().map(|(at, _)| *at).collect();
    assert_eq!(numbers, [4, 3, 2, 0]);
    assert!(order.iter().all(|(_, thread)| thread == "search-end"));
    assert_eq!(ticket.wait().status(), Status::Timeout);
    drop(release);
    assert_whole(&search);
    assert!(called.try_recv().is_err(), "each once");
}

#[test]
fn a_disarmed_hook_is_not_called() {
    let token = CancelToken::new();
    let (calls, called): (Sender<u8>, Receiver<u8>) = unbounded();
    let send = |what: u8| {
        let calls = calls.clone();
        move || calls.send(what).unwrap()
    };
    let dropped = token.on_cancel(send(1));
    let disarmed = token.on_cancel(send(2));
    let armed = token.on_cancel(send(3));
    drop(dropped);
    assert!(disarmed.disarm());
    token.cancel();
    assert_eq!(called.try_iter().collect::<Vec<_>>(), [3]);
    assert!(!armed.disarm(), "it has been called");
    token.cancel();
    assert!(called.is_empty());
}

#[test]
fn a_hook_armed_too_late_is_called_at_once() {
    let token = CancelToken::new();
    token.cancel();
    let (calls, called) = unbounded();
    let guard = token.on_cancel(move || calls.send(thread::current().id()).unwrap());
    assert_eq!(called.try_recv(), Ok(thread::current().id()));
    assert!(!guard.disarm());
}

#[test]
fn a_hook_that_panics_does_not_keep_the_others_from_running() {
    let (_runtime, search, _hand) = one_on_manual_clock(spec());
    for _ in 0..20 {
        let (calls, called) = unbounded();
        let (release, released) = bounded::<()>(0);
        let (begins, begun) = bounded(1);
        let ticket = search.submit(move |run| {
            let (token, mine) = (run.cancel_token(), calls.clone());
            let _first = token.on_cancel(move || mine.send(1).unwrap());
            let _second = token.on_cancel(|| resume_unwind(Box::new("a hook")));
            let _third = token.on_cancel(move || calls.send(3).unwrap());
            begins.send(()).unwrap();
            let _ = released.recv();
            Ok(())
        });
        begun.recv_timeout(HANG).unwrap();
        ticket.cancel();
        assert_eq!(called.recv_timeout(HANG), Ok(3));
        assert_eq!(called.recv_timeout(HANG), Ok(1));
        assert_eq!(ticket.wait().status(), Status::Cancelled);
        drop(release);
    }
    assert_whole(&search);
}

#[test]
fn a_hook_that_blocks_delays_nobodys_answer() {
    let (_runtime, search, hand) = one_on_manual_clock(spec());
    let (release, released) = bounded::<()>(0);
    let (blocks, blocked) = bounded(2);
    let (begins, begun) = bounded(1);
    let (begin, hook_runs) = (begins.clone(), blocked.clone());
    let first = search.submit(move |run| {
        let _armed = run.cancel_token().on_cancel(move || {
            blocks.send(()).unwrap();
            blocks.send(()).unwrap();
            let _ = released.recv();
        });
        begin.send(()).unwrap();
        hook_runs.recv_timeout(HANG)?;
        Ok(())
    });
    begun.recv_timeout(HANG).unwrap();
    first.cancel();
    assert_eq!(first.wait().status(), Status::Cancelled);
    blocked.recv_timeout(HANG).unwrap();

    // The next one is answered and called off, although its own hooks have to wait.
    let (hung, body) = held();
    let second = search.submit(body);
    hung.wait_begun();
    let third = search.submit(until_cancelled(begins));
    begun.recv_timeout(HANG).unwrap();
    let waits = search.submit(nothing);
    hand.advance(50 * MS);
    assert_eq!(waits.wait().status(), Status::Busy);
    hand.advance(RUN_END);
    assert_eq!(second.wait().status(), Status::Timeout);
    assert_eq!(third.wait().status(), Status::Timeout);
    hung.release();
    drop(release);
    assert_whole(&search);
}

#[test]
fn a_token_is_tripped_when_its_call_is_answered_for() {
    let (runtime, search, hand) = one_on_manual_clock(spec());
    let (begins, begun) = bounded(1);
    let by_deadline = Terms::new().deadline(5 * MS);
    let body = until_cancelled(begins.clone());
    let ticket = search.submit_with(by_deadline, body);
    begun.recv_timeout(HANG).unwrap();
    hand.advance(5 * MS);
    assert_eq!(ticket.wait().status(), Status::Timeout);

    let ticket = search.submit(until_cancelled(begins.clone()));
    begun.recv_timeout(HANG).unwrap();
    drop(ticket);
    assert_whole(&search);

    let ticket = search.submit(until_cancelled(begins));
    begun.recv_timeout(HANG).unwrap();
    let report = runtime.shutdown(Duration::from_secs(2));
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(ticket.wait().status(), Status::Cancelled);
}
