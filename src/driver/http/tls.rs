//! TLS with the roots and the certificate of one partition.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

use super::wire::{Broken, Wire, left};

/// Whom a partition trusts, and who it says it is.
///
/// Defaults to Mozilla's roots, compiled in, and no certificate of its own. TLS 1.2 and 1.3.
///
/// ```no_run
/// use watertight::driver::http::{Http, Tls};
///
/// let tls = Tls::new()
///     .roots_pem(std::fs::read("ca.pem")?)
///     .client_pem(std::fs::read("client.pem")?, std::fs::read("client.key")?);
/// let http = Http::new("https://internal.example").tls(tls);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    roots: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Mozilla's roots, no certificate.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts the certificates in `pem`, and no others.
    #[must_use]
    pub fn roots_pem(mut self, pem: impl Into<Vec<u8>>) -> Tls {
        self.roots = Some(pem.into());
        self
    }

    /// Shows the certificates in `chain`, its own first, to a backend that asks, and proves them by
    /// the private `key`; both PEM.
    #[must_use]
    pub fn client_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Tls {
        self.client = Some((chain.into(), key.into()));
        self
    }

    pub(super) fn connector(&self) -> Result<TlsConnector, String> {
        let roots = match &self.roots {
            None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for root in certificates("tls.roots", pem)? {
                    roots.add(root).map_err(|error| format!("`tls.roots`: {error}"))?;
                }
                roots
            }
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("`tls`: {error}"))?
            .with_root_certificates(roots);
        let config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates("tls.client_cert", chain)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| "`tls.client_key`: holds no private key in PEM".to_owned())?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("`tls.client_key`: {error}"))?
            }
        };
        Ok(TlsConnector { config: Arc::new(config) })
    }
}

fn certificates(key: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|_| format!("`{key}`: is no PEM"))?;
    if found.is_empty() {
        return Err(format!("`{key}`: holds no certificate in PEM"));
    }
    Ok(found)
}

/// Shows no key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("own_roots", &self.roots.is_some())
            .field("client_cert", &self.client.is_some())
            .finish()
    }
}

/// Puts TLS over a connection if the URL asks for it.
pub(super) struct TlsConnector {
    config: Arc<ClientConfig>,
}

impl Connector<Wire> for TlsConnector {
    type Out = Either<Wire, TlsWire>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        wire: Option<Wire>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(wire) = wire else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(wire)));
        }
        let host = details.uri.host().unwrap_or_default();
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| Error::Tls("the host is no name that a certificate can have"))?;
        let mut session =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        let mut wire = TransportAdapter::new(wire, Arc::clone(&details.current_time));
        wire.set_timeout(left(details)?);
        session.complete_io(&mut wire)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsWire { stream: StreamOwned::new(session, wire), buffers })))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").finish_non_exhaustive()
    }
}

/// A connection with TLS.
pub(super) struct TlsWire {
    stream: StreamOwned<ClientConnection, TransportAdapter<Wire>>,
    buffers: LazyBuffers,
}

impl Transport for TlsWire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        match self.stream.read(self.buffers.input_append_buf()) {
            Ok(count) => {
                self.buffers.input_appended(count);
                Ok(count > 0)
            }
            // An end without TLS's own farewell may be anybody's doing.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(Broken("the connection ended without a TLS close").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsWire").finish_non_exhaustive()
    }
}
