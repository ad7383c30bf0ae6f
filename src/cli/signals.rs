//! Ctrl-C: the first one asks for an end, the second one is the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::INTERRUPTED;

/// Whether an end has been asked for. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether one has.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// From now on SIGINT and SIGTERM ask for an end, and `wake` is called then. The second of them
    /// ends this process on the spot.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub(super) fn on_signals(&self, wake: impl Fn() + Send + 'static) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let asked = Arc::clone(&self.0);
        let listen = move || {
            for _ in signals.forever() {
                if asked.swap(true, Ordering::SeqCst) {
                    signal_hook::low_level::exit(INTERRUPTED.into());
                }
                wake();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
        Ok(())
    }
}
