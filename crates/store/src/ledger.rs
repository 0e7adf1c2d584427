//! The record as it is held in memory: the state, and the leaf hash of every record.
//!
//! The leaf hashes are the authenticated copy. They are checked against the signed head when the
//! store is opened; from then on every row that is read is hashed and compared with its leaf, so that
//! a read costs the same however large the store is.

use std::collections::HashSet;

use custody_kernel::UncheckedSignature;
use custody_kernel::advice::Advice;
use custody_kernel::monitor::{Committed, Decided};
use custody_kernel::principal::Principal;
use custody_kernel::record::{AdminRequest, Answer, Record, Request, UNSIGNED_FORMAT};
use custody_kernel::state::State;
use custody_log::{
    Checkpoint, EntryId, Frontier, Hash, LogKey, Seq, StoreId, key_name, leaf_hash, origin, root_of,
};
use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::content::content_of;
use crate::edges::Edges;
use crate::error::{StoreError, Tampering};

/// What this process holds of the log.
#[derive(Debug)]
pub(crate) enum Held {
    /// The log, as far as it was read, and all of it verified.
    Ledger(Box<Ledger>),
    /// A group failed half-way, so the log must be read again; it can only hold more than it did.
    Lost(Seen),
}

/// A log that this process has seen, and which it must find again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    size: u64,
    root: Hash,
}

