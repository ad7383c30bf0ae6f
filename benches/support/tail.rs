//! How long the slowest calls take.

use std::time::Instant;

use watertight::telemetry::Latency;
use watertight::{Runtime, ToolCall};

/// The p99 of so many `calls` of `tool`, one after the other, in microseconds.
pub(crate) fn p99(runtime: &Runtime, tool: &str, calls: u32) -> f64 {
    let mut latency = Latency::new();
    for _ in 0..calls {
        let start = Instant::now();
        let outcome = runtime.call(ToolCall::new(tool));
        latency.record(start.elapsed());
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    latency.quantile(0.99).as_secs_f64() * 1e6
}
