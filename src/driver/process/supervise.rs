//! The wait for one child: drains its pipes and ends it in time, all on the calling thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::capture::Capture;
use super::child::{Exit, Leash, Loss, Pipes};
use super::wake::{Urgency, Wake};
use crate::call::Run;
use crate::time::{Clock, Time};

/// How often a child is asked whether it has ended, where no descriptor says so.
const TICK: Duration = Duration::from_millis(10);
/// The longest single wait; the limit is read again after it.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// What one read takes: as much as a pipe holds.
const READ_MAX: usize = 64 * 1024;

/// From the child's end until its pipes are given up, if somebody who got away holds them open.
const PIPE_GRACE: Duration = Duration::from_millis(100);

/// Bounds of one call.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// Bytes kept of each pipe.
    pub(super) output_kept: usize,
    /// Bytes of both pipes after which the child is killed.
    pub(super) output_max: u64,
    /// From SIGTERM to SIGKILL after a cancel.
    pub(super) term_grace: Duration,
}

impl Bounds {
    pub(super) const OUTPUT_KEPT: usize = 64 * 1024;
    pub(super) const OUTPUT_MAX: u64 = 256 * 1024 * 1024;
}

/// Who ended the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedBy {
    Itself,
    Limit,
    Cancel,
    OutputMax,
}

/// What is known of a child that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) by: EndedBy,
    pub(super) exit: Exit,
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
    /// Somebody who got away still held a pipe open when it was given up.
    pub(super) pipe_held_open: bool,
}

/// One of the child's pipes and what came out of it.
struct Stream {
    pipe: Option<File>,
    capture: Capture,
}

/// The supervision of one child.
pub(super) struct Supervision<'a> {
    run: &'a Run,
    bounds: &'a Bounds,
    clock: Clock,
    child: Box<dyn Leash>,
    streams: [Stream; 2],
    by: EndedBy,
    kill_at: Option<Time>,
    killed: bool,
    /// Never filled with zeros: most children write little.
    buffer: Vec<u8>,
}

