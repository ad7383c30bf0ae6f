//! A loopback HTTP server that behaves as badly as it is told to.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::behaviour::Behaviour;
use super::request::Seen;
use super::shared::Shared;

/// A real HTTP/1.1 server on 127.0.0.1 whose behaviour is set at run time.
///
/// It counts what reaches it, so that a test can wait for a state instead of sleeping. At most 512
/// connections are served at once, each by a thread; the latest 1,024 requests are kept. Dropping
/// it stops it, see [`Vendor::stop`].
///
/// ```
/// use std::time::Duration;
/// use watertight::testing::{Behaviour, Reply, Vendor};
///
/// let vendor = Vendor::start()?;
/// vendor.set(Behaviour::Hang);
/// vendor.set_path("/health", Behaviour::Answer(Reply::json(r#"{"up": true}"#)));
/// assert!(vendor.url().starts_with("http://127.0.0.1:"));
/// assert!(!vendor.wait_in_flight(1, Duration::from_millis(1)), "nobody has called yet");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Vendor {
    shared: Arc<Shared>,
    addr: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// What a vendor has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Connections open now.
    pub connections: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that the client ended, also while they were idle.
    pub closed_by_client: u64,
    /// Requests read.
    pub requests: u64,
    /// Requests being worked on now: read, not answered to the end, and the client still there.
    pub in_flight: usize,
    /// The most that were worked on at once.
    pub in_flight_max: usize,
    /// Requests answered to the end; counted just before the last bytes are sent.
    pub answered: u64,
}

impl Vendor {
    /// Starts a vendor on a free port; it answers every request with `200`.
    ///
    /// # Errors
    ///
    /// No port or no thread could be had.
    pub fn start() -> io::Result<Vendor> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("vendor".to_owned())
            .spawn(move || served.accept(&listener))?;
        Ok(Vendor { shared, addr, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it does with requests for paths that have no behaviour of their own. Holds from the
    /// next request on, [`Behaviour::NeverRead`] from the next connection on.
    pub fn set(&self, behaviour: Behaviour) {
        self.shared.set(None, behaviour);
    }

    /// What it does with requests for `path`, whatever their query.
    pub fn set_path(&self, path: impl Into<String>, behaviour: Behaviour) {
        self.shared.set(Some(path.into()), behaviour);
    }

    /// Answers the requests that hang now, and finishes the bodies that hang now. Their connections
    /// are closed then, and so are those that are never read.
    pub fn release(&self) {
        self.shared.release();
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The latest requests, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen()
    }

    /// Blocks until its counts are as `wanted` says, at most for `limit`; whether they are.
    pub fn wait(&self, limit: Duration, wanted: impl FnMut(&Counts) -> bool) -> bool {
        self.shared.wait(limit, wanted)
    }

    /// Blocks until exactly `count` requests are in flight, at most for `limit`; whether they are.
    pub fn wait_in_flight(&self, count: usize, limit: Duration) -> bool {
        self.wait(limit, |counts| counts.in_flight == count)
    }

    /// Ends all connections and takes no more. Blocks until its threads have ended, which nothing
    /// delays.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.stop();
        // Wakes the acceptor, which looks at `stopping` first.
        drop(TcpStream::connect(self.addr));
        // Threads of the vendor run no code but its own; should one have panicked, the test that
        // needed it fails by itself.
        let _ = acceptor.join();
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vendor").field("addr", &self.addr).field("counts", &self.counts()).finish()
    }
}
