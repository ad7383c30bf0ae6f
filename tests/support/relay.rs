//! A TCP relay on loopback that can go dead: connections stay open and nothing passes any more.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, spawn};

/// Relays to one server until it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    dead: bool,
    closed: bool,
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// A relay to `port` on loopback.
    pub(crate) fn to(port: u16) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let relay = Arc::clone(&shared);
        let accepting = spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if relay.state.lock().unwrap().closed {
                    return;
                }
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    relay.join(client, server);
                }
            }
        });
        Relay { address, shared, accepting: Some(accepting) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on nothing passes, in old connections and in new ones.
    pub(crate) fn die(&self) {
        self.shared.state.lock().unwrap().dead = true;
    }

    /// Everything passes again, what was held back included.
    pub(crate) fn revive(&self) {
        self.shared.state.lock().unwrap().dead = false;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let (from_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let mut state = self.state.lock().unwrap();
        state.sockets.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
        let (up, down) = (Arc::clone(self), Arc::clone(self));
        state.threads.push(spawn(move || up.copy(from_client, server)));
        state.threads.push(spawn(move || down.copy(from_server, client)));
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let state = self.state.lock().unwrap();
            let state =
                self.changed.wait_while(state, |state| state.dead && !state.closed).unwrap();
            let closed = state.closed;
            drop(state);
            if count == 0 || closed || to.write_all(&buffer[..count]).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap();
        state.closed = true;
        self.shared.changed.notify_all();
        for socket in &state.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        let _ = TcpStream::connect(self.address);
        for thread in threads.into_iter().chain(self.accepting.take()) {
            thread.join().unwrap();
        }
    }
}
