//! Several partitions and one reserve, joined as the runtime joins them.

use std::collections::VecDeque;

use fastrand::Rng;
use watertight::admission::{
    Decision, Dispatch, Effects, Offer, Policy, Reserve, Scheduler, SlotId, WaiterId,
};
use watertight::time::Time;

use crate::faults::{MS, at, started, waiting, waiting_until};
use crate::observed::Observed;

/// Partitions on one reserve.
struct Fleet {
    reserve: Reserve,
    partitions: Vec<Scheduler<u32>>,
    running: Vec<Vec<SlotId>>,
    waited: Vec<Vec<WaiterId>>,
    /// Slots of the reserve that each partition was given, and whether it is in line for one.
    grants: Vec<u32>,
    in_line: Vec<bool>,
    /// How often each was passed by each of the others since it got in line.
    passed: Vec<Vec<u32>>,
    now: Time,
}

impl Fleet {
    fn new(reserve: u32, policies: &[Policy]) -> Fleet {
        let partition = |policy: &Policy| Scheduler::new(policy.clone()).unwrap();
        Fleet {
            reserve: Reserve::new(reserve),
            partitions: policies.iter().map(partition).collect(),
            running: vec![Vec::new(); policies.len()],
            waited: vec![Vec::new(); policies.len()],
            grants: vec![0; policies.len()],
            in_line: vec![false; policies.len()],
            passed: vec![vec![0; policies.len()]; policies.len()],
            now: Time::ZERO,
        }
    }

    /// Offers a call; what it brought about in its own partition.
    fn offer(&mut self, partition: usize, offer: Offer<u32>) -> Observed {
        let mut effects = Effects::default();
        let (scheduler, reserve) = (&mut self.partitions[partition], &mut self.reserve);
        let take = || reserve.take();
        let decision = scheduler.offer_or_borrow(self.now, offer, &mut effects, take);
        match &decision {
            Decision::Start(call) => self.running[partition].push(call.slot),
            Decision::Wait(id) => self.waited[partition].push(*id),
            Decision::Reject(_) => {}
        }
        let mut seen = self.settle(partition, effects);
        seen.answer = Some(crate::observed::answer(&decision));
        seen
    }

    fn finish(&mut self, partition: usize, slot: SlotId) -> Observed {
        self.running[partition].retain(|&running| running != slot);
        self.partitions[partition].finish(self.now, slot);
        self.settle(partition, Effects::default())
    }

    /// What ends every critical section: dispatch, give back what was returned, ask for more; and
    /// then the same for each partition that was handed a slot.
    fn settle(&mut self, partition: usize, mut effects: Effects<u32>) -> Observed {
        self.partitions[partition].dispatch(self.now, &mut effects);
        let mut handed = VecDeque::new();
        self.share(partition, &mut effects, &mut handed);
        let seen = Observed::of(&effects);
        while let Some(next) = handed.pop_front() {
            let mut effects = Effects::default();
            self.partitions[next].grant_reserve(self.now, &mut effects);
            self.granted(next);
            self.share(next, &mut effects, &mut handed);
        }
        seen
    }

    fn share(
        &mut self,
        partition: usize,
        effects: &mut Effects<u32>,
        handed: &mut VecDeque<usize>,
    ) {
        loop {
            for _ in 0..std::mem::take(&mut effects.returned) {
                handed.extend(self.reserve.release());
            }
            if !self.partitions[partition].wants_reserve() {
                break;
            }
            if !self.reserve.take_or_register(partition) {
                self.in_line[partition] = true;
                break;
            }
            self.partitions[partition].grant_reserve(self.now, effects);
            self.granted(partition);
        }
        self.running[partition].extend(effects.started.iter().map(|call| call.slot));
    }

    /// Notes that `partition` was given a slot, and that it did not jump the line.
    fn granted(&mut self, partition: usize) {
        self.grants[partition] += 1;
        self.in_line[partition] = false;
        self.passed[partition].fill(0);
        for (passed, in_line) in self.passed.iter_mut().zip(&self.in_line) {
            passed[partition] += u32::from(*in_line);
            assert!(passed[partition] <= 1, "nobody gets two while another waits for one");
        }
    }

    /// What holds whenever no partition is in a critical section.
    fn check(&self) {
        let borrowed = self.partitions.iter().map(|partition| partition.gauges().borrowed);
        assert_eq!(borrowed.sum::<u32>() + self.reserve.free(), self.reserve.slots());
        for partition in &self.partitions {
            let gauges = partition.gauges();
            let there = gauges.running + gauges.overdue + gauges.free;
            assert_eq!(there, gauges.slots + gauges.borrowed + gauges.replaced);
            let beside = partition.wants_reserve() && self.reserve.free() > 0;
            assert!(!beside, "a partition waits beside a free slot of the reserve");
            assert!(!partition.is_broken());
        }
    }
}

fn policy(rng: &mut Rng, reserve_max: u32) -> Policy {
    let dispatch = [Dispatch::Fifo, Dispatch::RoundRobin, Dispatch::Strict, Dispatch::Borrow];
    Policy {
        queue: rng.u32(0..5),
        dispatch: dispatch[rng.usize(..4)],
        homes: vec![("a".into(), 1)],
        replace_overdue: rng.u32(0..2),
        reserve_max,
        ..Policy::new(rng.u32(1..4))
    }
}

