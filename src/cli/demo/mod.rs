//! `watertight demo`: the 14:03 incident, with one shared pool and with walls.
//!
//! Everything in it is real: a loopback vendor that hangs, SQLite files, child processes. Only the
//! time is scaled: the vendor hangs for a second and a half instead of 29.

mod agent;
mod backends;
mod report;

use std::time::Duration;

use agent::Story;
use backends::{Backends, Wall};
use report::Report;

use super::{complain, tell};

/// How long the vendor is well before it hangs, and how long it hangs, in each of the two runs.
const HEALTHY: Duration = Duration::from_secs(3);
const HANGING: Duration = Duration::from_secs(8);

/// Play an incident: one slow tool, with one shared pool and with walls
///
/// A search vendor that hangs, ten sessions of an agent, SQLite, child processes: all real, on this
/// machine alone. Takes about 25 seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  watertight demo\n  watertight demo --json | jq .walls.turns")]
pub(super) struct Demo {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(super) fn run(&self) -> u8 {
        match play() {
            Ok(report) => report.print(self.json),
            Err(error) => complain(error),
        }
    }
}

fn play() -> Result<Report, Box<dyn std::error::Error>> {
    let mut stories = Vec::new();
    for wall in [Wall::None, Wall::Stands] {
        tell(format_args!("{}: {} s", wall.title(), (HEALTHY + HANGING).as_secs()));
        let backends = Backends::start()?;
        let runtime = backends.harness(wall)?;
        stories.push(Story::play(&runtime, &backends, HEALTHY, HANGING));
        runtime.shutdown(Duration::from_secs(1));
    }
    let walled = stories.pop().ok_or("the second run is missing")?;
    let shared = stories.pop().ok_or("the first run is missing")?;
    Ok(Report::new(shared, walled))
}
