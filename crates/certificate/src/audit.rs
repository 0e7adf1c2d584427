//! The log before and after a recovery: two signed checkpoints, and the proofs that the second continues the first and
//! holds the recovery's own records.
//!
//! Fields are declared in the order of RFC 8785.

use custody_log::{Digest, LogKey, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// A checkpoint of the store's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedCheckpoint {
    /// Who signed it.
    pub log_key: LogKey,
    /// The signed note, as C2SP writes it.
    pub note: String,
}

/// What a record of the recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedStep {
    /// The incident was opened.
    Opened,
    /// The closure was put in quarantine.
    Contained,
    /// The plan was made.
    Planned,
    /// Actions were applied.
    Applied,
    /// Probes ran.
    Probed,
}

/// One record of the recovery, with the proof that the later log holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncludedRecord {
    /// The siblings on the way up, the lowest first.
    pub inclusion: Vec<Digest>,
    /// The record's leaf hash.
    pub leaf: Digest,
    /// Its position.
    pub seq: Seq,
    /// What it is.
    pub step: LoggedStep,
}

/// An adoption: the store went on although its head was lost or disagreed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerBreak {
    /// When.
    pub at_ms: Timestamp,
    /// The size that the lost or disagreeing head spoke of, if one was found.
    pub head_size: Option<u64>,
    /// Why, in the owner's words.
    pub reason: String,
    /// The record of it.
    pub seq: Seq,
}

/// The log around a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// After it.
    pub after: SignedCheckpoint,
    /// Before its first record.
    pub before: SignedCheckpoint,
    /// Every adoption that the log holds.
    pub breaks: Vec<LedgerBreak>,
    /// That the later log continues the earlier.
    pub consistency: Vec<Digest>,
    /// The recovery's records. There is at least one.
    pub records: Vec<IncludedRecord>,
}
