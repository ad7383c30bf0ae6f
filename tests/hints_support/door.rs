//! Hints of what stands before the slots: throttling, the rate, the breaker. The machines
//! themselves, on virtual time, with callers who come back exactly at their hints.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use watertight::resilience::RetryAfter;
use watertight::resilience::breaker::{Admit, Breaker, Ended, Policy};
use watertight::resilience::rate::RateLimit;
use watertight::resilience::throttle::{self, Throttle};
use watertight::time::Time;

use super::load::ATTEMPTS_MAX;

const MS: Duration = Duration::from_millis(1);

/// What became of callers who came back to a door.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returned {
    pub(crate) returns: u32,
    pub(crate) let_in: u32,
    /// Of those who came back for the first time.
    pub(crate) first_returns: u32,
    pub(crate) first_let_in: u32,
}

impl Returned {
    pub(crate) fn share(self) -> f64 {
        100.0 * f64::from(self.let_in) / f64::from(self.returns.max(1))
    }
}

/// A caller every so many milliseconds, `callers` of them; who is refused comes back at its hint,
/// in whole milliseconds.
fn come_back(
    callers: u32,
    every_ms: u32,
    mut admit: impl FnMut(Time) -> Result<(), Duration>,
) -> Returned {
    let fresh = (0..callers).map(|n| Reverse((Time::ZERO + MS * every_ms * n, 1)));
    let mut coming: BinaryHeap<_> = fresh.collect();
    let mut seen = Returned::default();
    while let Some(Reverse((now, attempt))) = coming.pop() {
        let answer = admit(now);
        let let_in = u32::from(answer.is_ok());
        if attempt > 1 {
            seen.returns += 1;
            seen.let_in += let_in;
        }
        if attempt == 2 {
            seen.first_returns += 1;
            seen.first_let_in += let_in;
        }
        if let Err(after) = answer
            && attempt < ATTEMPTS_MAX
        {
            let millis = after.as_nanos().div_ceil(1_000_000) as u64;
            coming.push(Reverse((now + Duration::from_millis(millis), attempt + 1)));
        }
    }
    seen
}

/// The backend asks for a pause of two seconds.
pub(crate) fn throttled() -> Returned {
    let mut door = Throttle::new(throttle::Policy::default());
    door.shut(Time::ZERO, Some(2000 * MS));
    come_back(40, 50, |now| door.admit(now).map_err(RetryAfter::get))
}

/// Half as many calls again as the rate allows.
pub(crate) fn rated() -> Returned {
    let mut limit = RateLimit::new("20/s".parse().unwrap(), 1).unwrap();
    come_back(300, 33, |now| limit.admit(now).map(drop).map_err(RetryAfter::get))
}

/// A breaker has opened for its cool-down; the backend is well again, and the probe takes 200 ms of
/// the two seconds it may.
pub(crate) fn broken() -> Returned {
    let policy = Policy { cool_down: 2000 * MS, minimum_calls: 1, ..Policy::default() };
    let mut breaker = Breaker::new(policy).unwrap();
    let (limit, ran) = (2000 * MS, 200 * MS);
    let Admit::Pass(bad) = breaker.admit(Time::ZERO, limit) else { panic!("it is closed") };
    breaker.record(Time::ZERO, bad, Ended::Failed, ran, 0).expect("it opens");
    let mut probe = None;
    come_back(40, 50, |now| {
        if let Some((epoch, _)) = probe.take_if(|(_, ends)| *ends <= now) {
            breaker.record(now, epoch, Ended::Ok, ran, 0);
        }
        match breaker.admit(now, limit) {
            Admit::Pass(_) => Ok(()),
            Admit::Probe(epoch) => {
                probe = Some((epoch, now + ran));
                Ok(())
            }
            Admit::Open(after) => Err(after.get()),
        }
    })
}
