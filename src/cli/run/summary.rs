//! What was run, in one table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use comfy_table::CellAlignment;
use serde_json::Value;

use crate::cli::table::table;
use crate::outcome::{Executed, Outcome, Status};
use crate::runtime::Runtime;
use crate::telemetry::Latency;

/// Counts the final outcomes.
#[derive(Default)]
pub(super) struct Tally {
    rows: BTreeMap<(Arc<str>, Arc<str>), Row>,
    all: Row,
    late: u64,
    latest: Duration,
    retries: u64,
}

/// The outcomes of one tool.
#[derive(Clone, Default)]
struct Row {
    ok: u64,
    busy: u64,
    timeout: u64,
    other: u64,
    ran: Latency,
    longest_wait: Duration,
}

/// Less is not late.
const LATE: Duration = Duration::from_millis(20);

impl Tally {
    pub(super) fn add(&mut self, outcome: &Outcome<Value>) {
        let tool = match &outcome.tool {
            Some(tool) if !outcome.partition.is_empty() => Arc::clone(tool),
            // One row for all: there may be any number of such names.
            Some(_) => "(no such tool)".into(),
            None => "(no call)".into(),
        };
        let row = self.rows.entry((Arc::clone(&outcome.partition), tool)).or_default();
        row.add(outcome);
        self.all.add(outcome);
    }

    /// Notes that a call was offered `late`.
    pub(super) fn offered(&mut self, late: Duration) {
        if late > LATE {
            self.late += 1;
            self.latest = self.latest.max(late);
        }
    }

    /// Notes that a call is offered again.
    pub(super) fn retried(&mut self) {
        self.retries += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.all.total()
    }

    /// Whether every call finished well.
    pub(super) fn is_clean(&self) -> bool {
        self.all.ok == self.total()
    }

    /// Few words for a line of progress.
    pub(super) fn brief(&self) -> String {
        let Row { ok, busy, timeout, other, .. } = &self.all;
        format!("{ok} ok, {busy} busy, {timeout} timeout, {other} other")
    }

    /// The table, and the totals below it.
    pub(super) fn report(&self, runtime: &Runtime, took: Duration) -> String {
        let mut table = table([
            "partition",
            "tool",
            "ok",
            "busy",
            "timeout",
            "other",
            "p50",
            "p99",
            "max wait",
            "max in flight",
        ]);
        table.use_stderr();
        for ((partition, tool), row) in &self.rows {
            let in_flight = runtime.partition(partition).map_or_else(String::new, |partition| {
                let (most, slots) =
                    (partition.snapshot().max_in_flight, partition.spec().capacity());
                format!("{most} of {slots}")
            });
            let name = if partition.is_empty() { "-" } else { partition };
            table.add_row([
                name.to_owned(),
                tool.to_string(),
                row.ok.to_string(),
                row.busy.to_string(),
                row.timeout.to_string(),
                row.other.to_string(),
                row.quantile(0.5),
                row.quantile(0.99),
                shown(row.longest_wait),
                in_flight,
            ]);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text =
            format!("{table}\n{} calls in {}: {}", self.total(), shown(took), self.brief());
        if self.retries > 0 {
            text.push_str(&format!("\n{} times a call was offered again", self.retries));
        }
        if self.late > 0 {
            text.push_str(&format!(
                "\n{} calls were offered later than their at_ms, by up to {}: the input or the \
                 reader of the outcomes did not keep up",
                self.late,
                shown(self.latest)
            ));
        }
        text
    }
}

impl Row {
    fn add(&mut self, outcome: &Outcome<Value>) {
        let count = match outcome.status() {
            Status::Ok => &mut self.ok,
            Status::Busy => &mut self.busy,
            Status::Timeout => &mut self.timeout,
            _ => &mut self.other,
        };
        *count += 1;
        if outcome.executed() != Executed::No {
            self.ran.record(outcome.timing.ran);
        }
        self.longest_wait = self.longest_wait.max(outcome.timing.waited);
    }

    fn total(&self) -> u64 {
        self.ok + self.busy + self.timeout + self.other
    }

    fn quantile(&self, quantile: f64) -> String {
        if self.ran.count() == 0 {
            return "-".to_owned();
        }
        shown(self.ran.quantile(quantile))
    }
}

/// A span in three digits: `0.42 ms`, `12.3 ms`, `1.20 s`.
fn shown(span: Duration) -> String {
    let ms = span.as_secs_f64() * 1000.0;
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 60_000.0 => format!("{:.2} s", ms / 1000.0),
        ms => format!("{:.0} s", ms / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_three_digits() {
        for (us, text) in [
            (0, "0.00 ms"),
            (420, "0.42 ms"),
            (12_340, "12.3 ms"),
            (345_600, "346 ms"),
            (1_200_000, "1.20 s"),
            (90_000_000, "90 s"),
        ] {
            assert_eq!(shown(Duration::from_micros(us)), text);
        }
    }
}
