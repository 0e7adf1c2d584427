//! Why an attack could not be tried. One that succeeds is no error.

use std::path::PathBuf;

use custody_runtime::store::WatchError;
use custody_runtime::tools::GateError;
use custody_runtime::{OpenError, PrincipalError, StoreError};
use custody_verify::VerifyError;

/// An attack that could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// The store failed.
    #[error("the store under test failed")]
    Store(#[from] StoreError),
    /// The store could not be created or opened.
    #[error("the store under test failed")]
    Open(#[from] OpenError),
    /// A principal could not be registered or proven.
    #[error("the store under test failed")]
    Principal(#[from] PrincipalError),
    /// A watched file could not be adopted.
    #[error("the store under test failed")]
    Watch(#[from] WatchError),
    /// A tool call could not be decided.
    #[error("the store under test failed")]
    Gate(#[from] GateError),
    /// The store does not verify.
    #[error("the store under test could not be verified")]
    Verify(#[from] VerifyError),
    /// A file could not be used.
    #[error("could not use `{path}`")]
    File {
        /// Its path.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        cause: std::io::Error,
    },
    /// A step that only prepares the attack was not allowed.
    #[error("could not set up the measurement: {0}")]
    Setup(String),
}

impl AttackError {
    /// For `map_err` on something done with `path`.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::File { path: path.into(), cause }
    }
}
