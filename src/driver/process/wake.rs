//! A cancel that comes while the calling thread waits in `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bell::Bell;

use crate::call::{CancelToken, HookGuard};

/// A descriptor that becomes readable when the call is called off.
pub(super) struct Wake {
    bell: Arc<Bell>,
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
        let bell = Arc::new(Bell::new()?);
        // Each hook holds it, so that a late one never writes to somebody else's descriptor.
        let hook = |urgency| {
            let bell = Arc::clone(&bell);
            move || bell.ring(urgency)
        };
        let armed = [token.on_cancel(hook(Urgency::Cancel)), token.on_abort(hook(Urgency::Abort))];
        Ok(Wake { bell, _armed: armed })
    }

    /// Takes the next call-off; an abort may hide the cancel before it. Blocks unless the
    /// descriptor is readable.
    pub(super) fn take(&self) -> io::Result<Urgency> {
        self.bell.take()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// A counter: one descriptor, and cheaper to make than a pipe.
#[cfg(target_os = "linux")]
mod bell {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};

    use rustix::event::{EventfdFlags, eventfd};

    use super::Urgency;

    const CANCEL: u64 = 1;
    const ABORT: u64 = 1 << 32;

    pub(super) struct Bell(File);

    impl Bell {
        pub(super) fn new() -> io::Result<Bell> {
            Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC)?.into()))
        }

        pub(super) fn ring(&self, urgency: Urgency) {
            let count = if urgency == Urgency::Abort { ABORT } else { CANCEL };
            // Each is added once, so it never blocks.
            let _ = (&self.0).write_all(&count.to_ne_bytes());
        }

        pub(super) fn take(&self) -> io::Result<Urgency> {
            let mut count = [0; 8];
            (&self.0).read_exact(&mut count)?;
            let aborted = u64::from_ne_bytes(count) >= ABORT;
            Ok(if aborted { Urgency::Abort } else { Urgency::Cancel })
        }
    }

    impl AsFd for Bell {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod bell {
    use std::io::{self, PipeReader, PipeWriter, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};

    use super::Urgency;

    const ABORT: u8 = b'a';

    pub(super) struct Bell(PipeReader, PipeWriter);

    impl Bell {
        pub(super) fn new() -> io::Result<Bell> {
            let (reader, writer) = io::pipe()?;
            Ok(Bell(reader, writer))
        }

        pub(super) fn ring(&self, urgency: Urgency) {
            let byte = if urgency == Urgency::Abort { ABORT } else { b'c' };
            // Two bytes never fill a pipe.
            let _ = (&self.1).write_all(&[byte]);
        }

        pub(super) fn take(&self) -> io::Result<Urgency> {
            let mut byte = [0];
            (&self.0).read_exact(&mut byte)?;
            Ok(if byte == [ABORT] { Urgency::Abort } else { Urgency::Cancel })
        }
    }

    impl AsFd for Bell {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
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
        assert_eq!(wake.take().unwrap(), Urgency::Cancel);
        token.abort();
        assert_eq!(wake.take().unwrap(), Urgency::Abort);
    }

    #[test]
    fn an_abort_need_not_wait_for_its_cancel_to_be_taken() {
        let token = CancelToken::new();
        let wake = Wake::arm(&token).unwrap();
        token.cancel();
        token.abort();
        while wake.take().unwrap() != Urgency::Abort {}
    }

    #[test]
    fn a_cancel_from_before_is_not_missed() {
        let token = CancelToken::new();
        token.cancel();
        assert_eq!(Wake::arm(&token).unwrap().take().unwrap(), Urgency::Cancel);
    }
}
