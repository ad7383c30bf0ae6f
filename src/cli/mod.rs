//! The `watertight` command, one file a subcommand.

mod inspect;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One slow tool must not starve the rest.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Args),
}

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Inspect(args) => inspect::run(&args),
    }
}
