//! `[partition.….process]` and its tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::args::Declared;
use super::driver::{Context, Driver, Opened};
use super::fault::Faults;
use super::raw::{Bytes, Field, Table};
use crate::driver::Sizing;
use crate::driver::process::{Command, Limits, Process, Shim};

/// A process partition's driver and tools.
#[derive(Clone, Debug)]
struct ProcessPlan {
    process: Process,
    dir: PathBuf,
    tools: Vec<(Arc<str>, Command)>,
}

/// Reads the driver's table.
pub(super) fn read(
    table: &mut Table<'_>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Option<Box<dyn Driver>> {
    let dir = table.take::<String>("dir", faults);
    let dir = match dir {
        Some(dir) => context.dir.join(dir.value),
        None => context.dir.join("."),
    };
    let mut process = Process::new().dir(&dir).limits(limits(table, faults));
    if let Some(names) = table.list::<String>("env_allow", faults) {
        process = process.env_allow(names.into_iter().map(|name| name.value));
    }
    for (name, value) in variables(table, context, faults) {
        process = process.env(name, value);
    }
    if let Some(grace) = table.take::<Duration>("term_grace", faults) {
        process = process.term_grace(grace.value);
    }
    if let Some(wanted) = table.take::<bool>("cgroup", faults) {
        process = process.cgroup(wanted.value);
    }
    if let Some(shim) = table.take::<String>("shim", faults) {
        process = process.shim(match shim.value.as_str() {
            "own" => Shim::Own,
            "off" => Shim::Off,
            path => Shim::At(context.dir.join(path)),
        });
    }
    let tools = Vec::new();
    Some(Box::new(ProcessPlan { process, dir, tools }))
}

fn variables(
    table: &mut Table<'_>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (name, node) in table.entries("env", faults).unwrap_or_default() {
        let value = node.secret().read::<String>(faults);
        if let Some(value) = value.and_then(|value| context.expand(&value, faults)) {
            variables.push((name, value));
        }
    }
    variables
}

/// The bounds of a partition or a tool.
fn limits(table: &mut Table<'_>, faults: &mut Faults<'_>) -> Limits {
    let mut limits = Limits::new();
    if let Some(Field { value: Bytes(bytes), .. }) = table.take("memory", faults) {
        limits = limits.memory(bytes);
    }
    if let Some(seconds) = table.take::<u64>("cpu_seconds", faults) {
        limits = limits.cpu_seconds(seconds.value);
    }
    if let Some(Field { value: Bytes(bytes), .. }) = table.take("file_size", faults) {
        limits = limits.file_size(bytes);
    }
    if let Some(files) = table.take::<u64>("open_files", faults) {
        limits = limits.open_files(files.value);
    }
    if let Some(nice) = table.take::<u32>("nice", faults) {
        limits = limits.nice(u8::try_from(nice.value).unwrap_or(u8::MAX));
    }
    if let Some(cpus) = table.list::<u32>("cpus", faults) {
        limits = limits.cpus(cpus.into_iter().map(|cpu| cpu.value as usize));
    }
    if let Some(Field { value: Bytes(bytes), .. }) = table.take("output_kept", faults) {
        limits = limits.output_kept(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(Field { value: Bytes(bytes), .. }) = table.take("output_max", faults) {
        limits = limits.output_max(bytes);
    }
    limits
}

impl Driver for ProcessPlan {
    fn kind(&self) -> &'static str {
        "process"
    }

    fn read_tool(
        &mut self,
        name: &Arc<str>,
        table: &mut Table<'_>,
        context: &Context<'_>,
        faults: &mut Faults<'_>,
    ) {
        let mut args = Declared::read(table, faults);
        let fix = "give the program and its arguments, as in command = [\"rustfmt\", \"{file}\"]";
        if !table.has("command") {
            let _ = table.require::<String>("command", fix, faults);
        }
        let argv = table.list::<String>("command", faults).unwrap_or_default();
        for element in &argv {
            args.template(&element.value, &element.place, faults);
        }
        let mut command = Command::new(argv.into_iter().map(|element| element.value));
        command = command.limits(limits(table, faults));
        if let Some(stdin) = table.take::<String>("stdin", faults) {
            args.template(&stdin.value, &stdin.place, faults);
            command = command.stdin(stdin.value);
        }
        if let Some(dir) = table.take::<String>("dir", faults) {
            command = command.dir(dir.value);
        }
        if let Some(names) = table.list::<String>("env_allow", faults) {
            command = command.env_allow(names.into_iter().map(|name| name.value));
        }
        for (name, value) in variables(table, context, faults) {
            command = command.env(name, value);
        }
        if let Some(name) = table.take::<String>("idempotency_env", faults) {
            command = command.idempotency_env(name.value);
        }
        if let Some(codes) = table.list::<u32>("ok_exit_codes", faults) {
            let codes = codes.into_iter().map(|code| code.value);
            command =
                command.ok_exit_codes(codes.map(|code| i32::try_from(code).unwrap_or(i32::MAX)));
        }
        command = args.finish(faults).into_iter().fold(command, Command::arg);
        self.tools.push((Arc::clone(name), command));
    }

    fn open(&self, sizing: &Sizing, opened: &mut Opened) {
        let launcher = match self.process.clone().open(sizing) {
            Ok(launcher) => launcher,
            Err(error) => {
                let prefix = format!("partition.{}.process.", sizing.partition);
                let error = error.strip_prefix(&prefix).unwrap_or(&error);
                return opened.complain(None, &error);
            }
        };
        for (name, command) in &self.tools {
            opened.add(name, launcher.tool(command.clone()));
        }
    }

    fn copy(&self) -> Box<dyn Driver> {
        Box::new(self.clone())
    }

    fn advice(&self) -> Vec<String> {
        let missing = (!self.dir.is_dir()).then(|| {
            let dir = self.dir.display();
            format!("there is no folder `{dir}`: its tools fail until there is one")
        });
        missing.into_iter().collect()
    }
}
