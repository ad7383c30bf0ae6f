//! The sessions of the agent: turn after turn, each fanned out at once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use super::backends::{Backends, TOOLS};
use crate::call::Terms;
use crate::outcome::Status;
use crate::telemetry::Latency;
use crate::time::Clock;
use crate::{Runtime, ToolCall};

const SESSIONS: usize = 10;
/// How long the model thinks between two turns.
const THINKING: Duration = Duration::from_millis(100);

/// What the sessions saw of one spell.
#[derive(Debug, Default)]
pub(super) struct Spell {
    /// From the fan-out of a turn to each outcome, as its session saw it.
    pub(super) latency: BTreeMap<&'static str, Latency>,
    pub(super) ok: u64,
    pub(super) busy: u64,
    pub(super) other: u64,
    /// Turns all of whose calls had an outcome.
    pub(super) turns: u64,
}

/// One run: the vendor well, then hanging.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) healthy: Spell,
    pub(super) hanging: Spell,
}

impl Story {
    pub(super) fn play(
        runtime: &Runtime,
        backends: &Backends,
        healthy: Duration,
        hanging: Duration,
    ) -> Story {
        let story = Mutex::new(Story::default());
        let incident = AtomicBool::new(false);
        let (end, ended) = bounded::<()>(0);
        thread::scope(|scope| {
            for session in 0..SESSIONS {
                let (story, incident, ended) = (&story, &incident, ended.clone());
                scope.spawn(move || live(runtime, session, story, incident, &ended));
            }
            let _ = ended.recv_timeout(healthy);
            incident.store(true, Ordering::SeqCst);
            backends.hang_search();
            let _ = ended.recv_timeout(hanging);
            drop(end);
        });
        story.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One session, until the story ends. A turn counts for the spell that it began in.
fn live(
    runtime: &Runtime,
    session: usize,
    story: &Mutex<Story>,
    incident: &AtomicBool,
    ended: &Receiver<()>,
) {
    let clock = Clock::system();
    // Sessions do not start in step.
    let _ = ended.recv_timeout(THINKING * session as u32 / SESSIONS as u32);
    for number in 0.. {
        let hanging = incident.load(Ordering::SeqCst);
        let began = clock.now();
        let calls = turn(session, number);
        let tools: Vec<_> = calls.iter().map(|(tool, _)| *tool).collect();
        let mut seen = Vec::new();
        for (index, outcome) in runtime.turn(calls.into_iter().map(|(_, call)| call)) {
            seen.push((tools[index], clock.now() - began, outcome.status()));
        }
        {
            let mut story = story.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let spell = if hanging { &mut story.hanging } else { &mut story.healthy };
            spell.add(&seen);
        }
        if ended.recv_timeout(THINKING) != Err(crossbeam_channel::RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// The agent's usual turn: one search, two tickets, the deployments, a runbook, a local tool.
fn turn(session: usize, number: usize) -> Vec<(&'static str, ToolCall)> {
    let [search, ticket, deployments, runbook, local] = TOOLS;
    let id = (session * 97 + number * 13) % 2000 + 1;
    let terms = || Terms::new().tenant(format!("session-{session}"));
    let call = |tool: &'static str| ToolCall::new(tool).terms(terms());
    vec![
        (search, call(search).arg("q", "why is checkout slow")),
        (ticket, call(ticket).arg("id", id)),
        (ticket, call(ticket).arg("id", id / 2 + 1)),
        (deployments, call(deployments).arg("limit", 10)),
        (runbook, call(runbook).arg("name", "checkout")),
        (local, call(local)),
    ]
}

impl Spell {
    fn add(&mut self, seen: &[(&'static str, Duration, Status)]) {
        self.turns += 1;
        for &(tool, took, status) in seen {
            match status {
                Status::Ok => self.ok += 1,
                Status::Busy => self.busy += 1,
                _ => self.other += 1,
            }
            self.latency.entry(tool).or_default().record(took);
        }
    }
}
