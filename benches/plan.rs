//! How many calls a plan plays a second on one core, against the scheduler alone.
//! `cargo bench --bench plan --no-default-features --features json`

#![allow(clippy::print_stdout, reason = "its figures are its product")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use watertight::admission::{Decision, Effects, Offer, Policy, Scheduler};
use watertight::simulate::plan::{Plan, run};
use watertight::time::Time;

const CALLS: u32 = 500_000;
const BLOCKS: usize = 9;
/// A call that is planned costs at most so many times a call of the scheduler: it also draws when
/// it comes and how long it runs, goes through the agenda twice, and is counted four times.
const RATIO_MAX: f64 = 25.0;

fn main() {
    let plan = Plan::from_json(PLAN).expect("it is right");
    let (mut planned, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        let (of_plan, of_bare) = (per_call(|| play(&plan)), per_call(schedule));
        ratios.push(of_plan / of_bare);
        planned.push(of_plan);
        bare.push(of_bare);
    }
    let (planned, bare, ratio) = (median(planned), median(bare), median(ratios));
    println!(
        "plan: {planned:.0} ns a call, {:.2} million calls a second; scheduler alone {bare:.0} ns; \
         ratio {ratio:.1} (at most {RATIO_MAX})",
        1e3 / planned
    );
    assert!(ratio <= RATIO_MAX, "the bound is broken");
}

/// Four loads on three partitions with tenants, retries, a breaker, the reserve and a hang.
const PLAN: &str = r#"{
    "seed": 7, "duration_ms": 1e9, "calls_max": 500000, "reserve": 4,
    "partitions": [
        {"name": "search", "slots": 32, "dispatch": "round_robin", "tenant_max": 8, "breaker": {}},
        {"name": "tickets", "slots": 16, "reserve_max": 4},
        {"name": "files", "slots": 64, "dispatch": "borrow", "tenant_slots": {"bulk": 16}}
    ],
    "loads": [
        {"partition": "search", "tenants": 50, "arrivals": {"poisson_per_s": 400},
         "service": {"lognormal": {"p50_ms": 40, "p99_ms": 400}}, "retry": {}},
        {"partition": "tickets", "arrivals": {"poisson_per_s": 600}, "service": {"exponential_ms": 20}},
        {"partition": "files", "tenant": "bulk", "arrivals": {"every": {"ms": 100, "batch": 40}},
         "service": {"uniform_ms": [5, 60]}},
        {"partition": "files", "tenants": 20, "arrivals": {"poisson_per_s": 600},
         "service": {"histogram_ms": [[10, 50], [50, 40], [200, 10]]}}
    ],
    "faults": [{"partition": "search", "from_ms": 60000, "until_ms": 90000, "hang": true}]
}"#;

fn play(plan: &Plan) {
    let report = run(black_box(plan)).expect("it is right");
    assert_eq!(report.calls, u64::from(CALLS));
}

/// The same number of calls, offered and finished with nothing around them.
fn schedule() {
    let mut scheduler = Scheduler::new(Policy::new(32)).expect("it is right");
    let mut effects = Effects::default();
    for n in 0..CALLS {
        let now = Time::from_nanos(u64::from(n) * 1000);
        let offer = Offer { run_for: Duration::from_secs(30), ..Offer::new(n) };
        let Decision::Start(started) = scheduler.offer(now, black_box(offer), &mut effects) else {
            unreachable!("a slot is free");
        };
        scheduler.finish(now, black_box(started.slot));
        scheduler.dispatch(now, &mut effects);
    }
}

/// Nanoseconds a call.
fn per_call(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