impl Held {
    pub(crate) const fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::Ledger(ledger) => Some(ledger),
            Self::Lost(_) => None,
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        match self {
            Self::Ledger(ledger) => Seen { size: ledger.len(), root: ledger.root() },
            Self::Lost(seen) => *seen,
        }
    }

    /// Gives up what was folded in since `seen`, if anything was.
    pub(crate) fn forget_since(&mut self, seen: Seen) {
        if self.seen().size != seen.size {
            *self = Self::Lost(seen);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    state: State,
    leaves: Vec<Hash>,
    frontier: Frontier,
    /// The log keys, each with the size from which on it signs.
    signers: Vec<(u64, VerifyingKey)>,
    /// How many entries name each entry as a parent, to know when the index of edges lies.
    children: Vec<u32>,
    /// The ids of all entries, to know when the index of ids lies.
    ids: HashSet<EntryId>,
    /// What was made from what.
    edges: Edges,
    /// The entries whose content is kept with them, ascending, to know when the indexes of texts lie.
    arrivals: Vec<Seq>,
}

impl Ledger {
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    pub(crate) const fn len(&self) -> u64 {
        self.leaves.len() as u64
    }

    pub(crate) fn leaves(&self) -> &[Hash] {
        &self.leaves
    }

    pub(crate) fn root(&self) -> Hash {
        self.frontier.root()
    }

    pub(crate) fn children_of(&self, entry: Seq) -> u32 {
        let at = usize::try_from(entry.0).ok();
        at.and_then(|at| self.children.get(at)).copied().unwrap_or_default()
    }

    /// What was made from what, as far as the log goes.
    pub(crate) const fn edges(&self) -> &Edges {
        &self.edges
    }

    /// The entries whose content is kept with them, ascending; destroyed ones too.
    pub(crate) fn arrivals(&self) -> &[Seq] {
        &self.arrivals
    }

    /// Whether an entry has this id.
    pub(crate) fn knows(&self, id: EntryId) -> bool {
        self.ids.contains(&id)
    }

    /// Folds a record of the log in, as it is stored. Its bytes count as verified only once the root
    /// they lead to was found signed, and its own signature was checked.
    pub(crate) fn replay(&mut self, bytes: &[u8]) -> Result<UncheckedSignature, StoreError> {
        let at = self.len();
        let record =
            Record::from_bytes(bytes).map_err(|cause| Tampering::Unreadable(at, cause.into()))?;
        // What is signed is the record; a second spelling of it would have another leaf.
        let leaf = leaf_hash(bytes);
        if record.v != UNSIGNED_FORMAT && record.leaf() != leaf {
            return Err(Tampering::OtherRecord(at).into());
        }
        let signature = self.state.fold_stored(&record, leaf);
        let signature = signature.map_err(|cause| Tampering::Inconsistent(at, cause.into()))?;
        self.push(&record, bytes)?;
        Ok(signature)
    }

    /// Commits a decision and returns its record with the bytes to store.
    pub(crate) fn commit(
        &mut self,
        decided: Decided,
        id: EntryId,
        advice: Vec<Advice>,
        session_key: Option<&SigningKey>,
    ) -> Result<(Committed, Vec<u8>), StoreError> {
        let at = self.len();
        let committed = self.state.commit(decided, id, advice, session_key);
        let committed = committed.map_err(|cause| Tampering::Inconsistent(at, cause.into()))?;
        let record = committed.record();
        let bytes = record.to_bytes().expect("a record holds text and numbers only");
        self.push(record, &bytes)?;
        Ok((committed, bytes))
    }

    fn push(&mut self, record: &Record, bytes: &[u8]) -> Result<(), StoreError> {
        let leaf = leaf_hash(bytes);
        self.leaves.push(leaf);
        self.frontier.push(leaf);
        self.children.push(0);
        self.ids.insert(record.id);
        self.edges.push(record);
        if arrived_with(record) {
            self.arrivals.push(record.seq);
        }
        for parent in &record.parents {
            let at = usize::try_from(parent.0).ok();
            if let Some(count) = at.and_then(|at| self.children.get_mut(at)) {
                *count += 1;
            }
        }
        match (&record.request, &record.answer) {
            (Request::Admin(AdminRequest::CreateStore(genesis)), Answer::Done) => {
                self.trust_log_key(&genesis.log_key)
            }
            (Request::Admin(AdminRequest::RotateLogKey(key)), Answer::Done) => {
                self.trust_log_key(key)
            }
            _ => Ok(()),
        }
    }

    fn trust_log_key(&mut self, key: &LogKey) -> Result<(), StoreError> {
        let owner = self.state.owner().and_then(Principal::verifying_key);
        let verifying = owner
            .zip(self.state.store())
            .and_then(|(owner, store)| key.certified_key(store, &owner))
            .ok_or(Tampering::LogKey)?;
        self.signers.push((self.len(), verifying));
        Ok(())
    }

    /// The key that signs a checkpoint of `size`.
    pub(crate) fn signer_at(&self, size: u64) -> Option<&VerifyingKey> {
        self.signers.iter().rev().find(|(from, _)| *from <= size).map(|(_, key)| key)
    }

    /// Whether `key` is the one that signs now.
    pub(crate) fn is_signed_by(&self, key: &SigningKey) -> bool {
        self.signer_at(self.len()) == Some(&key.verifying_key())
    }

    /// Reads a checkpoint of this store, by whichever log key signed at the size it claims.
    pub(crate) fn verify(&self, note: &str) -> Result<Checkpoint, StoreError> {
        let size = claimed_size(note).unwrap_or_default();
        let key = self.signer_at(size).ok_or(Tampering::LogKey)?;
        let checkpoint = Checkpoint::verify(note, &key_name(), key).map_err(Tampering::Head)?;
        let store = self.state.store().ok_or(Tampering::LogKey)?;
        if checkpoint.origin != origin(store) {
            return Err(Tampering::ForeignHead.into());
        }
        Ok(checkpoint)
    }

    /// The root over the first `size` records.
    pub(crate) fn root_at(&self, size: u64) -> Option<Hash> {
        let size = usize::try_from(size).ok()?;
        if size == self.leaves.len() {
            return Some(self.frontier.root());
        }
        self.leaves.get(..size).map(root_of)
    }

    /// Checks that this log goes on from what was `seen` before.
    pub(crate) fn continues(&self, seen: Seen) -> Result<(), StoreError> {
        match self.root_at(seen.size) {
            None => Err(Tampering::BehindHead { found: self.len(), head: seen.size }.into()),
            Some(root) if root != seen.root => {
                Err(Tampering::OtherRecords(seen.size.saturating_sub(1)).into())
            }
            Some(_) => Ok(()),
        }
    }

    /// Checks that `bytes` are what stands at `seq`.
    pub(crate) fn check(&self, seq: Seq, bytes: &[u8]) -> Result<Record, StoreError> {
        let signed = usize::try_from(seq.0).ok().and_then(|at| self.leaves.get(at));
        if signed != Some(&leaf_hash(bytes)) {
            return Err(Tampering::OtherRecord(seq.0).into());
        }
        Record::from_bytes(bytes).map_err(|cause| Tampering::Unreadable(seq.0, cause.into()).into())
    }

    /// The statement to sign about everything committed so far.
    pub(crate) fn checkpoint(&self, store: StoreId) -> Checkpoint {
        Checkpoint { origin: origin(store), size: self.len(), root: self.root() }
    }
}

/// Whether a content is kept with this very record.
fn arrived_with(record: &Record) -> bool {
    let is_kept = !matches!(record.answer, Answer::Refused(_));
    is_kept && content_of(record).is_some_and(|content| content.arrival == record.seq)
}

/// The size that a checkpoint speaks of, before its signature is looked at.
pub(crate) fn claimed_size(note: &str) -> Option<u64> {
    note.lines().nth(1)?.parse().ok()
}
