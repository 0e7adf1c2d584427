//! The log before and after a recovery: two signed checkpoints, and the proofs that the second continues the first and
//! holds the recovery's own records.
//!
//! Fields are declared in the order of RFC 8785.
//!
//! Source: DESIGN section 3, Certificate and Audit; RFC 9162 §2.1.3 and §2.1.4.

use custody_log::{
    Checkpoint, Digest, Hash, LogKey, Seq, StoreId, Timestamp, key_name, origin,
    verify_consistency, verify_inclusion,
};
use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use super::error::{CertificateError, Which};
use super::{Disagreement, MAX_INTEGER, Recovery};

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
pub enum Step {
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
pub struct Included {
    /// The siblings on the way up, the lowest first.
    pub inclusion: Vec<Digest>,
    /// The record's leaf hash.
    pub leaf: Digest,
    /// Its position.
    pub seq: Seq,
    /// What it is.
    pub step: Step,
}

/// An adoption: the store went on although its head was lost or disagreed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Break {
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
    pub breaks: Vec<Break>,
    /// That the later log continues the earlier.
    pub consistency: Vec<Digest>,
    /// The recovery's records. There is at least one.
    pub records: Vec<Included>,
}

/// Checks both checkpoints and every proof. Returns the log before and after.
pub(super) fn verify(
    recovery: &Recovery,
    owner: &VerifyingKey,
) -> Result<(Checkpoint, Checkpoint), CertificateError> {
    let audit = &recovery.audit;
    let before = audit.before.open(Which::Before, recovery.store, owner)?;
    let after = audit.after.open(Which::After, recovery.store, owner)?;
    let consistency = hashes(&audit.consistency);
    verify_consistency(before.size, after.size, &consistency, &before.root, &after.root)
        .map_err(CertificateError::Consistency)?;
    for record in &audit.records {
        let Included { inclusion, leaf, seq, .. } = record;
        verify_inclusion(&leaf.0, seq.0, after.size, &hashes(inclusion), &after.root)
            .map_err(|cause| CertificateError::Inclusion { seq: *seq, cause })?;
        if seq.0 < before.size {
            return Err(Disagreement::RecordBefore { seq: *seq }.into());
        }
    }
    match named(recovery).find(|entry| entry.0 >= after.size) {
        Some(entry) => Err(Disagreement::BeyondLog { entry }.into()),
        None => Ok((before, after)),
    }
}

impl SignedCheckpoint {
    fn open(
        &self,
        which: Which,
        store: StoreId,
        owner: &VerifyingKey,
    ) -> Result<Checkpoint, CertificateError> {
        let key = self.log_key.certified_key(store, owner);
        let key = key.ok_or(CertificateError::LogKey { which })?;
        let checkpoint = Checkpoint::verify(&self.note, &key_name(), &key)
            .map_err(|cause| CertificateError::Checkpoint { which, cause })?;
        if checkpoint.origin != origin(store) {
            let found = checkpoint.origin;
            return Err(CertificateError::ForeignCheckpoint { which, found });
        }
        if checkpoint.size > MAX_INTEGER {
            return Err(Disagreement::Number { field: "size" }.into());
        }
        Ok(checkpoint)
    }
}

/// Every position that may be outside the log; what is left out is among the members, which is checked elsewhere.
fn named(recovery: &Recovery) -> impl Iterator<Item = Seq> {
    let closure = &recovery.runtime_recovery.closure;
    let covers = recovery.spared.iter().flat_map(|spared| &spared.covered_by);
    let breaks = recovery.audit.breaks.iter().map(|found| &found.seq);
    closure.members.iter().chain(&closure.possible_origins).chain(covers).chain(breaks).copied()
}

fn hashes(digests: &[Digest]) -> Vec<Hash> {
    digests.iter().map(|digest| digest.0).collect()
}