impl<'a> Supervision<'a> {
    /// Takes charge of `child` and its pipes.
    pub(super) fn new(
        run: &'a Run,
        bounds: &'a Bounds,
        child: Box<dyn Leash>,
        pipes: Pipes,
    ) -> Supervision<'a> {
        let streams = pipes.map(|pipe| Stream {
            pipe: pipe.map(File::from),
            capture: Capture::new(bounds.output_kept),
        });
        Supervision {
            run,
            bounds,
            clock: Clock::system(),
            child,
            streams,
            by: EndedBy::Itself,
            kill_at: None,
            killed: false,
            buffer: Vec::with_capacity(READ_MAX),
        }
    }

    /// Blocks until the child has ended: by itself, or killed at the run limit, a grace after
    /// `wake`, or when it has written too much. Whatever happens, nobody within reach is left.
    ///
    /// # Errors
    ///
    /// There was no child after all, or it is not known what became of it.
    pub(super) fn wait(mut self, wake: &Wake) -> Result<Ended, Loss> {
        self.until_ended(wake).map_err(Loss::Lost)?;
        self.child.kill();
        let pipe_held_open = self.drain().map_err(Loss::Lost)?;
        let exit = self.child.finish()?;
        let [stdout, stderr] = self.streams.map(|stream| stream.capture);
        Ok(Ended { by: self.by, exit, stdout, stderr, pipe_held_open })
    }

    fn until_ended(&mut self, wake: &Wake) -> io::Result<()> {
        loop {
            let [stdout, stderr] = self.pipes();
            let exit = self.child.exit_watch();
            let unwatched = exit.is_none();
            let ready = readable([stdout, stderr, exit, Some(wake.as_fd())], self.patience())?;
            self.read(0, ready[0])?;
            self.read(1, ready[1])?;
            if (ready[2] || unwatched) && self.child.has_ended() {
                return Ok(());
            }
            if ready[3] {
                self.call_off(wake.take()?);
            }
            self.enforce();
        }
    }

    fn pipes(&self) -> [Option<BorrowedFd<'_>>; 2] {
        self.streams.each_ref().map(|stream| stream.pipe.as_ref().map(AsFd::as_fd))
    }

    /// How long nothing but a descriptor can bring news.
    fn patience(&self) -> Duration {
        let mut patience = match self.child.exit_watch() {
            Some(_) => WAIT_MAX,
            None => TICK,
        };
        if !self.killed {
            patience = patience.min(self.run.remaining());
            if let Some(at) = self.kill_at {
                patience = patience.min(at - self.clock.now());
            }
        }
        patience
    }

    /// Reads once from a pipe that is ready; at its end, lets it go.
    fn read(&mut self, stream: usize, ready: bool) -> io::Result<()> {
        let Stream { pipe, capture } = &mut self.streams[stream];
        let Some(file) = pipe.as_mut().filter(|_| ready) else {
            return Ok(());
        };
        self.buffer.clear();
        match rustix::io::read(file, spare_capacity(&mut self.buffer)) {
            Ok(0) => *pipe = None,
            Ok(_) => capture.push(&self.buffer),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn call_off(&mut self, urgency: Urgency) {
        match urgency {
            Urgency::Cancel if self.by == EndedBy::Itself => {
                self.by = EndedBy::Cancel;
                self.kill_at = Some(self.clock.now() + self.bounds.term_grace);
                self.child.terminate();
            }
            Urgency::Cancel => {}
            Urgency::Abort => self.kill(EndedBy::Cancel),
        }
    }

    /// Kills the child for whatever is due now.
    fn enforce(&mut self) {
        let written: u64 = self.streams.iter().map(|stream| stream.capture.total()).sum();
        if written > self.bounds.output_max {
            self.kill(EndedBy::OutputMax);
        }
        if self.run.remaining().is_zero() {
            self.kill(EndedBy::Limit);
        }
        if self.kill_at.is_some_and(|at| at <= self.clock.now()) {
            self.kill(EndedBy::Cancel);
        }
    }

    fn kill(&mut self, by: EndedBy) {
        if self.by == EndedBy::Itself {
            self.by = by;
        }
        if !self.killed {
            self.killed = true;
            self.child.kill();
        }
    }

    /// Reads what is left in the pipes. Blocks for the pipe grace if somebody holds one open, and
    /// tells whether somebody does.
    fn drain(&mut self) -> io::Result<bool> {
        let until = self.clock.now() + PIPE_GRACE;
        while self.streams.iter().any(|stream| stream.pipe.is_some()) {
            let left = until - self.clock.now();
            if left.is_zero() {
                return Ok(true);
            }
            let ready = readable(self.pipes(), left)?;
            self.read(0, ready[0])?;
            self.read(1, ready[1])?;
        }
        Ok(false)
    }
}

/// Blocks until one of `sources` has something to say, at most for `patience`; which of them have.
pub(super) fn readable<const N: usize>(
    sources: [Option<BorrowedFd<'_>>; N],
    patience: Duration,
) -> io::Result<[bool; N]> {
    let watched = sources.iter().flatten();
    let mut fds: Vec<_> = watched.map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: patience.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok([false; N]),
        Err(error) => return Err(error.into()),
    }
    let mut heard = fds.iter().map(|fd| !fd.revents().is_empty());
    Ok(sources.map(|source| source.is_some() && heard.next() == Some(true)))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::call::CancelToken;
    use crate::driver::process::child::Grouped;

    #[test]
    fn an_abort_does_not_wait_for_the_grace() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; touch ready; exec sleep 600"]).current_dir(&folder);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, pipes) = Grouped::spawn(command).unwrap();
        while !ready.exists() {
            std::thread::park_timeout(Duration::from_millis(1));
        }

        let token = CancelToken::new();
        token.cancel();
        let wake = Wake::arm(&token).unwrap();
        token.abort();
        let grace = Duration::from_secs(3600);
        let bounds = Bounds { output_kept: 0, output_max: 0, term_grace: grace };
        let run = Run::detached(grace, token);
        let ended = Supervision::new(&run, &bounds, child, pipes).wait(&wake).unwrap();
        assert_eq!(ended.by, EndedBy::Cancel);
        assert!(run.remaining() > grace / 2, "long before any limit");
    }
}
