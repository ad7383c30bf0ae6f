//! A certificate authority and an HTTPS server on loopback.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A certificate authority of its own.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) root_pem: String,
}

/// A certificate and its private key, both PEM.
pub(crate) struct Identity {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), root_pem }
    }

    /// A certificate for `name`.
    pub(crate) fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let chain_pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { chain_pem, key_pem: key.serialize_pem() }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.root_pem.as_bytes()).unwrap()).unwrap();
        roots
    }
}

/// What the server does after each request.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// `200`, `ok`.
    Whole,
    /// Nothing, until the client is gone.
    Hang,
    /// A body that only the end of the connection delimits, and TLS's farewell.
    Farewell,
    /// The same without the farewell.
    Truncated,
}

/// An HTTPS server; ends when dropped.
pub(crate) struct TlsServer {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    answer: Mutex<Answer>,
    stopping: AtomicBool,
    handshakes: Mutex<usize>,
    open: Mutex<Vec<TcpStream>>,
}

impl TlsServer {
    /// A server that is `identity`, and asks for certificates of `clients` if given.
    pub(crate) fn start(identity: &Identity, clients: Option<&Authority>) -> TlsServer {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(authority.roots());
                let provider = Arc::new(ring::default_provider());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(identity.chain_pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answer: Mutex::new(Answer::Whole),
            stopping: AtomicBool::new(false),
            handshakes: Mutex::new(0),
            open: Mutex::new(Vec::new()),
        });
        let served = Arc::clone(&shared);
        let acceptor = thread::spawn(move || served.accept(&listener, &config));
        TlsServer { addr, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn set(&self, answer: Answer) {
        *self.shared.answer.lock() = answer;
    }

    pub(crate) fn handshakes(&self) -> usize {
        *self.shared.handshakes.lock()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().iter() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        drop(TcpStream::connect(self.addr));
        let _ = self.acceptor.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener, config: &Arc<ServerConfig>) {
        let mut threads = Vec::new();
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::SeqCst) {
                break;
            }
            let stream = stream.unwrap();
            self.open.lock().push(stream.try_clone().unwrap());
            let (served, config) = (Arc::clone(self), Arc::clone(config));
            threads.push(thread::spawn(move || drop(served.serve(stream, config))));
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn serve(&self, mut stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
        let mut session = ServerConnection::new(config).unwrap();
        while session.is_handshaking() {
            // A refused client must get the alert, and not lose it to a reset.
            if let Err(error) = session.complete_io(&mut stream) {
                stream.shutdown(std::net::Shutdown::Write)?;
                io::copy(&mut stream, &mut io::sink())?;
                return Err(error);
            }
        }
        *self.handshakes.lock() += 1;
        let mut tls = StreamOwned::new(session, stream);
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                tls.read_exact(&mut byte)?;
                head.push(byte[0]);
            }
            let answer = *self.answer.lock();
            match answer {
                Answer::Whole => {
                    tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
                }
                Answer::Hang => {
                    io::copy(&mut tls, &mut io::sink())?;
                }
                Answer::Farewell | Answer::Truncated => {
                    tls.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")?;
                    if matches!(answer, Answer::Farewell) {
                        tls.conn.send_close_notify();
                    }
                    tls.flush()?;
                    tls.sock.shutdown(std::net::Shutdown::Write)?;
                    io::copy(&mut tls.sock, &mut io::sink())?;
                    return Ok(());
                }
            }
        }
    }
}
