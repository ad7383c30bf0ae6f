//! The outcomes, a line each, written by a thread of their own: a reader that is slow holds up the
//! feeding, and nothing else.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};

/// Lines that are not written yet.
const BEHIND: usize = 16;
/// How often a full line of lines is asked whether it goes on.
const STEP: Duration = Duration::from_millis(20);

/// The way to standard output.
pub(super) struct Output {
    lines: Sender<Vec<u8>>,
    ended: Receiver<io::Result<()>>,
}

/// Why a line was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// Nobody reads any more, or writing failed.
    Closed,
    /// The reader did not keep up, and waiting for it was given up.
    GivenUp,
}

impl Output {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Output> {
        let (lines, written) = bounded::<Vec<u8>>(BEHIND);
        let (told, ended) = bounded(1);
        let write = move || {
            let _ = told.send(write_all(&written));
        };
        thread::Builder::new().name("output".to_owned()).spawn(write)?;
        Ok(Output { lines, ended })
    }

    /// Writes `line`. Blocks while the reader is behind and `goes_on` says so.
    pub(super) fn write(
        &self,
        mut line: Vec<u8>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), Unwritten> {
        loop {
            match self.lines.send_timeout(line, STEP) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Disconnected(_)) => return Err(Unwritten::Closed),
                Err(SendTimeoutError::Timeout(_)) if !goes_on() => return Err(Unwritten::GivenUp),
                Err(SendTimeoutError::Timeout(unsent)) => line = unsent,
            }
        }
    }

    /// Waits until all is written, at most for `limit`. A reader that has gone is no error.
    pub(super) fn finish(self, limit: Duration) -> io::Result<()> {
        drop(self.lines);
        match self.ended.recv_timeout(limit) {
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

fn write_all(lines: &Receiver<Vec<u8>>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        out.write_all(&line)?;
        out.flush()?;
    }
    Ok(())
}
