//! Loads on virtual time, played against the scheduler itself: who comes back when, who is let in,
//! and how long the slot had been free.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use watertight::admission::{Decision, Effects, Offer, Policy, Scheduler, SlotId};
use watertight::time::Time;

/// A caller gives up after so many attempts: from the fifth on the wording says so.
pub(crate) const ATTEMPTS_MAX: u32 = 5;

/// When fresh calls come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrivals {
    /// One by one, at random: so many a second.
    Steady(f64),
    /// So many at one instant; such waves come at random, so many a second.
    Waves { calls: u32, per_s: f64 },
}

/// How long calls run, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    Fixed(f64),
    Exponential { mean: f64 },
    Lognormal { median: f64, sigma: f64 },
    Pareto { least: f64, alpha: f64 },
}

/// Who comes, and what that does to the partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) slots: u32,
    pub(crate) arrivals: Arrivals,
    pub(crate) service: Service,
    pub(crate) run_limit_ms: f64,
    /// Calls that start in the second after this time, in milliseconds, hang until the run limit;
    /// only callers that are refused while they do so count.
    pub(crate) hang: Option<f64>,
    /// Fresh calls.
    pub(crate) calls: u32,
    pub(crate) seed: u64,
}

/// When a caller that was refused comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hints {
    /// When it was told to, in whole milliseconds.
    AsTold,
    /// All that were refused at one instant when the first of them was told to.
    AsTheFirst,
    /// Always after so many milliseconds.
    Constant(f64),
}

/// What became of those who came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) returns: u64,
    pub(crate) started: u64,
    /// How long the slot of each that started had been free, and what it had been told; in
    /// milliseconds.
    pub(crate) idle: Vec<(f64, f64)>,
    /// The sum of all offers' service times over the time they came in: erlangs.
    pub(crate) offered: f64,
}

impl Measured {
    /// Of those who came back, how many in a hundred were let in.
    pub(crate) fn share(&self) -> f64 {
        100.0 * self.started as f64 / self.returns.max(1) as f64
    }

    pub(crate) fn idle_mean(&self) -> f64 {
        self.idle.iter().map(|&(idle, _)| idle).sum::<f64>() / self.idle.len().max(1) as f64
    }

    pub(crate) fn hint_median(&self) -> f64 {
        median(self.idle.iter().map(|&(_, hint)| hint).collect())
    }

    /// The median of idle time over hint.
    pub(crate) fn idle_ratio(&self) -> f64 {
        median(self.idle.iter().map(|&(idle, hint)| idle / hint).collect())
    }

    pub(crate) fn add(&mut self, other: Measured) {
        self.returns += other.returns;
        self.started += other.started;
        self.idle.extend(other.idle);
        self.offered = other.offered;
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// How many in a hundred are let in that come at any time, by the Erlang B formula for `slots` and
/// an offered load in erlangs.
pub(crate) fn erlang_b_floor(slots: u32, erlangs: f64) -> f64 {
    let blocked = (1..=slots).fold(1.0, |b, n| erlangs * b / (f64::from(n) + erlangs * b));
    100.0 * (1.0 - blocked)
}

/// What happens next. At one instant calls end before others come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End(u32),
    Offer { order: u64, call: Call },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    attempt: u32,
    runs: Duration,
    /// What it was told last.
    told: Duration,
    counts: bool,
}

struct Player {
    load: Load,
    hints: Hints,
    scheduler: Scheduler<Call>,
    effects: Effects<Call>,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    /// When the last fresh call comes: the load is over then, and nothing counts any more.
    last: Time,
    order: u64,
    free_since: Vec<Time>,
    /// When somebody was last refused, and what the first of that instant was told.
    first: (Time, Duration),
    measured: Measured,
}

/// Plays `load` until the last call has ended.
pub(crate) fn play(load: Load, hints: Hints) -> Measured {
    let run_limit = ms(load.run_limit_ms);
    let policy = Policy { queue: 0, run_limit, ..Policy::new(load.slots) };
    let mut player = Player {
        load,
        hints,
        scheduler: Scheduler::new(policy).unwrap(),
        effects: Effects::default(),
        events: BinaryHeap::new(),
        last: Time::ZERO,
        order: 0,
        free_since: vec![Time::ZERO; load.slots as usize],
        first: (Time::MAX, Duration::ZERO),
        measured: Measured::default(),
    };
    player.last = player.come();
    while let Some(Reverse((now, event))) = player.events.pop() {
        match event {
            Event::End(slot) => player.end(now, slot),
            Event::Offer { call, .. } => player.offer(now, call),
        }
    }
    player.measured.offered /= (player.last - Time::ZERO).as_secs_f64();
    player.measured
}

impl Player {
    /// Draws all fresh calls; when the last of them comes.
    fn come(&mut self) -> Time {
        let mut rng = fastrand::Rng::with_seed(self.load.seed);
        let mut at = 0.0;
        for n in 0..self.load.calls {
            let (calls, per_s) = match self.load.arrivals {
                Arrivals::Steady(per_s) => (1, per_s),
                Arrivals::Waves { calls, per_s } => (calls, per_s),
            };
            if n % calls == 0 {
                at += exponential(&mut rng) * 1e3 / per_s;
            }
            let runs = ms(self.load.service.draw(&mut rng).min(self.load.run_limit_ms));
            let call = Call { attempt: 1, runs, told: Duration::ZERO, counts: true };
            self.push(Time::ZERO + ms(at), call);
        }
        Time::ZERO + ms(at)
    }

