//! What an auditor takes along: the records in order, and the signed statement over all of them.

use std::ops::Range;

use custody_kernel::record::Record;
use custody_log::{Checkpoint, Hash, Seq, inclusion_proof, key_name, vkey};
use rusqlite::Connection;

use crate::error::{StoreError, Tampering};
use crate::ledger::Ledger;
use crate::read;
use crate::schema::sql;
use crate::store::Store;

/// A checkpoint with what a stranger needs to verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedCheckpoint {
    /// The signed note, as C2SP writes it.
    pub note: String,
    /// What it states.
    pub checkpoint: Checkpoint,
    /// The log key that signed it, as a C2SP verifier key.
    pub vkey: String,
}

impl Store {
    /// The records at these positions, in order, each checked. Positions behind the end are left out.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when one of them is missing or another.
    pub fn records(&self, positions: Range<u64>) -> Result<Vec<Record>, StoreError> {
        self.read(|connection, ledger| {
            let end = positions.end.min(ledger.len());
            (positions.start..end).map(|at| read::record(connection, ledger, Seq(at))).collect()
        })
    }

    /// The same, each with the leaf that its stored bytes have in the Merkle tree, to fold them again.
    ///
    /// # Errors
    /// As [`Store::records`].
    pub fn stored_records(&self, positions: Range<u64>) -> Result<Vec<(Record, Hash)>, StoreError> {
        self.read(|connection, ledger| {
            let end = usize::try_from(positions.end.min(ledger.len())).unwrap_or(usize::MAX);
            let start = usize::try_from(positions.start).unwrap_or(usize::MAX).min(end);
            let leaves = ledger.leaves().get(start..end).unwrap_or_default();
            let stored = (positions.start..).zip(leaves);
            stored
                .map(|(at, leaf)| Ok((read::record(connection, ledger, Seq(at))?, *leaf)))
                .collect()
        })
    }

    /// The statement that the log key signed over every record there is now.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when there is none, or it is of other records.
    pub fn checkpoint(&self) -> Result<ExportedCheckpoint, StoreError> {
        self.read(signed)
    }

    /// An inclusion proof for one record, with the checkpoint whose root it leads to: RFC 9162 §2.1.3.
    ///
    /// # Errors
    /// [`StoreError::UnknownEntry`], or as [`Store::checkpoint`].
    pub fn inclusion(&self, seq: Seq) -> Result<(Vec<Hash>, ExportedCheckpoint), StoreError> {
        self.read(|connection, ledger| {
            let proof = inclusion_proof(ledger.leaves(), seq.0, ledger.len());
            let proof = proof.ok_or_else(|| StoreError::UnknownEntry(seq.to_string()))?;
            Ok((proof, signed(connection, ledger)?))
        })
    }
}

fn signed(connection: &Connection, ledger: &Ledger) -> Result<ExportedCheckpoint, StoreError> {
    let unsigned = Tampering::UnsignedTail { from: ledger.len() };
    let mut select = connection.prepare_cached("SELECT note FROM checkpoints WHERE size = ?1")?;
    let mut rows = select.query([sql(Seq(ledger.len()))])?;
    let Some(row) = rows.next()? else { return Err(unsigned.into()) };
    let note: String = row.get(0)?;
    let checkpoint = ledger.verify(&note)?;
    if checkpoint.size != ledger.len() || checkpoint.root != ledger.root() {
        return Err(unsigned.into());
    }
    let signer = ledger.signer_at(checkpoint.size).ok_or(Tampering::LogKey)?;
    let vkey = vkey(&key_name(), signer);
    Ok(ExportedCheckpoint { note, checkpoint, vkey })
}
