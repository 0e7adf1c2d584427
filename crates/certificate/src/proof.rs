//! Checking what a certificate says of the log, both checkpoints and every proof between them, and of its entries: the
//! root, and every proof under it.
//!
//! Source: docs/design.md §8 and §9.3; RFC 9162 §2.1.3 and §2.1.4.

use custody_log::{
    Checkpoint, Digest, Hash, Seq, StoreId, key_name, origin, verify_consistency, verify_inclusion,
};
use ed25519_dalek::VerifyingKey;

use crate::agree::Disagreement;
use crate::audit::{IncludedRecord, SignedCheckpoint};
use crate::error::{CertificateError, CheckpointPosition};
use crate::format::{MAX_INTEGER, MAX_LISTED};
use crate::leaf::{self, CertifiedEntries};
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
    within(recovery, &after)?;
    Ok((before, after))
}

/// Checks that every entry that is named is one of the log.
pub(crate) fn within(recovery: &Recovery, after: &Checkpoint) -> Result<(), Disagreement> {
    match named(recovery).find(|entry| entry.0 >= after.size) {
        Some(entry) => Err(Disagreement::BeyondLog { entry }),
        None => Ok(()),
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

/// Checks the root and the counts against the lists: all of them where the lists are whole; else that each leaf that is
/// listed is under the root, and that the counts allow for them.
pub(crate) fn entries(
    recovery: &Recovery,
    stated: &CertifiedEntries,
) -> Result<(), CertificateError> {
    let listed = leaf::count(recovery);
    if listed == stated.leaves() {
        let derived = leaf::certified(recovery).map_err(|_| Disagreement::Entries)?;
        return if derived == *stated { Ok(()) } else { Err(Disagreement::Entries.into()) };
    }
    if listed > stated.leaves() || stated.leaves() <= MAX_LISTED || !allows(recovery, stated) {
        return Err(Disagreement::Entries.into());
    }
    let mut proofs = stated.proofs.iter();
    let mut from = 0;
    for hash in leaf::hashes(recovery) {
        let (entry, hash) = hash.map_err(|_| Disagreement::Entries)?;
        let proof = proofs.next().filter(|proof| proof.entry == entry && proof.index >= from);
        let proof = proof.ok_or(Disagreement::Entries)?;
        let inclusion = hashes(&proof.inclusion);
        verify_inclusion(&hash, proof.index, stated.leaves(), &inclusion, &stated.root.0)
            .map_err(|cause| CertificateError::EntryInclusion { entry, cause })?;
        from = proof.index.saturating_add(1);
    }
    if proofs.next().is_none() { Ok(()) } else { Err(Disagreement::Entries.into()) }
}

/// Whether these counts can be those of more entries than are listed: of each kind that a reader must see, the first
/// are, and the totals count every member.
fn allows(recovery: &Recovery, stated: &CertifiedEntries) -> bool {
    let listed = CertifiedEntries::counted(recovery);
    let kinds = [
        (listed.effects, stated.effects),
        (listed.quarantined, stated.quarantined),
        (listed.seeds, stated.seeds),
        (listed.unfinished, stated.unfinished),
    ];
    let shown = kinds.iter().all(|(listed, all)| (*all.min(&MAX_LISTED)..=*all).contains(listed));
    let totals = recovery.runtime_recovery.totals.counts();
    let planned = totals.iter().try_fold(0_u64, |sum, count| sum.checked_add(count.planned));
    let done = totals.iter().try_fold(0_u64, |sum, count| sum.checked_add(count.done));
    let left = planned.zip(done).and_then(|(planned, done)| planned.checked_sub(done));
    let within = [stated.quarantined, stated.seeds, stated.spared, stated.unfinished];
    shown
        && listed.possible_origins == 0
        && listed.spared <= stated.spared
        && planned == Some(stated.members)
        && left == Some(stated.unfinished)
        && within.iter().all(|count| *count <= stated.members)
        && stated.leaves() <= MAX_INTEGER
        && stated.effects <= MAX_INTEGER
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