    fn push(&mut self, at: Time, call: Call) {
        self.order += 1;
        self.events.push(Reverse((at, Event::Offer { order: self.order, call })));
    }

    fn end(&mut self, now: Time, slot: u32) {
        self.free_since[slot as usize] = now;
        self.scheduler.finish(now, SlotId(slot)).unwrap();
        self.scheduler.dispatch(now, &mut self.effects);
    }

    fn offer(&mut self, now: Time, call: Call) {
        if now <= self.last {
            self.measured.offered += call.runs.as_secs_f64();
        }
        let returns = call.attempt > 1 && call.counts && now <= self.last;
        self.measured.returns += u64::from(returns);
        let run_for = ms(self.load.run_limit_ms);
        let offer = Offer { wait_until: now, run_for, attempt: call.attempt, ..Offer::new(call) };
        let decision = self.scheduler.offer(now, offer, &mut self.effects);
        self.scheduler.dispatch(now, &mut self.effects);
        match decision {
            Decision::Start(started) => {
                let slot = started.slot.0;
                let hangs = self.load.hang.is_some_and(|from| is_within(now, (from, from + 1e3)));
                let runs = if hangs { run_for } else { call.runs };
                self.events.push(Reverse((now + runs, Event::End(slot))));
                if returns {
                    self.measured.started += 1;
                    let idle = now - self.free_since[slot as usize];
                    self.measured.idle.push((in_ms(idle), in_ms(call.told)));
                }
            }
            Decision::Reject(rejected) => {
                self.refused(now, call, rejected.retry_after.unwrap());
            }
            Decision::Wait(_) => unreachable!("there is no queue"),
        }
    }

    fn refused(&mut self, now: Time, call: Call, told: Duration) {
        if self.first.0 != now {
            self.first = (now, told);
        }
        let told = match self.hints {
            Hints::AsTold => told,
            Hints::AsTheFirst => self.first.1,
            Hints::Constant(after) => ms(after),
        };
        let told = Duration::from_millis(told.as_nanos().div_ceil(1_000_000) as u64);
        if call.attempt < ATTEMPTS_MAX {
            let until = |from| from + self.load.run_limit_ms;
            let counts = self.load.hang.is_none_or(|from| is_within(now, (from, until(from))));
            self.push(now + told, Call { attempt: call.attempt + 1, told, counts, ..call });
        }
    }
}

impl Service {
    fn draw(self, rng: &mut fastrand::Rng) -> f64 {
        match self {
            Service::Fixed(ms) => ms,
            Service::Exponential { mean } => mean * exponential(rng),
            Service::Lognormal { median, sigma } => median * (sigma * normal(rng)).exp(),
            Service::Pareto { least, alpha } => least * (1.0 - rng.f64()).powf(-1.0 / alpha),
        }
    }
}

fn exponential(rng: &mut fastrand::Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// By Box and Muller.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

fn is_within(now: Time, (from, until): (f64, f64)) -> bool {
    (Time::ZERO + ms(from)..Time::ZERO + ms(until)).contains(&now)
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

fn in_ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
