//! The call's side of its shim.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;

use rustix::process::Pid;

use super::super::cgroup::{Hierarchy, Leaf};
use super::super::child::{self, Exit, Held, Leash, Loss, Pipes, Usage};
use super::super::limits::Limits;
use super::super::{Shim, stdin};
use super::{KILL, MARK, OWN, Order, Report, SHIM_NAME, TERMINATE, channel};

/// Starts the shims of one partition.
#[derive(Clone, Debug)]
pub(in super::super) struct ShimStarter {
    file: PathBuf,
    cgroups: Option<Hierarchy>,
}

impl ShimStarter {
    /// The starter that `chosen` asks for; `None`: calls go without a shim.
    ///
    /// # Errors
    ///
    /// There is no such file, as text.
    pub(in super::super) fn find(
        chosen: &Shim,
        cgroup: bool,
    ) -> Result<Option<ShimStarter>, String> {
        let file = match chosen {
            Shim::Own if OWN.load(Ordering::Relaxed) => PathBuf::from("/proc/self/exe"),
            Shim::Own | Shim::Off => return Ok(None),
            Shim::At(file) if file.is_file() => std::path::absolute(file)
                .map_err(|error| format!("shim: `{}`: {error}", file.display()))?,
            Shim::At(file) => {
                return Err(format!(
                    "shim: `{}` is no file; give the path of `{SHIM_NAME}`, or turn the shim off",
                    file.display()
                ));
            }
        };
        Ok(Some(ShimStarter { file, cgroups: if cgroup { Hierarchy::find() } else { None } }))
    }

    /// Its file.
    pub(in super::super) fn file(&self) -> &Path {
        &self.file
    }

    /// Starts a shim that begins `program`, whose directory, variables and arguments are set.
    ///
    /// # Errors
    ///
    /// The shim could not be started. Whether the program could be begun is known at its end.
    pub(in super::super) fn spawn(
        &self,
        program: &Command,
        name: &str,
        limits: &Limits,
        input: Option<&str>,
    ) -> io::Result<(Box<dyn Leash>, Pipes)> {
        let leaf = self.cgroups.as_ref().and_then(|hierarchy| hierarchy.leaf().ok());
        let cgroup = leaf.as_ref().and_then(|leaf| leaf.path().to_str()).map(str::to_owned);
        let order = serde_json::to_vec(&Order { limits: limits.clone(), cgroup })?;
        let given = input.map(stdin::holding).transpose()?;
        let (ours, theirs) = channel::pair()?;
        channel::send(&ours, &order, given.as_ref().map(AsFd::as_fd))?;

        let mut command = Command::new(&self.file);
        command.arg0(SHIM_NAME).arg(MARK).arg(program.get_program()).arg(name);
        command.args(program.get_args()).env_clear();
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(dir) = program.get_current_dir() {
            command.current_dir(dir);
        }
        command.stdin(theirs).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut process = command.spawn()?;
        let pipes = child::take_pipes(&mut process);
        let pid = Pid::from_child(&process);
        let exit_watch = child::exit_watch(pid);
        let shimmed = Shimmed { link: Some(ours), process, pid, exit_watch, reaped: false, leaf };
        Ok((Box::new(shimmed), pipes))
    }
}

/// A program behind its shim.
#[derive(Debug)]
struct Shimmed {
    link: Option<OwnedFd>,
    process: Child,
    pid: Pid,
    exit_watch: Option<OwnedFd>,
    reaped: bool,
    leaf: Option<Leaf>,
}

impl Shimmed {
    fn tell(&self, message: &[u8]) {
        if let Some(link) = &self.link {
            // It fails only if the shim has ended, which is seen elsewhere.
            let _ = channel::send(link, message, None);
        }
    }
}

impl Leash for Shimmed {
    fn exit_watch(&self) -> Option<BorrowedFd<'_>> {
        self.exit_watch.as_ref().map(AsFd::as_fd)
    }

    fn has_ended(&self) -> bool {
        child::has_ended(self.pid)
    }

    fn terminate(&self) {
        self.tell(TERMINATE);
    }

    fn kill(&self) {
        self.tell(KILL);
    }

    fn finish(mut self: Box<Self>) -> Result<Exit, Loss> {
        self.reaped = true;
        let status = self.process.wait().map_err(Loss::Lost)?;
        let message = self.link.as_ref().map(channel::receive).transpose();
        let message = message.ok().flatten().map(|(message, _)| message).unwrap_or_default();
        match serde_json::from_slice(&message) {
            Ok(Report::NotBegun { errno, step }) => {
                Err(Loss::NotBegun { error: io::Error::from_raw_os_error(errno), step })
            }
            Ok(Report::Ended { status, cpu_us, peak_memory_kib, survivors, in_cgroup }) => {
                Ok(Exit {
                    status: status.map(ExitStatus::from_raw),
                    usage: Some(Usage { cpu_us, peak_memory_kib }),
                    held: if in_cgroup { Held::Cgroup } else { Held::Shim },
                    survivors,
                })
            }
            Err(_) => {
                let in_cgroup = self.leaf.as_ref().is_some_and(Leaf::is_populated);
                Err(Loss::Shim { status, in_cgroup })
            }
        }
    }
}

/// Closing the link has the shim end everybody, within its own bound.
impl Drop for Shimmed {
    fn drop(&mut self) {
        self.link = None;
        if !self.reaped {
            let _ = self.process.wait();
        }
    }
}
