//! Shares: nobody waits beside a slot that is theirs, and everybody gets a turn.

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;
use watertight::admission::{Decision, Dispatch, Effects, Offer, Policy, Scheduler, SlotId};
use watertight::time::Time;

use crate::faults::{MS, at, started, waiting};

/// A partition whose calls are watched from outside: who runs where, and who waits.
struct Watched {
    scheduler: Scheduler<usize>,
    now: Time,
    running: Vec<(SlotId, usize)>,
    waiting: HashMap<usize, u32>,
    /// Starts by tenant.
    starts: Vec<usize>,
}

fn tenant(number: usize) -> watertight::call::Tenant {
    format!("tenant-{number}").into()
}

impl Watched {
    fn new(policy: Policy) -> Watched {
        Watched {
            scheduler: Scheduler::new(policy).unwrap(),
            now: Time::ZERO,
            running: Vec::new(),
            waiting: HashMap::new(),
            starts: vec![0; 10_000],
        }
    }

    fn offer(&mut self, number: usize) {
        let mut effects = Effects::default();
        let offer = Offer { tenant: Some(tenant(number)), ..Offer::new(number) };
        match self.scheduler.offer(self.now, offer, &mut effects) {
            Decision::Start(call) => {
                self.running.push((call.slot, number));
                self.starts[number] += 1;
            }
            Decision::Wait(_) => *self.waiting.entry(number).or_default() += 1,
            Decision::Reject(_) => {}
        }
        assert!(effects.rejected.is_empty(), "the queue is long enough for all");
    }

    /// Ends the n-th running call, if there is one, and gives its slot away.
    fn finish(&mut self, n: usize) {
        if self.running.is_empty() {
            return;
        }
        let mut effects = Effects::default();
        let (slot, _) = self.running.swap_remove(n % self.running.len());
        self.scheduler.finish(self.now, slot);
        self.scheduler.dispatch(self.now, &mut effects);
        for call in effects.started {
            let number = call.payload;
            self.running.push((call.slot, number));
            self.starts[number] += 1;
            *self.waiting.get_mut(&number).expect("it waited") -= 1;
        }
        self.waiting.retain(|_, calls| *calls > 0);
    }
}

/// Homes of 0 to 9 slots for as many tenants; the rest, over several words of bits, is everyone's.
fn with_homes(dispatch: Dispatch) -> (Policy, Vec<usize>) {
    let homes = (0..10).map(|n| (tenant(n), n as u32)).collect();
    let of_slots = (0..10).flat_map(|n| std::iter::repeat_n(n, n));
    let of_slots: Vec<usize> = of_slots.chain([10; 85]).collect();
    let policy = Policy { queue: 100_000, dispatch, homes, ..Policy::new(130) };
    assert_eq!(of_slots.len(), 130);
    (policy, of_slots)
}

#[test]
fn nobody_waits_beside_an_idle_home_slot() {
    for dispatch in [Dispatch::Strict, Dispatch::Borrow] {
        let (policy, home_of_slot) = with_homes(dispatch);
        let mut watched = Watched::new(policy);
        let mut rng = Rng::with_seed(11);
        let mut lent = 0;
        for _ in 0..6000 {
            if rng.u8(0..5) < 3 {
                // The low tenants, who have few slots of their own, come most.
                watched.offer(rng.usize(0..20).min(rng.usize(0..20)));
            } else {
                watched.finish(rng.usize(..));
            }
            let taken: Vec<SlotId> = watched.running.iter().map(|&(slot, _)| slot).collect();
            assert!(taken.len() <= 130);
            let idle = |home| {
                let slots = home_of_slot.iter().zip(0..).filter(move |&(&of, _)| of == home);
                slots.filter(|&(_, slot)| !taken.contains(&SlotId(slot))).count()
            };
            for &number in watched.waiting.keys() {
                assert_eq!(idle(number.min(10)), 0, "{dispatch:?}: tenant {number} waits");
            }
            if dispatch == Dispatch::Borrow && !watched.waiting.is_empty() {
                assert_eq!(taken.len(), 130, "a slot is idle that could be lent");
            }
            let home = |slot: SlotId| home_of_slot[slot.0 as usize];
            lent += watched.running.iter().filter(|&&(slot, n)| home(slot) != n.min(10)).count();
        }
        assert_eq!(lent > 0, dispatch == Dispatch::Borrow);
        assert!(!watched.waiting.is_empty(), "the test was no test without a queue");
    }
}

