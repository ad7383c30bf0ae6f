//! The `watertight` command: one file a subcommand.

mod check;
mod completions;
mod demo;
mod inspect;
mod run;
mod signals;
mod table;

use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{Config, ConfigError};

/// Everything was done.
const DONE: u8 = 0;
/// Some call did not end well, under `--strict`.
const SOME_CALL_FAILED: u8 = 1;
/// Bad usage or configuration, or the input or output broke.
const BAD_USAGE: u8 = 2;
/// Ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs an agent's tool calls behind bulkheads: one slow tool must not starve the rest.
#[derive(Debug, Parser)]
#[command(name = "watertight", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Check(check::Check),
    Demo(demo::Demo),
    Inspect(inspect::Args),
    Completions(completions::Completions),
}

const EXAMPLES: &str = "\
Examples:
  watertight check                          what watertight.toml will do
  watertight run calls.jsonl                run the calls of a file
  agent | watertight run --strict           run what an agent writes; 1 if some call failed
  watertight demo                           one slow tool, with walls and without, in 25 s
  watertight inspect                        see, tick by tick, why walls beat a shared pool
  watertight completions bash > ~/.local/share/bash-completion/completions/watertight

Exit codes: 0 done, 1 some call failed under --strict, 2 bad usage or configuration,
130 interrupted.";

/// The configuration that a subcommand works with.
#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The file with the partitions and tools
    #[arg(short, long, value_name = "FILE", default_value = "watertight.toml")]
    config: PathBuf,
}

impl ConfigFile {
    fn read(&self) -> Result<Config, ConfigError> {
        Config::from_file(&self.config)
    }
}

/// Does what the arguments of this process say; its exit code. Blocks until that is done.
pub fn main() -> ExitCode {
    let code = match Cli::parse().command {
        Command::Run(run) => run.run(),
        Command::Check(check) => check.run(),
        Command::Demo(demo) => demo.run(),
        Command::Inspect(args) => inspect::run(&args),
        Command::Completions(completions) => completions.run(),
    };
    ExitCode::from(code)
}

/// Tells the user on standard error; if nobody listens there, nobody does.
fn tell(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Tells what keeps the command from doing its job.
fn complain(text: impl Display) -> u8 {
    tell(format_args!("watertight: {text}"));
    BAD_USAGE
}

/// Tells what is wrong with a configuration.
fn complain_of(error: &ConfigError) -> u8 {
    let count = error.faults().len();
    let faults = if count == 1 { "fault" } else { "faults" };
    tell(error);
    complain(format_args!("{count} {faults} in the configuration; nothing was started"))
}

/// Writes `text` to standard output, and takes it well if nobody reads it.
fn print(text: &[u8]) -> u8 {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => DONE,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => DONE,
        Err(error) => complain(format_args!("standard output: {error}")),
    }
}
