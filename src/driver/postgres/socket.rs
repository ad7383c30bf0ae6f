//! A way to the socket below a connection, which the client library keeps to itself.
//!
//! A query on a stopped server ends by nothing but a shutdown of its socket, so a second descriptor
//! of it is needed. Each connect sets a mark on its socket, a TCP user timeout that no other socket
//! of this process has; when the library makes its TLS connector, the TCP connection stands and
//! nothing has been sent, and the socket with the mark is found among the open descriptors. This
//! works on Linux and over TCP. Elsewhere there is no second descriptor: a query that the server
//! does not end on request holds its slot until the server goes away.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use postgres::Socket;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Called with the socket as soon as it is known; `false`: the call is over, do not go on.
type Caught = dyn Fn(&Arc<TcpStream>) -> bool + Send + Sync;

type Tls = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Makes TLS connectors, and takes hold of the socket on the way.
#[derive(Clone)]
pub(super) struct Capture {
    tls: MakeRustlsConnect,
    mark: u32,
    /// What the user timeout is meant to be, in milliseconds.
    user_timeout: u32,
    caught: Arc<Caught>,
    found: Arc<Found>,
}

/// What a connect has found out.
#[derive(Default)]
pub(super) struct Found {
    socket: Mutex<Option<Arc<TcpStream>>>,
    encrypted: AtomicBool,
}

impl Found {
    /// The connection's socket, if it could be found.
    pub(super) fn socket(&self) -> Option<Arc<TcpStream>> {
        self.socket.lock().clone()
    }

    /// Whether the server agreed to TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted.load(Ordering::SeqCst)
    }
}

impl Capture {
    /// A capture for one connect, whose configuration must have [`Capture::mark`] as its user
    /// timeout.
    pub(super) fn new(
        tls: MakeRustlsConnect,
        user_timeout: Option<Duration>,
        caught: impl Fn(&Arc<TcpStream>) -> bool + Send + Sync + 'static,
    ) -> Capture {
        // Odd, as nobody sets one by hand, and unique for a million connects: the socket has it only
        // until it is found. A cancel request keeps it, and so gives up on a dead network.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = 20_001 + 2 * (NEXT.fetch_add(1, Ordering::Relaxed) % 1_000_000);
        let user_timeout = user_timeout.unwrap_or_default().as_millis();
        Capture {
            tls,
            mark,
            user_timeout: u32::try_from(user_timeout).unwrap_or(u32::MAX),
            caught: Arc::new(caught),
            found: Arc::default(),
        }
    }

    pub(super) fn mark(&self) -> Duration {
        Duration::from_millis(self.mark.into())
    }

    pub(super) fn found(&self) -> &Arc<Found> {
        &self.found
    }
}

impl MakeTlsConnect<Socket> for Capture {
    type Stream = Stream;
    type TlsConnect = Noted;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Noted> {
        if let Some(socket) = find::marked(self.mark) {
            find::set_user_timeout(&socket, self.user_timeout)?;
            let socket = Arc::new(socket);
            *self.found.socket.lock() = Some(Arc::clone(&socket));
            if !(self.caught)(&socket) {
                return Err(io::Error::other("the call is over"));
            }
        }
        let connector = MakeTlsConnect::<Socket>::make_tls_connect(&mut self.tls, domain);
        let connector = connector.map_err(io::Error::other)?;
        Ok(Noted { connector, found: Arc::clone(&self.found) })
    }
}

/// A TLS connector that notes that it was used.
pub(super) struct Noted {
    connector: Tls,
    found: Arc<Found>,
}

impl TlsConnect<Socket> for Noted {
    type Stream = Stream;
    type Error = <Tls as TlsConnect<Socket>>::Error;
    type Future = <Tls as TlsConnect<Socket>>::Future;

    fn connect(self, socket: Socket) -> Self::Future {
        self.found.encrypted.store(true, Ordering::SeqCst);
        self.connector.connect(socket)
    }
}

#[cfg(target_os = "linux")]
mod find {
    use std::fs;
    use std::io;
    use std::net::TcpStream;
    use std::os::fd::BorrowedFd;

    use rustix::net::sockopt;

    /// A second descriptor of the socket with this mark.
    #[expect(unsafe_code, reason = "descriptors that were listed by number are looked at")]
    pub(super) fn marked(mark: u32) -> Option<TcpStream> {
        let numbers = fs::read_dir("/proc/self/fd").ok()?.flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for number in numbers.filter(|number| *number >= 0) {
            // SAFETY: the number is used for one `getsockopt`, which reads one option and changes
            // nothing; if another thread has closed it meanwhile, or put another file in its place,
            // that fails or reads that file's option. Only a socket with our mark is used further,
            // and that one stays open: the thread that is connecting it is waiting for this
            // function to return.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            if sockopt::tcp_user_timeout(descriptor) == Ok(mark) {
                return Some(TcpStream::from(descriptor.try_clone_to_owned().ok()?));
            }
        }
        None
    }

    pub(super) fn set_user_timeout(socket: &TcpStream, millis: u32) -> io::Result<()> {
        Ok(sockopt::set_tcp_user_timeout(socket, millis)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod find {
    use std::io;
    use std::net::TcpStream;

    pub(super) fn marked(_: u32) -> Option<TcpStream> {
        None
    }

    pub(super) fn set_user_timeout(_: &TcpStream, _: u32) -> io::Result<()> {
        Ok(())
    }
}