#[test]
fn tenants_that_always_wait_get_the_same_share_within_one_call() {
    for tenants in [2, 3, 7, 40] {
        let mut watched = Watched::new(Policy {
            queue: 10_000,
            dispatch: Dispatch::RoundRobin,
            ..Policy::new(3)
        });
        let mut rng = Rng::with_seed(tenants as u64);
        for number in 0..tenants {
            for _ in 0..1 + rng.usize(0..4) {
                watched.offer(number);
            }
        }
        watched.starts.fill(0);
        for _ in 0..2000 {
            for number in 0..tenants {
                while watched.waiting.get(&number).is_none_or(|&calls| calls < 1 + number as u32) {
                    watched.offer(number);
                }
            }
            watched.finish(rng.usize(..));
            let starts = &watched.starts[..tenants];
            let spread = starts.iter().max().unwrap() - starts.iter().min().unwrap();
            assert!(spread <= 1, "{tenants} tenants: {starts:?}");
        }
    }
}

#[test]
fn weights_share_out_slots_by_their_ratio() {
    let weights = [1, 3, 5, 1000];
    let listed = weights.iter().enumerate().skip(1);
    let mut watched = Watched::new(Policy {
        queue: 10_000,
        dispatch: Dispatch::RoundRobin,
        weights: listed.map(|(n, &weight)| (tenant(n), weight)).collect(),
        ..Policy::new(2)
    });
    for number in [0, 0, 0, 1, 2, 3] {
        watched.offer(number);
    }
    watched.starts.fill(0);
    for _ in 0..20_000 {
        for number in 0..weights.len() {
            while !watched.waiting.contains_key(&number) {
                watched.offer(number);
            }
        }
        watched.finish(0);
        for (n, &weight) in weights.iter().enumerate() {
            // What one of weight 1 was given, in units of this tenant's; one call of either is
            // under way, and a stride is a whole number: 65 stands for 65.536.
            let due = watched.starts[0] as f64 * f64::from(weight);
            let given = watched.starts[n] as f64;
            let slack = 2.0 + (f64::from(weight) + due) * 1.01 - due;
            assert!((given - due).abs() <= slack, "weight {weight}: {:?}", &watched.starts[..4]);
        }
    }
}

#[test]
fn an_endless_stream_of_one_call_sessions_does_not_starve_an_old_session() {
    let old = 0;
    let mut watched =
        Watched::new(Policy { queue: 5000, dispatch: Dispatch::RoundRobin, ..Policy::new(2) });
    let mut rng = Rng::with_seed(5);
    let mut sessions = 1..;
    let mut round = 0;
    for _ in 0..4000 {
        // More sessions come than are served: the queue grows and grows.
        for _ in 0..rng.usize(1..=2) {
            watched.offer(sessions.next().unwrap());
        }
        if !watched.waiting.contains_key(&old) {
            watched.offer(old);
            round = watched.waiting.len();
        }
        watched.finish(rng.usize(..));
        round = round.saturating_sub(1);
        let waits = watched.waiting.contains_key(&old);
        assert!(!waits || round > 0, "everybody who was there before had a turn");
    }
    assert!(watched.starts[old] > 3 && watched.waiting.len() > 1000);
}

