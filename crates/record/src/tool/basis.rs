//! Bases: the texts that tool calls are judged by, besides what their session was told. They are contents of the
//! record, so that whoever holds it can trace every call again and ask the policies again.
//!
//! The model reads none of them: they are no part of a context.

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::memory::item::Value;

/// A text that calls are judged by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Basis {
    /// What it is.
    pub of: BasisKind,
    /// The text.
    pub text: Value,
}

/// What a basis is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BasisKind {
    /// What a tool is, by the operator's manifests and by what its server announced; recorded once in a store.
    Tool {
        /// SHA-256 of the text, which calls name as their manifest.
        digest: Digest,
    },
    /// A policy from a file of the operator's, which can only forbid more than the owner's; recorded once in a store.
    LocalPolicy {
        /// SHA-256 of the text, which calls name.
        digest: Digest,
    },
    /// What a call brought back, as a value. Fields that the manifest trusts, and values that are extracted, are found
    /// in it.
    Output {
        /// The entry of the call.
        call: Seq,
        /// The entries that hold the same as text, ascending.
        texts: Vec<Seq>,
    },
}

impl BasisKind {
    /// The digest by which calls name it, if they do.
    pub const fn digest(&self) -> Option<Digest> {
        match self {
            Self::Tool { digest } | Self::LocalPolicy { digest } => Some(*digest),
            Self::Output { .. } => None,
        }
    }
}
