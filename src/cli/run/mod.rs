//! `watertight run`: calls in, outcomes out.

mod call;
mod engine;
mod feed;
mod input;
mod outcomes;
mod output;
mod progress;
mod summary;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::ValueEnum;

use super::signals::Stop;
use super::{ConfigFile, DONE, INTERRUPTED, SOME_CALL_FAILED, complain, complain_of, tell};
use engine::{End, Engine};
use output::Output;
use progress::Progress;

/// Run tool calls and write one outcome a line, in order of completion
///
/// A call is a line of JSON; only `tool` is required:
///
///   {"id":1,"tool":"search_docs","args":{"q":"x"},"tenant":"s-7","turn":3,"at_ms":120,
///    "deadline_ms":30000,"idempotency_key":"k-1"}
///
/// Calls with neither `turn` nor `at_ms` are fed as their partition has room, so that a list of any
/// length is worked off and not refused; tenants take turns. A `rate`, a breaker or a pause that the
/// backend asks for refuses them all the same: see `--retry-busy`. Calls of one tenant with the same
/// `turn` fan out together, and that tenant's next turn starts when all of them have ended. A call
/// with `at_ms` is offered at that time from the start, come what may; with both it is offered not
/// before either. `deadline_ms` counts from the first offer.
///
/// A line that is no call has the outcome `failed` with its line number, and the rest goes on. Calls
/// without an `id` are told by their `line`. Up to 4,096 calls are read ahead; a line may have 1 MiB.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub(super) struct Run {
    #[command(flatten)]
    config: ConfigFile,
    /// The calls, one a line; standard input if it is left out or `-`
    #[arg(value_name = "CALLS")]
    calls: Option<PathBuf>,
    /// Offer a call that was turned away up to N more times, each when its hint says
    ///
    /// That is a call that is busy, throttled, or met an open breaker, and of which nothing was
    /// executed. Only its last outcome is written, with the number of attempts, those of a tool that
    /// retries by itself included.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry_busy: u32,
    /// Exit with 1 if some call did not end well
    #[arg(long)]
    strict: bool,
    /// The summary table on standard error; `auto`: if that is a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    summary: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

const EXAMPLES: &str = "\
Examples:
  watertight run calls.jsonl
  watertight run --retry-busy 3 --strict < calls.jsonl > outcomes.jsonl
  echo '{\"tool\":\"read_ticket\",\"args\":{\"id\":7}}' | watertight run

  # Lint every source file, as many at once as the partition has slots:
  git ls-files '*.rs' | jq -Rc '{tool:\"rustfmt_check\",args:{file:.}}' | watertight run

Ctrl-C stops the feeding, answers what waits, ends running children and writes the summary;
a second one ends at once.";

impl Run {
    pub(super) fn run(&self) -> u8 {
        let config = match self.config.read() {
            Ok(config) => config,
            Err(error) => return complain_of(&error),
        };
        let input = match input::open(self.calls.as_deref()) {
            Ok(input) => input,
            Err(error) => {
                let path = self.calls.as_deref().unwrap_or("-".as_ref()).display();
                return complain(format_args!("{path}: {error}"));
            }
        };
        let runtime = match config.build() {
            Ok(runtime) => runtime,
            Err(error) => return complain_of(&error),
        };
        let stop = Stop::default();
        let output = match Output::start() {
            Ok(output) => output,
            Err(error) => return complain(format_args!("no thread for the output: {error}")),
        };
        let progress = Progress::new(self.summary != When::Never);
        let mut engine = Engine::new(&runtime, output, progress, stop.clone(), self.retry_busy);
        let waker = engine.waker();
        let woken = engine.waker();
        let started =
            stop.on_signals(move || woken.wake()).and_then(|()| input::start(input, waker));
        let lines = match started {
            Ok(lines) => lines,
            Err(error) => return complain(format_args!("no thread for the input: {error}")),
        };
        let end = engine.run(&lines);
        let (tally, written) = engine.finish();
        if self.wants_summary() && tally.total() > 0 {
            tell(tally.report(&runtime, end.took));
        }
        if let Err(error) = written {
            return complain(format_args!("standard output: {error}"));
        }
        self.code(&end, tally.is_clean())
    }

    fn wants_summary(&self) -> bool {
        match self.summary {
            When::Always => true,
            When::Never => false,
            When::Auto => std::io::stderr().is_terminal(),
        }
    }

    fn code(&self, end: &End, is_clean: bool) -> u8 {
        if let Some(error) = &end.broken {
            return complain(format_args!("the calls cannot be read on: {error}"));
        }
        match () {
            () if end.interrupted => INTERRUPTED,
            () if self.strict && !is_clean => SOME_CALL_FAILED,
            () => DONE,
        }
    }
}
