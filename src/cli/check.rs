//! `watertight check`: what is wrong with a configuration, or what it will do.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::table::table;
use super::{BAD_USAGE, ConfigFile, complain_of, print};
use crate::admission::{Dispatch, Policy};
use crate::config::{Config, ConfigError, Section};

/// Say what is wrong with a configuration, or what it will do
///
/// Every fault is told at once, with its place, rule and fix. Nothing is connected to. Variables
/// that the file takes from the environment must be set.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  watertight check
  watertight check --config production.toml --json";

impl Check {
    pub(super) fn run(&self) -> u8 {
        match (self.config.read(), self.json) {
            (Ok(config), false) => print(report(&config).as_bytes()),
            (Ok(config), true) => print(&line(&data(&config))),
            (Err(error), false) => complain_of(&error),
            (Err(error), true) => {
                print(&line(&faults(&error)));
                BAD_USAGE
            }
        }
    }
}

/// The longest until a caller has its answer, and until a full partition is idle if nothing else is
/// offered: a run, and before it as many rounds of the others as `max_wait` lets one wait for.
fn answers_within(section: &Section) -> Duration {
    let Policy { slots, queue, run_limit, cancel_grace, .. } = *section.spec.policy();
    let run = run_limit.saturating_add(cancel_grace);
    let rounds = run.saturating_mul(queue.div_ceil(slots));
    run.saturating_add(rounds.min(section.spec.wait_limit()))
}

fn report(config: &Config) -> String {
    let mut table = table([
        "partition",
        "driver",
        "slots",
        "queue",
        "max wait",
        "run limit",
        "answers within",
        "tools",
    ]);
    for section in config.sections() {
        let policy = section.spec.policy();
        let shown = |span: Duration| humantime::format_duration(span).to_string();
        let tools: Vec<_> = section.tools.iter().map(|tool| &**tool).collect();
        table.add_row([
            section.spec.name().to_owned(),
            section.driver().unwrap_or("none").to_owned(),
            policy.slots.to_string(),
            policy.queue.to_string(),
            shown(section.spec.wait_limit()),
            shown(policy.run_limit),
            shown(answers_within(section)),
            tools.join("\n"),
        ]);
    }
    let mut text = format!("{table}\n");
    let (threads, tools) = totals(config);
    let partitions = config.sections().len();
    let _ = writeln!(
        text,
        "{partitions} partitions, {tools} tools, at most {threads} calls at once, each on a thread \
         of its own"
    );
    for warning in config.warnings() {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// All threads that run calls, and all tools.
fn totals(config: &Config) -> (u64, usize) {
    let threads = config.sections().iter().map(|section| u64::from(section.spec.capacity()));
    let tools = config.sections().iter().map(|section| section.tools.len());
    (threads.sum(), tools.sum())
}

fn data(config: &Config) -> Value {
    let partitions: Vec<_> = config.sections().iter().map(partition).collect();
    json!({"ok": true, "partitions": partitions, "warnings": config.warnings()})
}

fn partition(section: &Section) -> Value {
    let policy = section.spec.policy();
    let homes = policy.homes.iter();
    let homes: serde_json::Map<_, _> =
        homes.map(|(tenant, slots)| (tenant.as_str().to_owned(), Value::from(*slots))).collect();
    let tools: Vec<_> = section.tools.iter().map(|tool| &**tool).collect();
    json!({
        "partition": section.spec.name(),
        "driver": section.driver(),
        "slots": policy.slots,
        "queue": policy.queue,
        "max_wait_ms": ms(section.spec.wait_limit()),
        "run_limit_ms": ms(policy.run_limit),
        "cancel_grace_ms": ms(policy.cancel_grace),
        "replace_overdue": policy.replace_overdue,
        "reserve_max": policy.reserve_max,
        "dispatch": match policy.dispatch {
            Dispatch::Fifo => "fifo",
            Dispatch::RoundRobin => "round_robin",
            Dispatch::Strict => "strict",
            Dispatch::Borrow => "borrow",
        },
        "tenant_max": policy.tenant_max,
        "tenant_queue": policy.tenant_queue,
        "tenant_slots": homes,
        "answers_within_ms": ms(answers_within(section)),
        "tools": tools,
    })
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

fn faults(error: &ConfigError) -> Value {
    let faults = error.faults().iter().map(|fault| {
        json!({
            "file": fault.file,
            "line": fault.line,
            "column": fault.column,
            "key": fault.key,
            "value": fault.value,
            "rule": fault.rule,
            "fix": fault.fix,
        })
    });
    json!({"ok": false, "faults": faults.collect::<Vec<_>>()})
}

fn line(json: &Value) -> Vec<u8> {
    format!("{json}\n").into_bytes()
}
