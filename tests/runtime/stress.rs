//! Everything at once, at random, on the system's clock: the identities hold at any instant, and
//! in the end everything is as it was.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::call::{Run, Terms};
use watertight::outcome::Failure;
use watertight::resilience::retry::{Kinds, Policy};
use watertight::{Partition, PartitionSpec, Runtime, Ticket, Turn};

use crate::support::{HANG, MS, assert_adds_up, assert_whole, until};

const CALLERS: u64 = 8;
const LASTS: Duration = Duration::from_secs(3);

fn runtime() -> Runtime {
    let spec = |name, slots| {
        PartitionSpec::new(name)
            .slots(slots)
            .queue(6)
            .max_wait(3 * MS)
            .run_limit(4 * MS)
            .cancel_grace(MS)
    };
    let builder = Runtime::builder()
        .partition(spec("plain", 3))
        .partition(spec("spares", 2).replace_overdue(2))
        .partition(spec("one", 1).replace_overdue(1).tenant_queue(2).max_wait(Duration::ZERO));
    builder.build().unwrap()
}

/// Some body: most are short, some overrun their limit, some go wrong.
fn body(
    random: &mut fastrand::Rng,
) -> impl FnOnce(&Run) -> Result<Vec<u8>, Failure> + Send + use<> {
    let kind = random.u32(0..100);
    move |run| {
        match kind {
            0..60 => {}
            60..80 => thread::yield_now(),
            80..90 => {
                run.cancel_token().wait(2 * MS);
            }
            90..94 => {
                run.cancel_token().wait(HANG);
            }
            94..96 => {
                // It does not listen: overdue until it is done.
                let _ = crossbeam_channel::never::<()>().recv_timeout(9 * MS);
            }
            96..98 => resume_unwind(Box::new("at random")),
            _ => return Err(std::io::Error::other("at random").into()),
        }
        Ok(vec![0; 16])
    }
}

fn terms(random: &mut fastrand::Rng) -> Terms {
    let mut terms = Terms::new().attempt(random.u32(0..4));
    if random.bool() {
        terms = terms.tenant(format!("s-{}", random.u32(0..5)));
    }
    if random.u32(0..4) == 0 {
        terms = terms.deadline(Duration::from_micros(random.u64(0..6_000)));
    }
    terms
}

/// One thing that a caller may do. Returns how many calls it offered.
fn step(partition: &Partition, random: &mut fastrand::Rng, kept: &mut Vec<Ticket<Vec<u8>>>) -> u64 {
    let submit = |random: &mut fastrand::Rng| {
        let (terms, body) = (terms(random), body(random));
        partition.submit_with(terms, body)
    };
    match random.u32(0..11) {
        0..3 => drop(submit(random).wait()),
        3 => drop(submit(random)),
        4 => submit(random).detach(),
        5 => {
            let ticket = submit(random);
            ticket.cancel();
            drop(ticket.wait());
        }
        6 => match submit(random).wait_timeout(Duration::from_micros(random.u64(0..3_000))) {
            Ok(_) => {}
            Err(ticket) => kept.push(ticket),
        },
        7 => {
            let mut turn = Turn::new();
            for _ in 0..4 {
                turn.submit(partition, terms(random), body(random));
            }
            turn.cancel(random.usize(0..4));
            let few = random.usize(0..=4);
            turn.by_ref().take(few).for_each(drop);
            return 4;
        }
        8 => {
            if let Ok(permit) = partition.permit_with(terms(random)) {
                if random.bool() {
                    let _ = partition.call(|_| Ok(()));
                    drop(permit);
                    return 2;
                }
                permit.release();
            }
        }
        9 => retried(partition, random, kept),
        _ => {
            let inner = partition.clone();
            drop(partition.call(move |_| Ok(inner.call(|_| Ok(())).status())));
            // Whether the inner one was offered depends on the outer one: counted by neither.
            return 0;
        }
    }
    1
}

/// A call that may be attempted three times, each of which may end anyhow.
fn retried(partition: &Partition, random: &mut fastrand::Rng, kept: &mut Vec<Ticket<Vec<u8>>>) {
    let on = Kinds::parse(["busy", "failed", "timeout", "panicked"]).unwrap();
    let idempotent = random.bool();
    let policy = Policy { backoff: 2 * MS, on, idempotent, ..Policy::default() };
    let mut bodies: Vec<_> = (0..3).map(|_| body(random)).collect();
    let next = move |run: &Run| bodies.pop().expect("three attempts at most")(run);
    let ticket = partition.submit_with_retry(terms(random), policy, next);
    match random.u32(0..5) {
        0 => drop(ticket.wait()),
        1 => drop(ticket),
        2 => ticket.cancel(),
        3 => ticket.detach(),
        _ => kept.push(ticket),
    }
}

#[test]
fn everything_at_once() {
    let runtime = runtime();
    let (stop, offered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..CALLERS {
            let (runtime, stop, offered) = (&runtime, &stop, &offered);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let partitions: Vec<_> = runtime.partitions().collect();
                let mut kept = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let partition = partitions[random.usize(0..3)];
                    let more = step(partition, &mut random, &mut kept);
                    offered.fetch_add(more, Ordering::Relaxed);
                    kept.truncate(8);
                }
                for ticket in kept {
                    ticket.wait_timeout(HANG).expect("every call ends");
                }
            });
        }
        let (runtime, stop) = (&runtime, &stop);
        scope.spawn(move || {
            let end = Instant::now() + LASTS;
            while Instant::now() < end {
                for partition in runtime.snapshot().partitions {
                    assert_adds_up(&partition);
                    let g = partition.gauges;
                    assert!(partition.running.len() as u32 <= g.slots + g.replaced);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    let least = offered.load(Ordering::Relaxed);
    let snapshot = runtime.snapshot();
    let seen: u64 = snapshot.partitions.iter().map(|partition| partition.offered).sum();
    assert!(seen >= least, "{seen} of at least {least}");
    for partition in runtime.partitions() {
        assert_whole(partition);
    }
    assert!(snapshot.partitions.iter().all(|p| p.retries > 0), "all have retried");
    let counts: Vec<_> = runtime.partitions().map(|p| p.snapshot().counts).collect();
    for (what, count) in [
        ("ok", counts.iter().map(|c| c.ok).sum::<u64>()),
        ("failed", counts.iter().map(|c| c.failed).sum()),
        ("panicked", counts.iter().map(|c| c.panicked).sum()),
        ("busy", counts.iter().map(watertight::telemetry::Counts::busy).sum()),
        ("timed out", counts.iter().map(watertight::telemetry::Counts::timeout).sum()),
        ("cancelled", counts.iter().map(|c| c.cancelled).sum()),
    ] {
        assert!(count > 0, "none {what}: the test tries too little");
    }
    until("it ends cleanly", || runtime.shutdown(HANG).is_clean());
}