/// One random thing that happens to one partition, the same for its twin.
fn step(rng: &mut Rng, fleet: &mut Fleet, partition: usize, call: u32) -> Observed {
    let chosen = |rng: &mut Rng, of: usize| (of > 0).then(|| rng.usize(..of));
    match rng.u8(0..12) {
        0..=5 => {
            let tenant = [None, Some("a"), Some("b")][rng.usize(..3)];
            let offer = Offer {
                tenant: tenant.map(Into::into),
                run_for: MS * rng.u32(1..20),
                ..waiting_until(call, fleet.now + MS * rng.u32(0..9))
            };
            fleet.offer(partition, offer)
        }
        6..=9 => match chosen(rng, fleet.running[partition].len()) {
            Some(n) => fleet.finish(partition, fleet.running[partition][n]),
            None => Observed::default(),
        },
        10 => {
            if let Some(n) = chosen(rng, fleet.waited[partition].len()) {
                let id = fleet.waited[partition].swap_remove(n);
                fleet.partitions[partition].withdraw(fleet.now, id);
            }
            fleet.settle(partition, Effects::default())
        }
        _ => {
            if let Some(n) = chosen(rng, fleet.running[partition].len()) {
                let slot = fleet.running[partition][n];
                fleet.partitions[partition].answer(fleet.now, slot);
                fleet.partitions[partition].replace(slot);
            }
            fleet.settle(partition, Effects::default())
        }
    }
}

#[test]
fn a_partition_that_never_borrows_does_not_feel_those_that_do() {
    let mut most_borrowed = 0;
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        let policies: Vec<_> = [0, 1, 2, 4].map(|most| policy(&mut rng, most)).into();
        let mut fleet = Fleet::new(rng.u32(0..5), &policies);
        let mut alone = Fleet::new(0, &policies[..1]);
        for call in 0..150 {
            fleet.now = fleet.now + MS * rng.u32(0..2);
            alone.now = fleet.now;
            let partition = rng.usize(0..4);
            let mut same = rng.clone();
            let seen = step(&mut rng, &mut fleet, partition, call);
            if partition == 0 {
                let own = step(&mut same, &mut alone, 0, call);
                assert_eq!(seen, own, "seed {seed}, call {call}");
                assert_eq!(fleet.partitions[0].gauges(), alone.partitions[0].gauges());
            }
            fleet.check();
            most_borrowed = most_borrowed.max(fleet.reserve.slots() - fleet.reserve.free());
        }
        assert_eq!(fleet.grants[0], 0);
    }
    assert_eq!(most_borrowed, 4, "the others did borrow");
}

#[test]
fn partitions_that_always_want_more_take_turns() {
    let wants = Policy { queue: 100, reserve_max: 2, ..Policy::new(1) };
    let mut fleet = Fleet::new(2, &vec![wants; 3]);
    let mut rng = Rng::with_seed(2);
    for call in 0..3000 {
        let partition = rng.usize(0..3);
        while fleet.partitions[partition].gauges().waiting < 5 {
            fleet.offer(partition, Offer::new(call));
        }
        let n = rng.usize(..fleet.running[partition].len());
        fleet.finish(partition, fleet.running[partition][n]);
        fleet.check();
    }
    assert!(fleet.grants.iter().all(|&grants| grants > 200), "{:?}", fleet.grants);
}

#[test]
fn a_borrowed_slot_goes_back_with_the_first_call_that_ends() {
    let policy = Policy { reserve_max: 1, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut effects = Effects::default();
    let own = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
    waiting(scheduler.offer(at(0), Offer::new(1), &mut effects));
    waiting(scheduler.offer(at(0), Offer::new(2), &mut effects));
    assert!(scheduler.wants_reserve());
    scheduler.grant_reserve(at(0), &mut effects);
    assert_eq!((effects.started.len(), effects.returned), (1, 0));
    assert!(!scheduler.wants_reserve(), "it has all it may have");

    scheduler.finish(at(1), own.slot);
    scheduler.dispatch(at(1), &mut effects);
    assert_eq!((effects.started.len(), effects.returned), (1, 1));
    assert_eq!(scheduler.gauges().borrowed, 0);
    assert!(scheduler.wants_reserve(), "it gets back in line");
    scheduler.grant_reserve(at(1), &mut effects);
    assert_eq!((effects.started.len(), effects.returned), (2, 1));
}

#[test]
fn a_slot_that_comes_too_late_goes_straight_back() {
    for gone in ["expired", "withdrawn", "closed", "started"] {
        let policy = Policy { reserve_max: 1, ..Policy::new(1) };
        let mut scheduler = Scheduler::new(policy).unwrap();
        let mut effects = Effects::default();
        let own = started(scheduler.offer(at(0), Offer::new(0), &mut effects));
        let id = waiting(scheduler.offer(at(0), waiting_until(1, at(5)), &mut effects));
        match gone {
            "withdrawn" => drop(scheduler.withdraw(at(1), id)),
            "closed" => scheduler.close(at(1), &mut effects),
            "started" => drop(scheduler.finish(at(1), own.slot)),
            _ => {}
        }
        scheduler.grant_reserve(at(5), &mut effects);
        assert_eq!((effects.returned, scheduler.gauges().borrowed), (1, 0), "{gone}");
    }
}

#[test]
fn a_call_that_cannot_wait_starts_in_the_reserve() {
    let policy = Policy { queue: 0, reserve_max: 1, ..Policy::new(1) };
    let mut scheduler = Scheduler::new(policy).unwrap();
    let mut reserve = Reserve::new(1);
    let mut effects = Effects::default();
    let mut offer = |now, scheduler: &mut Scheduler<u32>| {
        let decision =
            scheduler.offer_or_borrow(now, Offer::new(0), &mut effects, || reserve.take());
        matches!(decision, Decision::Start(_))
    };
    assert!(offer(at(0), &mut scheduler), "its own slot");
    assert!(offer(at(0), &mut scheduler), "the reserve's");
    assert!(!offer(at(0), &mut scheduler), "reserve_max is reached");
    assert_eq!((scheduler.gauges().borrowed, reserve.free()), (1, 0));
}
