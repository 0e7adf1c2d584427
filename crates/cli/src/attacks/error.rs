//! Why an attack could not be tried. One that succeeds is no error.

use std::path::PathBuf;

use custody_runtime::StoreError;
use custody_verify::VerifyError;

/// An attack that could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// The store failed.
    #[error("the store under test failed")]
    Store(#[from] StoreError),
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
