//! The certificate that the service shows to clients of other machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and after it those that lead to its root.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Why a certificate is not used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file does not hold what it should.
    #[error("`{}` is not a PEM file with {what}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// The cause.
        cause: rustls::pki_types::pem::Error,
    },
    /// They do not belong together, or are of a kind that is not known.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

impl TlsFiles {
    /// What greets clients with them.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let Self { certificate, key } = self;
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> =
            chain.map_err(|cause| unreadable(certificate, "certificates", cause))?;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|cause| unreadable(key, "a private key", cause))?;
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn unreadable(path: &Path, what: &'static str, cause: rustls::pki_types::pem::Error) -> TlsError {
    TlsError::File { path: path.to_owned(), what, cause }
}
