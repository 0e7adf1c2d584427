//! Logs to be witnessed.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "test files share this")]

use custody_log::{
    Checkpoint, CosignerKey, Hash, LogName, LogVerifier, SignedHead, consistency_proof, leaf_hash,
    root_of,
};
use custody_witness::{AddLogError, Submission, WitnessFolder, WitnessFolderError};
use ed25519_dalek::SigningKey;

/// The name of every witness here.
pub const WITNESS: &str = "witness.example/w1";

/// A log that can be forked and signed as its key's holder likes.
#[derive(Clone)]
pub struct Log {
    pub origin: LogName,
    pub key: SigningKey,
    pub leaves: Vec<Hash>,
}

impl Log {
    /// The log of this origin with `size` records.
    pub fn of(origin: &str, size: u64) -> Self {
        let leaves = (0..size).map(|number| leaf_hash(&number.to_be_bytes())).collect();
        Self { origin: name(origin), key: SigningKey::from_bytes(&[7; 32]), leaves }
    }

    /// The same log with others records from `at` on.
    pub fn forked_at(&self, at: usize) -> Self {
        let mut fork = self.clone();
        let others = fork.leaves.iter_mut().skip(at);
        others.for_each(|leaf| *leaf = leaf_hash(leaf));
        fork
    }

    pub fn verifier(&self) -> LogVerifier {
        LogVerifier { name: name("custody-log"), key: self.key.verifying_key() }
    }

    /// The signed checkpoint over the first `size` records.
    pub fn head(&self, size: u64) -> SignedHead {
        let root = self.root(size).unwrap();
        let checkpoint = Checkpoint { origin: self.origin.clone(), size, root };
        let note = checkpoint.sign(&self.key, &name("custody-log"));
        SignedHead { checkpoint, note }
    }

    pub fn root(&self, size: u64) -> Option<Hash> {
        self.leaves.get(..usize::try_from(size).ok()?).map(root_of)
    }

    pub fn proof(&self, old: u64, new: u64) -> Option<Vec<Hash>> {
        consistency_proof(&self.leaves, old, new)
    }

    /// A correct request to cosign the first `new` records after the first `old`.
    pub fn submission(&self, old: u64, new: u64) -> Submission {
        let proof = self.proof(old, new).unwrap_or_default();
        Submission { old, proof, checkpoint: self.head(new).note }
    }
}

pub fn name(text: &str) -> LogName {
    LogName::new(text).unwrap()
}

/// A witness of these logs, in a folder that is deleted with the first part.
pub fn witness_of(logs: &[&Log]) -> (tempfile::TempDir, WitnessFolder) {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::from_bytes(&[9; 32]);
    let mut witness = WitnessFolder::create(folder.path().join("w"), name(WITNESS), key).unwrap();
    for log in logs {
        add(&mut witness, log).unwrap();
    }
    (folder, witness)
}

#[derive(Debug)]
pub enum ChangeError {
    Folder(WitnessFolderError),
    Log(AddLogError),
}

impl From<WitnessFolderError> for ChangeError {
    fn from(error: WitnessFolderError) -> Self {
        Self::Folder(error)
    }
}

pub fn add(witness: &mut WitnessFolder, log: &Log) -> Result<(), ChangeError> {
    witness
        .change(|state| state.add_log(log.origin.clone(), log.verifier()).map_err(ChangeError::Log))
}

pub fn cosigner() -> CosignerKey {
    let key = SigningKey::from_bytes(&[9; 32]).verifying_key();
    CosignerKey { name: name(WITNESS), key }
}