#[test]
fn one_call_beside_a_bulk_of_two_hundred_waits_for_one_service_time_at_most() {
    let service = 40;
    let mut scheduler =
        Scheduler::new(Policy { dispatch: Dispatch::RoundRobin, ..Policy::new(4) }).unwrap();
    let offer = |tenant: &str, call, now| Offer {
        tenant: Some(tenant.into()),
        wait_until: at(now + 3 * service),
        ..Offer::new(call)
    };
    let mut effects = Effects::default();
    let mut running = Vec::new();
    for call in 0..200 {
        let decision = scheduler.offer(at(0), offer("bulk", call, 0), &mut effects);
        if let Decision::Start(call) = decision {
            running.push(call.slot);
        }
    }
    assert_eq!((running.len(), scheduler.gauges().waiting), (4, 8));
    waiting(scheduler.offer(at(10), offer("one", 999, 10), &mut effects));
    for slot in running {
        scheduler.finish(at(service), slot);
    }
    scheduler.dispatch(at(service), &mut effects);
    let one = effects.started.iter().find(|call| call.payload == 999);
    assert!(one.expect("it had its turn").waited <= service * MS);
}

#[test]
fn a_bulk_tenant_at_its_cap_leaves_the_others_alone() {
    let mut scheduler =
        Scheduler::new(Policy { queue: 200, tenant_max: Some(12), ..Policy::new(40) }).unwrap();
    let mut effects = Effects::default();
    let mut rng = Rng::with_seed(3);
    let mut bulk = 0;
    let mut others: Vec<SlotId> = Vec::new();
    for step in 0..2000 {
        let now = at(step);
        let offer = |name: &str| Offer {
            tenant: Some(name.into()),
            wait_until: now + Duration::from_secs(1),
            ..Offer::new(name == "bulk")
        };
        if let Decision::Start(_) = scheduler.offer(now, offer("bulk"), &mut effects) {
            bulk += 1;
        }
        if others.len() < 28 && rng.bool() {
            let name = format!("session-{step}");
            let decision = scheduler.offer(now, offer(&name), &mut effects);
            others.push(started_other(decision));
        } else if !others.is_empty() {
            scheduler.finish(now, others.swap_remove(rng.usize(..others.len())));
            scheduler.dispatch(now, &mut effects);
        }
        assert_eq!(effects.started.len(), 0, "bulk is at its cap and nobody else waits");
        assert!(bulk <= 12);
    }
    assert_eq!(bulk, 12);
}

fn started_other(decision: Decision<bool>) -> SlotId {
    match decision {
        Decision::Start(call) => call.slot,
        other => panic!("a slot is idle: {other:?}"),
    }
}

#[test]
fn a_full_queue_is_shared_and_two_tenants_do_not_take_one_place_from_each_other() {
    let mut scheduler = Scheduler::new(Policy { queue: 4, ..Policy::new(1) }).unwrap();
    let mut effects = Effects::default();
    let offer = |name: &str, call| Offer { tenant: Some(name.into()), ..Offer::new(call) };
    started(scheduler.offer(at(0), offer("a", 0), &mut effects));
    for call in 1..=4 {
        waiting(scheduler.offer(at(0), offer("a", call), &mut effects));
    }
    for (call, displaced) in [(5, 4), (6, 3)] {
        waiting(scheduler.offer(at(0), offer("b", call), &mut effects));
        let loser = effects.rejected.pop().expect("a had more waiting");
        assert_eq!(loser.payload, displaced, "the newest of the tenant with most");
        assert!(loser.retry_after.is_some());
    }
    for name in ["a", "b"] {
        let answer = scheduler.offer(at(0), offer(name, 7), &mut effects);
        assert!(matches!(answer, Decision::Reject(_)), "two each is fair");
    }
    // Of two that have most, the one whose newest came last loses it.
    waiting(scheduler.offer(at(0), offer("c", 8), &mut effects));
    assert_eq!(effects.rejected.pop().map(|loser| loser.payload), Some(6));
    // Now a has two, b one, and c one: another for b would only turn the two around.
    let answer = scheduler.offer(at(0), offer("b", 9), &mut effects);
    assert!(matches!(answer, Decision::Reject(_)) && effects.rejected.is_empty());
}
