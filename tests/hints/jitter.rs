//! What a caller's attempt does to its hint.

use std::time::Duration;

use watertight::admission::{Decision, Effects, Offer, Policy, Scheduler};
use watertight::time::Time;

const MS: Duration = Duration::from_millis(1);

fn offer(scheduler: &mut Scheduler<()>, now: Time, attempt: u32) -> Decision<()> {
    let offer = Offer { wait_until: now, attempt, ..Offer::new(()) };
    scheduler.offer(now, offer, &mut Effects::default())
}

fn hint(scheduler: &mut Scheduler<()>, now: Time, attempt: u32) -> Duration {
    let Decision::Reject(refused) = offer(scheduler, now, attempt) else {
        panic!("the only slot is held");
    };
    refused.retry_after.expect("it is busy")
}

/// One slot whose calls always take 400 ms, held since now.
fn held(jitter_seed: u64) -> (Scheduler<()>, Time) {
    let policy = Policy { jitter_seed, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut now = Time::ZERO;
    for _ in 0..20 {
        let Decision::Start(started) = offer(&mut scheduler, now, 1) else {
            panic!("the slot is free");
        };
        now = now + 400 * MS;
        scheduler.finish(now, started.slot);
    }
    assert!(matches!(offer(&mut scheduler, now, 1), Decision::Start(_)));
    (scheduler, now)
}

/// The first hint of `attempt`, for many seeds.
fn hints(attempt: u32) -> Vec<Duration> {
    let of = |seed| {
        let (mut scheduler, now) = held(seed);
        hint(&mut scheduler, now, attempt)
    };
    (0..200).map(of).collect()
}

#[test]
fn jitter_grows_with_the_attempt_and_is_never_early() {
    assert_eq!(hints(1), [400 * MS; 200], "none at first");
    for (attempt, quarters) in [(2, 1), (3, 2), (4, 3), (5, 4), (u32::MAX, 4)] {
        let hints = hints(attempt);
        let (least, most) = (hints.iter().min().unwrap(), hints.iter().max().unwrap());
        let spread = 100 * MS * quarters;
        assert!(*least >= 400 * MS && *least < 400 * MS + spread / 10, "{attempt}: {least:?}");
        let latest = 400 * MS + spread;
        assert!(*most <= latest && *most > latest - spread / 10, "{attempt}: {most:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_hints() {
    let sequence = |seed| {
        let (mut scheduler, now) = held(seed);
        (2..20).map(|attempt| hint(&mut scheduler, now, attempt)).collect::<Vec<_>>()
    };
    assert_eq!(sequence(7), sequence(7));
    assert_ne!(sequence(7), sequence(8));
}

#[test]
fn who_was_told_to_go_on_without_it_is_not_expected_back() {
    let (mut scheduler, now) = held(0);
    hint(&mut scheduler, now, 5);
    assert_eq!(hint(&mut scheduler, now, 1), 400 * MS);
    assert_eq!(hint(&mut scheduler, now, 1), 800 * MS, "after the one before it");
    let later = now + 800 * MS;
    assert!(hint(&mut scheduler, later, 1) >= MS, "both have had their time");
}
