//! Deadlines at the door, and the median they are judged by.

use std::time::Duration;

use proptest::prelude::*;
use watertight::resilience::deadline::{Deadline, MinRun, TooShort};
use watertight::time::Time;

use crate::{at, ms, random_histories};

const MAX_WAIT: Duration = ms(500);

fn door(min_run: MinRun) -> Deadline {
    Deadline::new(min_run, ms(30_000)).expect("sensible")
}

/// A door that has seen eight runs of `ran`, the last one at `now`.
fn learned(now: Time, ran: Duration) -> Deadline {
    let mut door = door(MinRun::Auto);
    (0..8).for_each(|_| door.record(now, ran));
    door
}

#[test]
fn the_wait_never_eats_what_the_run_needs() {
    for min_run in [0, 1, 200, 1000] {
        let mut door = door(MinRun::Fixed(ms(min_run)));
        for left in 1..2500 {
            let now = at(7);
            match door.admit(now, Some(now + ms(left)), MAX_WAIT) {
                Ok(wait) => {
                    assert!(wait + ms(min_run) <= ms(left) && wait <= MAX_WAIT);
                    assert!(wait == MAX_WAIT || wait + ms(min_run) == ms(left), "and no shorter");
                }
                Err(TooShort) => assert!(left < min_run),
            }
        }
    }
}

#[test]
fn a_deadline_that_has_passed_is_too_short_whatever_is_needed() {
    for mut door in [door(MinRun::default()), door(MinRun::Auto), learned(at(0), ms(100))] {
        for _ in 0..100 {
            assert_eq!(door.admit(at(50), Some(at(50)), MAX_WAIT), Err(TooShort));
            assert_eq!(door.admit(at(50), Some(at(49)), MAX_WAIT), Err(TooShort));
        }
        assert_eq!(door.admit(at(50), None, MAX_WAIT), Ok(MAX_WAIT));
        assert_eq!(door.admit(at(50), None, Duration::MAX), Ok(Duration::MAX));
        assert_eq!(door.admit(at(50), None, Duration::ZERO), Ok(Duration::ZERO));
    }
}

#[test]
fn one_in_twenty_goes_on_all_the_same_and_does_not_wait() {
    let mut door = learned(at(0), ms(1000));
    let answers: Vec<_> = (0..60).map(|_| door.admit(at(1), Some(at(900)), MAX_WAIT)).collect();
    for (index, answer) in answers.iter().enumerate() {
        let expected = if index % 20 == 19 { Ok(Duration::ZERO) } else { Err(TooShort) };
        assert_eq!(*answer, expected, "call {index}");
    }
    let mut door = self::door(MinRun::Fixed(ms(1000)));
    let fixed = (0..60).filter(|_| door.admit(at(1), Some(at(900)), MAX_WAIT).is_ok()).count();
    assert_eq!(fixed, 0, "a fixed one is meant as it is written");
}

#[test]
fn an_exception_can_be_taken_back() {
    let mut door = learned(at(0), ms(1000));
    let short = |door: &mut Deadline| door.admit(at(1), Some(at(900)), MAX_WAIT).is_ok();
    assert_eq!((0..20).position(|_| short(&mut door)), Some(19));
    assert!(door.excepted());
    door.give_back();
    assert!(short(&mut door) && door.excepted(), "the next is one");
    assert_eq!((0..20).position(|_| short(&mut door)), Some(19), "and then one in twenty");
    assert!(door.admit(at(1), None, MAX_WAIT).is_ok() && !door.excepted());
}

#[test]
fn few_runs_say_nothing_and_old_ones_are_forgotten() {
    let mut door = door(MinRun::Auto);
    for run in 0..8 {
        assert_eq!(door.min_run(at(run)), Duration::ZERO);
        door.record(at(run), ms(100));
    }
    assert_eq!(door.min_run(at(8)), ms(100));
    assert_eq!(door.min_run(at(300_000)), ms(100));
    assert_eq!(door.min_run(at(300_001)), Duration::ZERO, "seven are left of them");
}

/// Every caller has a second. The backend slows down from 0.3 s to 2 s for a minute, so that no
/// run goes well but those of callers with no deadline; then it is fast again.
#[test]
fn a_slow_spell_does_not_lock_the_door_for_ever() {
    let mut door = learned(at(0), ms(300));
    (0..63).for_each(|run| door.record(at(run), ms(2000)));
    assert_eq!(door.min_run(at(63)), ms(2000));

    let mut now = at(60_000);
    let mut tries = 0;
    while door.admit(now, Some(now + ms(1000)), MAX_WAIT) != Ok(MAX_WAIT) {
        tries += 1;
        assert!(tries < 1000, "locked");
        now = now + ms(10);
        if tries % 20 == 0 {
            door.record(now, ms(300));
        }
    }
    assert_eq!(tries, 32 * 20, "32 of 63 runs are fast again");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    Record(u64),
    /// The same run many times over.
    Many(u64, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20_000_u64).prop_map(Step::Advance),
        1 => (0..400_000_u64).prop_map(Step::Advance),
        20 => (0..2000_u64).prop_map(Step::Record),
        1 => (0..2000_u64, 1..80_usize).prop_map(|(ran, times)| Step::Many(ran, times)),
    ]
}

proptest! {
    #![proptest_config(random_histories())]

    /// The model keeps every run and sorts those that are recent.
    #[test]
    fn the_median_is_that_of_the_recent_runs(steps in prop::collection::vec(any_step(), 1..300)) {
        let mut door = door(MinRun::Auto);
        let (mut now, mut runs) = (0, Vec::new());
        for step in steps {
            let times = match step {
                Step::Advance(millis) => {
                    now += millis;
                    None
                }
                Step::Record(ran) => Some((ran, 1)),
                Step::Many(ran, times) => Some((ran, times)),
            };
            for _ in 0..times.map_or(0, |(_, times)| times) {
                let (ran, _) = times.expect("it is repeated");
                door.record(at(now), Duration::from_nanos(ran));
                runs.push((now, ran));
            }
            let recent = runs.iter().rev().take(63).filter(|(ended, _)| ended + 300_000 >= now);
            let mut recent: Vec<_> = recent.map(|(_, ran)| *ran).collect();
            recent.sort_unstable();
            let median = if recent.len() < 8 { 0 } else { recent[(recent.len() - 1) / 2] };
            prop_assert_eq!(door.min_run(at(now)), Duration::from_nanos(median));
        }
    }
}
