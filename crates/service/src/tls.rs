//! The certificate that the service shows to clients of other machines, read again when its files change.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::log;

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
    fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
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

/// A certificate that is in use, until its files hold another one that can be used.
pub(crate) struct CertificateInUse {
    files: TlsFiles,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    /// The files when they were looked at last, whether or not they could be used.
    seen: [Option<FileVersion>; 2],
    acceptor: TlsAcceptor,
}

/// What changes whenever a file is written or another one takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    bytes: u64,
    written_ns: i128,
    changed_ns: i128,
}

impl FileVersion {
    fn of(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        let [written_ns, changed_ns] =
            [(data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec())]
                .map(|(seconds, ns)| i128::from(seconds) * 1_000_000_000 + i128::from(ns));
        Some(Self { inode: data.ino(), bytes: data.len(), written_ns, changed_ns })
    }
}

impl CertificateInUse {
    /// Reads the files for the first time.
    pub(crate) fn new(files: TlsFiles) -> Result<Self, TlsError> {
        // Looked at first: what changes while they are read is noticed at the next connection.
        let seen = files.versions();
        let acceptor = files.acceptor()?;
        Ok(Self { files, loaded: Mutex::new(Loaded { seen, acceptor }) })
    }

    /// What greets the next client. Looks at the files, and reads them if they changed; what cannot be used, such as a
    /// certificate whose key is not there yet, leaves the one before in use.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.files.versions();
        if seen != loaded.seen {
            loaded.seen = seen;
            match self.files.acceptor() {
                Ok(acceptor) => {
                    loaded.acceptor = acceptor;
                    log::note("a new certificate is in use");
                }
                Err(error) => log::note(&format!("{error}; the certificate before stays in use")),
            }
        }
        loaded.acceptor.clone()
    }
}

impl TlsFiles {
    fn versions(&self) -> [Option<FileVersion>; 2] {
        [&self.certificate, &self.key].map(|path| FileVersion::of(path))
    }
}

fn unreadable(path: &Path, what: &'static str, cause: rustls::pki_types::pem::Error) -> TlsError {
    TlsError::File { path: path.to_owned(), what, cause }
}
