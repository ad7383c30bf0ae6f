//! `watertight inspect`: the page, or the outcomes of scenarios and plans as JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{BAD_USAGE, DONE, INTERRUPTED};
use crate::inspect::Server;
use crate::simulate::plan::{self, Plan};
use crate::simulate::{Batch, Scenario, run_all};

/// The longest scenario that the page can be opened with.
const SCENARIO_MAX: u64 = 64 * 1024;
/// The longest plan, and the longest trace.
const PLAN_MAX: u64 = 64 * 1024 * 1024;
const TRACE_MAX: u64 = 1024 * 1024 * 1024;

/// See which calls still finish when a dependency stalls
///
/// Serves the inspector's page on 127.0.0.1 until it is interrupted. With --json it prints the
/// outcome of each scenario instead, a line each; with --plan what becomes of a whole demand.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Scenarios: one JSON object, an array of them, or one a line; `-` reads standard input.
    /// Without --json: the one that the page opens with
    #[arg(long, value_name = "FILE", required_if_eq("json", "true"))]
    scenario: Option<PathBuf>,
    /// Print outcomes as JSON; an invalid scenario gives {"error": …} in its place
    #[arg(long)]
    json: bool,
    /// Play a plan and print its report as JSON: partitions, loads (arrivals and service times by
    /// distribution, histogram or trace), faults in time, tenants, reserve, breaker and retries, in
    /// virtual time and repeatable by its seed; `-` reads standard input. Traces are looked for
    /// beside the plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "json", "port", "no_open"])]
    plan: Option<PathBuf>,
    /// The page's port; 0 takes any that is free
    #[arg(long, default_value_t = 0, conflicts_with = "json")]
    port: u16,
    /// Do not open the page in a browser
    #[arg(long, conflicts_with = "json")]
    no_open: bool,
}

/// Does what `args` say. Blocks until the page's server is interrupted.
pub(super) fn run(args: &Args) -> u8 {
    let done = match (&args.plan, &args.scenario) {
        (Some(file), _) => print_report(file),
        (None, Some(file)) if args.json => print_outcomes(file),
        (None, scenario) => serve(args, scenario.as_deref()),
    };
    done.unwrap_or_else(|message| {
        // With standard error gone there is nobody to tell.
        let _ = writeln!(io::stderr(), "error: {message}");
        BAD_USAGE
    })
}

fn print_outcomes(file: &Path) -> Result<u8, String> {
    match run_all(open(file)?, io::stdout().lock()) {
        Ok(Batch::Single(Err(error))) => Err(error.to_string()),
        Ok(_) => Ok(DONE),
        // Whoever read the lines has enough of them.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(DONE),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

fn print_report(file: &Path) -> Result<u8, String> {
    let text = read(file, PLAN_MAX)?;
    let beside = file.parent().unwrap_or(Path::new(""));
    let open = |trace: &str| read(&beside.join(trace), TRACE_MAX).map_err(io::Error::other);
    let report = Plan::from_json_with(&text, open)
        .and_then(|plan| plan::run(&plan))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let mut text = serde_json::to_vec(&report).map_err(|error| error.to_string())?;
    text.push(b'\n');
    match io::stdout().lock().write_all(&text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(DONE),
    }
}

/// The text of a file of at most `most` bytes.
fn read(file: &Path, most: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = open(file)?.take(most + 1).read_to_string(&mut text);
    read.map_err(|error| format!("{}: {error}", file.display()))?;
    if text.len() as u64 > most {
        return Err(format!("{}: must be at most {most} bytes; split it", file.display()));
    }
    Ok(text)
}

fn open(file: &Path) -> Result<Box<dyn BufRead>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    match File::open(file) {
        Ok(file) => Ok(Box::new(BufReader::new(file))),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

fn serve(args: &Args, scenario: Option<&Path>) -> Result<u8, String> {
    let scenario = scenario.map(read_scenario).transpose()?;
    let server = Server::bind(args.port)
        .map_err(|error| format!("--port {}: {error}; 0 takes any that is free", args.port))?;
    let url = match &scenario {
        Some(scenario) => server.url_of(scenario),
        None => server.url(),
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let stopper = server.stopper();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    // With standard output gone the page is still served.
    let _ = writeln!(io::stdout(), "{url}");
    if !args.no_open {
        open_browser(url);
    }
    server.serve();
    Ok(INTERRUPTED)
}

fn read_scenario(file: &Path) -> Result<Scenario, String> {
    let mut text = String::new();
    open(file)?
        .take(SCENARIO_MAX)
        .read_to_string(&mut text)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Scenario::from_json(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Asks the desktop for a browser, if there is a desktop; the address is on the terminal, too.
fn open_browser(url: String) {
    let opener = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    thread::spawn(move || {
        let mut command = Command::new(opener);
        command.arg(url).stdin(Stdio::null());
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    });
}
