//! A cancel that comes while the calling thread waits in `poll`.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::call::{CancelToken, HookGuard};

const CANCEL: u8 = b'c';
const ABORT: u8 = b'a';

/// A pipe that becomes readable when the call is called off.
pub(super) struct Wake {
    pipe: Arc<(PipeReader, PipeWriter)>,
    _armed: [HookGuard; 2],
}

/// How urgently the call is called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Nobody waits for it any more.
    Cancel,
    /// It has had its grace.
    Abort,
}

impl Wake {
    /// # Errors
    ///
    /// No descriptors left.
    pub(super) fn arm(token: &CancelToken) -> io::Result<Wake> {
        let pipe = Arc::new(io::pipe()?);
        // Each hook holds both ends, so that a late one never writes into a closed pipe; two bytes
        // never fill one.
        let hook = |byte: u8| {
            let pipe = Arc::clone(&pipe);
            move || {
                let _ = (&pipe.1).write_all(&[byte]);
            }
        };
        let armed = [token.on_cancel(hook(CANCEL)), token.on_abort(hook(ABORT))];
        Ok(Wake { pipe, _armed: armed })
    }

    /// Takes the next call-off. Blocks unless the pipe is readable.
    pub(super) fn take(&self) -> io::Result<Urgency> {
        let mut byte = [0];
        (&self.pipe.0).read_exact(&mut byte)?;
        Ok(if byte == [ABORT] { Urgency::Abort } else { Urgency::Cancel })
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancel_and_abort_arrive_in_order() {
        let token = CancelToken::new();
        let wake = Wake::arm(&token).unwrap();
        token.cancel();
        token.abort();
        assert_eq!(wake.take().unwrap(), Urgency::Cancel);
        assert_eq!(wake.take().unwrap(), Urgency::Abort);
    }

    #[test]
    fn a_cancel_from_before_is_not_missed() {
        let token = CancelToken::new();
        token.cancel();
        assert_eq!(Wake::arm(&token).unwrap().take().unwrap(), Urgency::Cancel);
    }
}
