//! Child processes, with the shim and without.

use std::fs;
use std::path::PathBuf;

use watertight::driver::process::{Command, Process, Shim};
use watertight::{PartitionSpec, Runtime};

use crate::suite::{Driver, HOME, Work, alone, hold};

/// A tree of processes, known by an argument that nobody else gives.
struct Children {
    shim: Shim,
    script: &'static str,
    mark: String,
    count: usize,
}

impl Children {
    fn new(shim: Shim, script: &'static str, count: usize) -> Children {
        let name = if shim == Shim::Off { "1" } else { "2" };
        let mark = format!("86400.{}{name}", std::process::id());
        Children { shim, script, mark, count }
    }

    /// How many processes sleep for as long as ours.
    fn alive(&self) -> usize {
        let argv = format!("sleep\0{}\0", self.mark);
        let all = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        all.filter(|entry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == argv.as_bytes())
        })
        .count()
    }
}

impl Driver for Children {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        let launcher = Process::new().shim(self.shim.clone()).open(&spec.sizing());
        let launcher = launcher.expect("a launcher");
        let tool = |command| launcher.tool(command).expect("a command");
        let hang = tool(Command::new(["sh", "-c", self.script, "sh", &self.mark]));
        let quick = tool(Command::new(["true"]));
        Runtime::builder()
            .partition(spec)
            .tool("hang", HOME, hang)
            .tool("quick", HOME, quick)
            .build()
            .expect("threads")
    }

    fn work(&self) -> Work {
        match self.alive() {
            0 => Work::None,
            alive if alive < self.count => Work::Some,
            _ => Work::Full,
        }
    }
}

/// A child, one in a session of its own, and an orphan.
#[test]
fn process() {
    let _alone = alone();
    let shim = Shim::At(PathBuf::from(env!("CARGO_BIN_EXE_watertight-shim")));
    let script = "sleep \"$1\" & setsid sleep \"$1\" & (sleep \"$1\" &); wait";
    hold(&Children::new(shim, script, 3));
}

/// A child and an orphan: without a shim one in a session of its own gets away, which its outcome
/// says.
#[test]
fn process_without_a_shim() {
    let _alone = alone();
    let script = "sleep \"$1\" & (sleep \"$1\" &); wait";
    hold(&Children::new(Shim::Off, script, 2));
}
