//! Why a certificate is refused.

use std::fmt;

use custody_log::{CheckpointError, Digest, IncidentId, LogName, ProofError, Seq, StoreId};

use crate::agree::Disagreement;
use crate::format::{MAX_BYTES, PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE};

/// A layer of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLayer {
    /// The DSSE envelope.
    Envelope,
    /// The in-toto Statement in it.
    Statement,
}

/// One of the two checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointPosition {
    /// The one before the recovery.
    Before,
    /// The one after.
    After,
}

/// What is wrong with a line of a file of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFault {
    /// It is longer than a leaf may be.
    TooLong,
    /// It has no newline at its end.
    Unterminated,
    /// It is no leaf in canonical form.
    NotCanonical,
    /// Its entry does not come after that of the line before.
    Order,
    /// The certificate has fewer leaves.
    Surplus,
}

impl LineFault {
    const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "is longer than a leaf may be",
            Self::Unterminated => "does not end with a newline",
            Self::NotCanonical => "is no leaf in canonical form",
            Self::Order => "does not come after the one before",
            Self::Surplus => "is one more than the certificate has",
        }
    }
}

/// Why a certificate is refused: the first thing that does not hold.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Over [`MAX_BYTES`].
    #[error("the certificate has `{bytes}` bytes, over `{MAX_BYTES}`; it is none that we sign")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The file ends before its envelope does.
    #[error("the file ends too early; fetch it again")]
    Truncated,
    /// Not the JSON that this layer has: a field is missing, unknown, there twice, or of another type.
    #[error("the {part} is not one; fetch the file again")]
    Malformed {
        /// Which layer.
        part: FileLayer,
        /// What the parser met.
        #[source]
        cause: serde_json::Error,
    },
    /// The same JSON in other bytes: white space, another order of fields, another spelling.
    #[error("the {part} is not in its canonical form; fetch the file as it was written")]
    NotCanonical {
        /// Which layer.
        part: FileLayer,
    },
    /// The envelope holds something else than a Statement.
    #[error("the payload is of type `{}`, not `{PAYLOAD_TYPE}`", found.escape_debug())]
    PayloadType {
        /// The type found.
        found: String,
    },
    /// There must be exactly one signature.
    #[error("the envelope has `{found}` signatures; a certificate has one")]
    Signatures {
        /// How many there are.
        found: usize,
    },
    /// The envelope names another key.
    #[error("it is signed with key `{}`, not `{expected}`; check whose it is", found.escape_debug())]
    OtherKey {
        /// The key id found.
        found: String,
        /// The key id of the expected key.
        expected: String,
    },
    /// A field is no standard base64 with padding, or of the wrong length.
    #[error("`{field}` is not the base64 that we write; fetch the file again")]
    Base64 {
        /// Which field.
        field: &'static str,
    },
    /// The signature is not of this payload by the expected key.
    #[error("the signature is not of this text by the key `{key}`; do not trust the file")]
    Signature {
        /// The key id.
        key: String,
    },
    /// Not an in-toto Statement of this version.
    #[error("the statement is of type `{}`, not `{STATEMENT_TYPE}`", found.escape_debug())]
    StatementType {
        /// The type found.
        found: String,
    },
    /// A statement about something else.
    #[error("the predicate is of type `{}`, not `{PREDICATE_TYPE}`", found.escape_debug())]
    PredicateType {
        /// The type found.
        found: String,
    },
    /// From another program.
    #[error(
        "the certificate has version `{found}`, which is not that of its type; update the program"
    )]
    Version {
        /// The version found.
        found: u64,
    },
    /// A line of the file of entries is no leaf, or not in its place.
    #[error("line `{line}` of the entries {}; fetch the file again", fault.as_str())]
    EntryLine {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// The file of entries has another root than the certificate.
    #[error(
        "the `{lines}` entries have the root `{found}`, not `{expected}`; they are of another certificate"
    )]
    EntriesRoot {
        /// How many lines there are.
        lines: u64,
        /// Their root.
        found: Digest,
        /// The root in the certificate.
        expected: Digest,
    },
    /// The entries break a rule, or make another certificate.
    #[error("the entries do not make this certificate; do not trust it")]
    OfEntries(#[source] Disagreement),
    /// A leaf that stands inside is not under the root.
    #[error("the root of the entries does not hold {entry}; do not trust the file")]
    EntryInclusion {
        /// The entry.
        entry: Seq,
        /// What its proof does not show.
        #[source]
        cause: ProofError,
    },
    /// The paper's digest is not of this predicate.
    #[error("`manifest_digest` is not the digest of this predicate; do not trust the file")]
    ManifestDigest,
    /// The parts contradict each other.
    #[error("the parts do not agree; do not trust the file")]
    Disagreement(#[from] Disagreement),
    /// The log key is not one that the owner certified for this store.
    #[error(
        "the owner did not certify the log key of the checkpoint {which}; do not trust the file"
    )]
    LogKey {
        /// Which checkpoint.
        which: CheckpointPosition,
    },
    /// The checkpoint does not hold.
    #[error("the checkpoint {which} does not verify; do not trust the file")]
    Checkpoint {
        /// Which checkpoint.
        which: CheckpointPosition,
        /// Why.
        #[source]
        cause: CheckpointError,
    },
    /// The checkpoint is of another log.
    #[error("the checkpoint {which} is of `{found}`, another log; do not trust the file")]
    ForeignCheckpoint {
        /// Which checkpoint.
        which: CheckpointPosition,
        /// The log it is of.
        found: LogName,
    },
    /// The later log is not the earlier one continued.
    #[error(
        "the log after the recovery does not continue the one before; keep both checkpoints as evidence"
    )]
    Consistency(#[source] ProofError),
    /// The log does not hold this record of the recovery.
    #[error("the log after the recovery does not hold the record {seq}; do not trust the file")]
    Inclusion {
        /// The record.
        seq: Seq,
        /// Why.
        #[source]
        cause: ProofError,
    },
    /// About another incident.
    #[error("it is about `{found}`, not `{expected}`; ask for the right one")]
    OtherIncident {
        /// The incident found.
        found: IncidentId,
        /// The incident expected.
        expected: IncidentId,
    },
    /// Of another store.
    #[error("it is of `{found}`, not `{expected}`; ask for the right one")]
    OtherStore {
        /// The store found.
        found: StoreId,
        /// The store expected.
        expected: StoreId,
    },
    /// Older than what is known, or one is missing between.
    #[error(
        "it does not follow the certificate `{expected}`; ask for the newest, and for any between"
    )]
    NotNext {
        /// The certificate that it follows.
        found: Option<Digest>,
        /// The newest one known.
        expected: Digest,
    },
}

impl fmt::Display for FileLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Envelope => "envelope",
            Self::Statement => "statement",
        })
    }
}

impl fmt::Display for CheckpointPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before the recovery",
            Self::After => "after the recovery",
        })
    }
}
