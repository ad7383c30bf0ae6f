//! What the demo prints.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::super::{BAD_USAGE, DONE};
use super::agent::{Spell, Story};
use super::backends::TOOLS;

pub(super) struct Report {
    shared: Story,
    walled: Story,
}

impl Report {
    pub(super) fn new(shared: Story, walled: Story) -> Report {
        Report { shared, walled }
    }

    pub(super) fn print(&self, as_json: bool) -> u8 {
        let mut out = io::stdout().lock();
        let printed = if as_json {
            writeln!(out, "{:#}", self.to_json())
        } else {
            writeln!(out, "{}\n\n{}", self.table(), self.sentence())
        };
        if printed.is_ok() { DONE } else { BAD_USAGE }
    }

    fn columns(&self) -> [(&'static str, &Spell); 3] {
        [
            ("healthy", &self.walled.healthy),
            ("shared pool", &self.shared.hanging),
            ("walls", &self.walled.hanging),
        ]
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        let head = self.columns().map(|(name, _)| format!("{name}\np50 / p99 / max"));
        table.set_header([vec!["while search hangs".to_owned()], head.to_vec()].concat());
        for tool in TOOLS {
            let cells = self.columns().map(|(_, spell)| latency(spell, tool));
            table.add_row([vec![tool.to_owned()], cells.to_vec()].concat());
        }
        let turns = self.columns().map(|(_, spell)| spell.turns.to_string());
        table.add_row([vec!["turns completed".to_owned()], turns.to_vec()].concat());
        let busy = self.columns().map(|(_, spell)| spell.busy.to_string());
        table.add_row([vec!["calls told `busy`".to_owned()], busy.to_vec()].concat());
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn sentence(&self) -> String {
        let p99 = |spell: &Spell| span(quantile(spell, "list_deployments", 0.99));
        let [(_, healthy), (_, shared), (_, walled)] = self.columns();
        format!(
            "When search hung, list_deployments, which never touches it, went from a p99 of {} to \
             {} in the shared pool and stayed at {} behind its wall: {} turns were completed \
             instead of {}.",
            p99(healthy),
            p99(shared),
            p99(walled),
            walled.turns,
            shared.turns
        )
    }

    fn to_json(&self) -> Value {
        let spell = |spell: &Spell| {
            let tools: serde_json::Map<_, _> = TOOLS
                .iter()
                .map(|tool| {
                    let us = |q| quantile(spell, tool, q).as_micros();
                    let latency = json!({
                        "count": spell.latency.get(tool).map_or(0, crate::telemetry::Latency::count),
                        "p50_us": us(0.5) as u64,
                        "p99_us": us(0.99) as u64,
                        "max_us": us(1.0) as u64,
                    });
                    ((*tool).to_owned(), latency)
                })
                .collect();
            json!({
                "turns": spell.turns,
                "ok": spell.ok,
                "busy": spell.busy,
                "other": spell.other,
                "tools": tools,
            })
        };
        json!({
            "healthy": spell(&self.walled.healthy),
            "shared": spell(&self.shared.hanging),
            "walls": spell(&self.walled.hanging),
            "summary": self.sentence(),
        })
    }
}

fn quantile(spell: &Spell, tool: &str, q: f64) -> Duration {
    spell.latency.get(tool).map_or(Duration::ZERO, |latency| latency.quantile(q))
}

fn latency(spell: &Spell, tool: &str) -> String {
    let at = |q| span(quantile(spell, tool, q));
    format!("{} / {} / {}", at(0.5), at(0.99), at(1.0))
}

/// A span with the digits a reader needs: `0.4 ms`, `12 ms`, `1.45 s`.
fn span(span: Duration) -> String {
    let ms = span.as_secs_f64() * 1e3;
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1e3)
    }
}
