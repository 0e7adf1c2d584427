//! The log before and after a recovery: two signed checkpoints, and the proofs that the second continues the first and
//! holds the recovery's own records.
//!
//! Fields are declared in the order of RFC 8785.
//!
//! Source: docs/design.md §8 and §9.3; RFC 9162 §2.1.3 and §2.1.4.

use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::error::{CertificateError, Which};
use super::{Disagreement, MAX_INTEGER, Recovery};
use crate::audit::{Checkpoint, Hash, LogName, verify_consistency, verify_inclusion};
use crate::digest::Digest;
use crate::id::{Seq, StoreId, Timestamp};
use crate::record::LogKey;

/// The name under which a store's log key signs.
pub const LOG_KEY_NAME: &str = "custody-log";

/// The origin line of a store's checkpoints.
pub fn origin(store: StoreId) -> String {
    format!("custody.log/{store}")
}

/// The key that signed a checkpoint, with the owner's word that it is the store's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifiedLogKey {
    /// The owner's signature over [`LogKey::certified_bytes`], lower-case hexadecimal.
    pub certificate: String,
    /// Ed25519 public key.
    pub public_key: Digest,
}

impl From<LogKey> for CertifiedLogKey {
    fn from(LogKey { public_key, certificate }: LogKey) -> Self {
        Self { certificate, public_key }
    }
}

/// A checkpoint of the store's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedCheckpoint {
    /// Who signed it.
    pub log_key: CertifiedLogKey,
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
        let key = self.log_key.key(store, owner).ok_or(CertificateError::LogKey { which })?;
        let name = LogName::new(LOG_KEY_NAME).expect("a fixed log name");
        let checkpoint = Checkpoint::verify(&self.note, &name, &key)
            .map_err(|cause| CertificateError::Checkpoint { which, cause })?;
        if checkpoint.origin.as_str() != origin(store) {
            let found = checkpoint.origin;
            return Err(CertificateError::ForeignCheckpoint { which, found });
        }
        if checkpoint.size > MAX_INTEGER {
            return Err(Disagreement::Number { field: "size" }.into());
        }
        Ok(checkpoint)
    }
}

impl CertifiedLogKey {
    /// The key, if the owner certified it for this store.
    fn key(&self, store: StoreId, owner: &VerifyingKey) -> Option<VerifyingKey> {
        let mut signature = [0; 64];
        hex::decode_to_slice(&self.certificate, &mut signature).ok()?;
        // Upper-case digits would be a second file of the same certificate.
        let is_canonical = hex::encode(signature) == self.certificate;
        let certified = LogKey::certified_bytes(store, &self.public_key);
        owner.verify_strict(&certified, &Signature::from_bytes(&signature)).ok()?;
        VerifyingKey::from_bytes(&self.public_key.0).ok().filter(|_| is_canonical)
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
