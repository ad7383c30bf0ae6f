//! A live partition decides as a simulated one: the same starts, waits and rejections.
#![cfg(feature = "json")]

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::json;
use watertight::admission::Dispatch;
use watertight::call::Terms;
use watertight::outcome::{BusyReason, CallError, Outcome};
use watertight::simulate::plan::{End, Event, Happening, Plan, run_observed};
use watertight::time::{Clock, ManualClock, Time};
use watertight::{Partition, PartitionSpec, Runtime, Ticket};

const SCRIPTS: u64 = 100;
const LIMIT: Duration = Duration::from_secs(30);

/// A random script: a partition, and calls with their arrivals, tenants and service times.
struct Script {
    spec: PartitionSpec,
    tenants: Vec<&'static str>,
    log: Vec<Event>,
}

impl Script {
    fn new(dispatch: Dispatch, seed: u64) -> Script {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (slots, queue) = (rng.u32(1..5), rng.u32(0..8));
        let (home, tenant_max) = (rng.u32(0..=slots), rng.u32(1..5));
        let (tenant_queue, max_wait) = (rng.u32(0..6), rng.u32(1..60));
        let tenants: Vec<_> = (0..40).map(|_| *rng.choice(&["a", "b", "c"]).unwrap()).collect();
        let mut at = 0;
        let loads = tenants.iter().map(|tenant| {
            at += rng.u32(0..8);
            json!({"partition": "p", "tenant": tenant, "arrivals": {"at_ms": [at]},
                   "service": {"fixed_ms": rng.u32(1..40)}})
        });
        let plan = json!({
            "duration_ms": 10_000, "loads": loads.collect::<Vec<_>>(),
            "partitions": [{
                "name": "p", "slots": slots, "queue": queue, "dispatch": dispatch.as_str(),
                "tenant_slots": {"a": home}, "tenant_max": tenant_max,
                "tenant_queue": tenant_queue, "max_wait_ms": max_wait
            }]
        });
        let mut log = Vec::new();
        let plan = Plan::from_json(&plan.to_string()).unwrap();
        run_observed(&plan, |event| log.push(*event)).unwrap();
        let spec = PartitionSpec::new("p").slots(slots).queue(queue).dispatch(dispatch);
        let spec = spec.tenant_slots("a", home).tenant_max(tenant_max).tenant_queue(tenant_queue);
        let spec = spec.max_wait(Duration::from_millis(max_wait.into()));
        Script { spec, tenants, log }
    }
}

/// A partition that is driven by what the simulation says has happened.
struct Live {
    partition: Partition,
    clock: ManualClock,
    now: Time,
    started: (Sender<u64>, Receiver<u64>),
    release: HashMap<u64, Sender<()>>,
    tickets: HashMap<u64, Ticket<()>>,
}

impl Live {
    fn offer(&mut self, call: u64, tenant: &str) {
        let (release, released) = channel();
        let started = self.started.0.clone();
        let terms = Terms::new().tenant(tenant);
        let ticket = self.partition.submit_with(terms, move |_| {
            started.send(call).unwrap();
            let _ = released.recv();
            Ok(())
        });
        self.release.insert(call, release);
        self.tickets.insert(call, ticket);
    }

    fn advance(&mut self, to: Time) {
        self.clock.advance(to - self.now);
        self.now = to;
    }

    fn end(&mut self, call: u64) -> End {
        self.release.remove(&call);
        end_of(&self.tickets.remove(&call).unwrap().wait())
    }
}

fn end_of(outcome: &Outcome<()>) -> End {
    match &outcome.result {
        Ok(()) => End::Ok,
        Err(CallError::Busy { reason, .. }) => End::Busy(*reason),
        Err(error) => panic!("{error:?}"),
    }
}

fn play(script: &Script, seen: &mut HashSet<String>) {
    let (clock, hand) = Clock::manual();
    let builder = Runtime::builder().clock(clock).partition(script.spec.clone());
    let runtime = builder.build().unwrap();
    let mut live = Live {
        partition: runtime.partition("p").unwrap().clone(),
        clock: hand,
        now: Time::ZERO,
        started: channel(),
        release: HashMap::new(),
        tickets: HashMap::new(),
    };
    let mut offered = 0;
    for event in &script.log {
        live.advance(event.at);
        while offered <= event.call {
            live.offer(offered, script.tenants[offered as usize]);
            offered += 1;
        }
        match event.what {
            Happening::Starts { .. } => {
                assert_eq!(live.started.1.recv_timeout(LIMIT), Ok(event.call), "{event:?}");
            }
            Happening::Waits => assert!(!live.tickets[&event.call].is_finished(), "{event:?}"),
            Happening::Ends(end) => assert_eq!(live.end(event.call), end, "{event:?}"),
            _ => unreachable!("there are no retries"),
        }
        if let Happening::Ends(end) = event.what {
            seen.insert(format!("{end:?}"));
        }
    }
    assert!(live.tickets.is_empty() && live.started.1.try_recv().is_err());
}

#[test]
fn a_live_partition_decides_as_a_simulated_one_under_every_rule() {
    for dispatch in Dispatch::ALL {
        let mut seen = HashSet::new();
        for seed in 0..SCRIPTS {
            play(&Script::new(dispatch, seed), &mut seen);
        }
        let full = [BusyReason::SlotsFull, BusyReason::QueueFull, BusyReason::TenantQueueFull];
        for reason in full.into_iter().chain([BusyReason::Displaced]) {
            assert!(seen.contains(&format!("{:?}", End::Busy(reason))), "{dispatch:?}: {seen:?}");
        }
    }
}
