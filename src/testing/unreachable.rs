//! Addresses that no connection comes of.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

/// A loopback address that refuses connections.
///
/// # Errors
///
/// No port could be had.
pub fn refused_addr() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A loopback address that never answers an attempt to connect, while this value lives: its queue
/// of pending connections is full. Linux drops further attempts silently; elsewhere they may be
/// refused.
#[derive(Debug)]
pub struct Unanswered {
    addr: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Unanswered {
    /// Opens the address and fills its queue. Blocks for about 50 ms.
    ///
    /// # Errors
    ///
    /// No socket could be had, or the queue never fills.
    pub fn open() -> io::Result<Unanswered> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        listen(&socket, 0)?;
        let listener = TcpListener::from(socket);
        let addr = listener.local_addr()?;
        let mut queued = Vec::new();
        for _ in 0..64 {
            match TcpStream::connect_timeout(&addr, Duration::from_millis(50)) {
                Ok(stream) => queued.push(stream),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Unanswered { addr, _listener: listener, _queued: queued });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the queue of pending connections never fills"))
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}
