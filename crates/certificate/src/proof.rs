//! Checking what a certificate says of the log: both checkpoints, and every proof between them.
//!
//! Source: docs/design.md §8 and §9.3; RFC 9162 §2.1.3 and §2.1.4.

use custody_log::{
    Checkpoint, Digest, Hash, Seq, StoreId, key_name, origin, verify_consistency, verify_inclusion,
};
use ed25519_dalek::VerifyingKey;

use crate::agree::Disagreement;
use crate::audit::{IncludedRecord, SignedCheckpoint};
use crate::error::{CertificateError, CheckpointPosition};
use crate::format::MAX_INTEGER;
use crate::recovery::Recovery;

/// Checks both checkpoints and every proof. Returns the log before and after.
pub(crate) fn verify(
    recovery: &Recovery,
    owner: &VerifyingKey,
) -> Result<(Checkpoint, Checkpoint), CertificateError> {
    let audit = &recovery.audit;
    let before = audit.before.open(CheckpointPosition::Before, recovery.store, owner)?;
    let after = audit.after.open(CheckpointPosition::After, recovery.store, owner)?;
    let consistency = hashes(&audit.consistency);
    verify_consistency(before.size, after.size, &consistency, &before.root, &after.root)
        .map_err(CertificateError::Consistency)?;
    for record in &audit.records {
        let IncludedRecord { inclusion, leaf, seq, .. } = record;
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
        which: CheckpointPosition,
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
