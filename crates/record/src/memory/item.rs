//! Items of agent memory: a key in a namespace, with versions and a mode (MON §3.2).

use std::fmt;

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::label::{Taint, Trust};

/// How an item may change. Set by an owner only (closes M10).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A write that passes the rules is stored.
    #[default]
    Open,
    /// A write that passes the rules waits for a reviewer.
    Reviewed,
    /// ι = 1: no write passes (rule 3).
    Immutable,
}

impl Mode {
    /// The name used in records and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Reviewed => "reviewed",
            Self::Immutable => "immutable",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value by commitment: where its bytes arrived, and `SHA-256(salt ‖ bytes)`.
///
/// Everything that refers to one arrival shares one stored row, so destroying the row destroys
/// the text for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentRef {
    /// The entry with which the bytes arrived.
    pub arrival: Seq,
    /// `SHA-256(salt ‖ bytes)`.
    pub commitment: Digest,
}

/// A value that somebody wants stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Bytes that arrive with this very request: `SHA-256(salt ‖ bytes)`.
    New(Digest),
    /// The content of an earlier entry, which then shares its stored row.
    Of(ContentRef),
}

impl Value {
    /// The content, when the request is recorded at `entry`.
    pub const fn content(self, entry: Seq) -> ContentRef {
        match self {
            Self::New(commitment) => ContentRef { arrival: entry, commitment },
            Self::Of(content) => content,
        }
    }
}

/// One version of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The entry that wrote it.
    pub entry: Seq,
    /// Its value.
    pub content: ContentRef,
    /// π: the trust of whoever the writing session ran for, or of the approving reviewer.
    pub provenance: Trust,
    /// τ. A version that a reviewer declassified is clean although its entry is not.
    pub taint: Taint,
}

/// One change of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionChange {
    /// The entry that made it.
    pub entry: Seq,
    /// What it put there; `None` if it was a delete.
    pub version: Option<Version>,
}

/// What a namespace holds under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// How it may change.
    pub mode: Mode,
    /// The present value; `None` before the first write and after a delete. Versions that recovery took out are
    /// passed over.
    pub current: Option<Version>,
    /// Every change, the oldest first.
    pub changes: Vec<VersionChange>,
    /// The entry of the last change, deletes included. Each change names the one before it, so the
    /// history of an item is a chain that nobody can shorten.
    pub last_change: Option<Seq>,
}

impl Item {
    /// The entry that wrote the present value.
    pub fn entry(&self) -> Option<Seq> {
        self.current.as_ref().map(|version| version.entry)
    }
}
