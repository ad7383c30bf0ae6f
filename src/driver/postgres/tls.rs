//! What of the server's certificate is checked.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::driver::sql::BuildError;

/// How much of the server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Nothing: the connection is encrypted, whoever is at its other end.
    Nothing,
    /// That it was issued under the roots.
    Issuer,
    /// That it was issued under the roots, to this host.
    Full,
}

/// The files that a URL names.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) root: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// A connector that checks so much.
pub(super) fn connector(check: Check, files: &Files) -> Result<MakeRustlsConnect, BuildError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match check {
        Check::Nothing => Arc::new(Lenient { issuer: None, provider: Arc::clone(&provider) }),
        Check::Issuer => {
            let issuer = Some(issued_under(roots(files)?, &provider)?);
            Arc::new(Lenient { issuer, provider: Arc::clone(&provider) })
        }
        Check::Full => issued_under(roots(files)?, &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| BuildError::new("sslmode", error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&files.certificate, &files.key) {
        (None, None) => config.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let chain = certificates("sslcert", certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable("sslkey", key, &error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| BuildError::new("sslkey", error.to_string()))?
        }
        _ => {
            return Err(BuildError::new(
                "sslcert",
                "needs `sslkey` beside it, and `sslkey` needs it",
            ));
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The roots in `sslrootcert`, or those that browsers trust.
fn roots(files: &Files) -> Result<RootCertStore, BuildError> {
    let Some(path) = &files.root else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", path)? {
        roots.add(certificate).map_err(|error| unreadable("sslrootcert", path, &error))?;
    }
    Ok(roots)
}

fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(key, path, &error))?;
    if found.is_empty() {
        return Err(unreadable(key, path, &"there is no certificate in it"));
    }
    Ok(found)
}

fn unreadable(key: &'static str, path: &Path, error: &dyn fmt::Display) -> BuildError {
    BuildError::new(key, format!("`{}` cannot be used: {error}", path.display()))
}

fn issued_under(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, BuildError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| BuildError::new("sslrootcert", error.to_string()))
}

/// Checks the issuer at most, as `sslmode` below `verify-full` says.
#[derive(Debug)]
struct Lenient {
    issuer: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(issuer) = &self.issuer else {
            return Ok(ServerCertVerified::assertion());
        };
        match issuer.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is what is checked last.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
