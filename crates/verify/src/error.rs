//! Why a store could not be verified. That something does not hold is an answer where it can be one.

use custody_planner::GraphError;
use custody_runtime::store::{StoreError, Tampering};

/// A failure of verification. A ledger that does not verify is [`StoreError::Tampered`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The store cannot be read, or does not verify.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The records cannot be held as a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl From<Tampering> for VerifyError {
    fn from(tampering: Tampering) -> Self {
        Self::Store(tampering.into())
    }
}
