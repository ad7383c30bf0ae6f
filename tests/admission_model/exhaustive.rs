//! Every sequence of a few steps, under small policies in which every step matters.

use std::time::Duration;

use watertight::admission::{Dispatch, Policy};

use crate::script::{Step, check};

const LENGTH: usize = 4;

const fn offer(tenant: u8, wait: u8, run_for: Option<u8>) -> Step {
    Step::Offer {
        tenant,
        wait: Some(wait),
        deadline: None,
        run_for,
        reentrant: false,
        reserve: false,
    }
}

/// Steps of which every sequence is tried; each is followed by a dispatch unless it is one.
const QUEUES: [Step; 8] = [
    offer(1, 9, None),
    offer(2, 2, None),
    Step::Finish(0),
    Step::Finish(1),
    Step::Withdraw(0),
    Step::Pass(1),
    Step::Pass(2),
    Step::Drain,
];

/// The same for calls that outlast their limit.
const OVERDUE: [Step; 8] = [
    offer(1, 9, Some(1)),
    offer(2, 9, None),
    Step::Finish(0),
    Step::Finish(1),
    Step::Answer(0),
    Step::Replace(0),
    Step::Pass(1),
    Step::Grant,
];

fn every_sequence(policy: &Policy, alphabet: &[Step], dispatched: bool) {
    let sequences = alphabet.len().pow(LENGTH as u32);
    for number in 0..sequences {
        let mut rest = number;
        let mut script = vec![offer(1, 9, Some(2))];
        for _ in 0..LENGTH {
            script.push(alphabet[rest % alphabet.len()]);
            if dispatched {
                script.push(Step::Dispatch);
            }
            rest /= alphabet.len();
        }
        if !dispatched {
            script.push(Step::Dispatch);
        }
        check(number as u64, policy, &script);
    }
}

fn small(dispatch: Dispatch) -> Policy {
    Policy {
        queue: 2,
        dispatch,
        homes: vec![("a".into(), 1)],
        replace_overdue: 1,
        reserve_max: 1,
        cancel_grace: Duration::from_nanos(1),
        ..Policy::new(2)
    }
}

#[test]
fn every_sequence_of_waiting_and_leaving() {
    for dispatch in [Dispatch::Fifo, Dispatch::RoundRobin, Dispatch::Strict, Dispatch::Borrow] {
        every_sequence(&small(dispatch), &QUEUES, true);
    }
}

#[test]
fn every_sequence_of_calls_that_outlast_their_limit() {
    for dispatch in [Dispatch::Fifo, Dispatch::Strict, Dispatch::Borrow] {
        every_sequence(&small(dispatch), &OVERDUE, true);
    }
}

#[test]
fn every_sequence_before_a_single_dispatch() {
    let policy = Policy { tenant_max: Some(1), ..small(Dispatch::Borrow) };
    every_sequence(&policy, &QUEUES, false);
    every_sequence(&policy, &OVERDUE, false);
}
