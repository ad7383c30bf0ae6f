//! A tool's command line: what is fixed in it, and what its arguments fill.

use std::path::PathBuf;
use std::sync::Arc;

use super::environment::Environment;
use super::launcher::Setup;
use super::limits::Limits;
use super::script;
use crate::call::Run;
use crate::driver::args::{ArgSpec, ArgType, Args, Signature, Template, invalid};
use crate::driver::{Operation, Response, Tool};
use crate::outcome::Failure;

/// The longest argument the system takes (Linux: 128 KiB, its ending NUL included).
const ARGUMENT_MAX: usize = 128 * 1024 - 1;

/// A command: a program and its arguments, with placeholders such as `{file}`.
///
/// It is never given to a shell: each element stays one element of `argv` whatever its placeholders
/// are filled with, so neither blanks nor quotes nor `;` in an argument mean anything. A program
/// may still take an argument that begins with `-` for an option. Where that must not happen, write
/// `--` before the placeholder (most programs take what follows for operands), or put the
/// placeholder behind text of your own, as in `--file={file}` or `./{file}`.
///
/// ```
/// use watertight::driver::process::Command;
///
/// let command = Command::new(["rustfmt", "--check", "--edition", "2024", "{file}"]);
/// # let _ = command;
/// ```
#[derive(Clone, Debug)]
pub struct Command {
    argv: Vec<String>,
    stdin: Option<String>,
    declared: Vec<ArgSpec>,
    ok_exit_codes: Vec<i32>,
    pub(super) dir: Option<PathBuf>,
    pub(super) environment: Environment,
    pub(super) idempotency_env: Option<String>,
    pub(super) limits: Limits,
}

impl Command {
    /// The command `argv`: a program, then its arguments. A program without a `/` is looked for in
    /// the tool's `PATH`, with one it is a path from the partition's directory.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Command {
        Command {
            argv: argv.into_iter().map(Into::into).collect(),
            stdin: None,
            declared: Vec::new(),
            ok_exit_codes: vec![0],
            dir: None,
            environment: Environment::default(),
            idempotency_env: None,
            limits: Limits::default(),
        }
    }

    /// What the program reads from its standard input, with placeholders. Defaults to nothing: its
    /// standard input is `/dev/null`.
    #[must_use]
    pub fn stdin(mut self, template: impl Into<String>) -> Command {
        self.stdin = Some(template.into());
        self
    }

    /// Declares an argument's type or default. By default the arguments are the placeholders, each
    /// required and a string, a number or a boolean.
    #[must_use]
    pub fn arg(mut self, spec: ArgSpec) -> Command {
        self.declared.push(spec);
        self
    }

    /// Exit codes that mean success. Defaults to 0 alone.
    #[must_use]
    pub fn ok_exit_codes(mut self, codes: impl IntoIterator<Item = i32>) -> Command {
        self.ok_exit_codes = codes.into_iter().collect();
        self
    }

    /// The directory the program runs in, from the partition's. Defaults to the partition's.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Command {
        self.dir = Some(dir.into());
        self
    }

    /// Lets more of the harness's variables through than the partition does.
    #[must_use]
    pub fn env_allow<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Command {
        self.environment.allow(names);
        self
    }

    /// Sets a variable, whatever the partition or the harness has in its place.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.environment.fix(name.into(), value.into());
        self
    }

    /// Gives the program the call's idempotency key in the variable `name`: the caller's own, or one
    /// that is minted for the call. Defaults to not at all.
    #[must_use]
    pub fn idempotency_env(mut self, name: impl Into<String>) -> Command {
        self.idempotency_env = Some(name.into());
        self
    }

    /// What the program may use, where it is not what the partition says.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Command {
        self.limits = limits;
        self
    }

    /// Reads the templates and makes the tool that runs it with `setup`.
    pub(super) fn with(self, setup: Setup) -> Result<CommandTool, String> {
        let argv = self.argv.iter().map(|element| template("command", element));
        let mut argv = argv.collect::<Result<Vec<_>, _>>()?;
        if argv.is_empty() {
            return Err("command: is empty; it needs a program".to_owned());
        }
        let program = program(&argv.remove(0))?;
        script::check(&program, &argv)?;
        let stdin = self.stdin.map(|text| template("stdin", &text)).transpose()?;
        if let Some(code) = self.ok_exit_codes.iter().find(|code| !(0..=255).contains(*code)) {
            return Err(format!("ok_exit_codes: {code} is no exit code; give 0 to 255"));
        }
        if self.ok_exit_codes.is_empty() {
            return Err("ok_exit_codes: is empty; leave it out for [0]".to_owned());
        }
        let signature = Signature::of(argv.iter().chain(&stdin), self.declared, ArgType::Scalar);
        let ok_exit_codes = self.ok_exit_codes;
        let fixed = Arc::new(Fixed { setup, ok_exit_codes });
        Ok(CommandTool { fixed, program, argv, stdin, signature })
    }
}

fn template(key: &str, text: &str) -> Result<Template, String> {
    if text.contains('\0') {
        return Err(format!("{key}: no element may hold a NUL"));
    }
    Template::parse(text).map_err(|error| format!("{key}: {error}"))
}

fn program(template: &Template) -> Result<String, String> {
    if let Some(name) = template.names().next() {
        return Err(format!("command: the program must be fixed, not `{{{name}}}`"));
    }
    let program = template.fill(&Args::new(), str::to_owned);
    if program.is_empty() {
        return Err("command: the program must not be empty".to_owned());
    }
    Ok(program)
}

/// A command bound to its partition.
pub(super) struct CommandTool {
    fixed: Arc<Fixed>,
    program: String,
    argv: Vec<Template>,
    stdin: Option<Template>,
    signature: Signature,
}

/// What is the same for all calls of a tool.
struct Fixed {
    setup: Setup,
    ok_exit_codes: Vec<i32>,
}

/// A command with its arguments filled in.
pub(super) struct Invocation {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) stdin: Option<String>,
}

impl CommandTool {
    fn invocation(&self, args: &Args) -> Result<Invocation, Failure> {
        let args = self.signature.check(args)?;
        let mut argv = Vec::with_capacity(self.argv.len());
        for template in &self.argv {
            let element = template.fill(&args, str::to_owned);
            let names = || template.names().collect::<Vec<_>>().join("`, `");
            if element.contains('\0') {
                return Err(invalid(format!("argument `{}` must not hold a NUL", names())));
            }
            if element.len() > ARGUMENT_MAX {
                return Err(invalid(format!(
                    "argument `{}` is too long for a command line (at most {ARGUMENT_MAX} bytes)",
                    names()
                )));
            }
            argv.push(element);
        }
        let stdin = self.stdin.as_ref().map(|template| template.fill(&args, str::to_owned));
        Ok(Invocation { program: self.program.clone(), args: argv, stdin })
    }
}

impl Tool for CommandTool {
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        let invocation = self.invocation(args)?;
        let fixed = Arc::clone(&self.fixed);
        Ok(Box::new(move |run: &Run| {
            let Fixed { setup, ok_exit_codes } = &*fixed;
            let ended = setup.run(&invocation, run)?;
            ended.verdict(&invocation.program, ok_exit_codes, setup.limits())?;
            let fixed = Arc::clone(&fixed);
            Ok(Response::new(move || Ok(ended.to_json(fixed.setup.limits()))))
        }))
    }
}
