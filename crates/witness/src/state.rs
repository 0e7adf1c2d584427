//! What a witness knows of the logs it serves, and its answer to a request.
//!
//! Everything here is pure: the time is an argument, and nothing is stored. A cosignature leaves an
//! [`AcceptedSubmission`] only through [`WitnessFolder::commit`](crate::WitnessFolder::commit), which stores it first.

use std::collections::BTreeMap;

use custody_log::{
    CheckpointError, Cosigned, CosignerKey, Hash, LogName, LogVerifier, ProofError, cosign,
    empty_root, verify_consistency,
};
use ed25519_dalek::SigningKey;

use crate::submission::{MalformedSubmission, Submission};

/// The key of a witness, with the name under which it signs.
pub struct WitnessSigner {
    name: LogName,
    key: SigningKey,
}

impl std::fmt::Debug for WitnessSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WitnessSigner").field("name", &self.name).finish_non_exhaustive()
    }
}

impl WitnessSigner {
    /// A witness of this name with this key. Use a key for one name only: the name is not among the bytes signed.
    pub const fn new(name: LogName, key: SigningKey) -> Self {
        Self { name, key }
    }

    /// What verifies its cosignatures.
    pub fn cosigner_key(&self) -> CosignerKey {
        CosignerKey { name: self.name.clone(), key: self.key.verifying_key() }
    }

    /// Signs a text as a note.
    pub(crate) fn sign(&self, text: &str) -> String {
        custody_log::sign_note(text, &self.key, &self.name)
    }

    pub(crate) const fn key(&self) -> &SigningKey {
        &self.key
    }
}

/// One log of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessedLog {
    /// The key that signs the log's checkpoints.
    pub verifier: LogVerifier,
    /// The checkpoint that was cosigned last; `None` before the first.
    pub latest: Option<LatestCosigned>,
}

/// The checkpoint of a log that a witness cosigned last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestCosigned {
    /// What was cosigned, and when.
    pub cosigned: Cosigned,
    /// The note: the checkpoint with the log's signature and the cosignature.
    pub note: String,
}

impl WitnessedLog {
    /// How many records the log had when it was last cosigned; 0 if it never was.
    pub fn size(&self) -> u64 {
        self.latest.as_ref().map_or(0, |latest| latest.cosigned.checkpoint.size)
    }

    fn root(&self) -> Hash {
        self.latest.as_ref().map_or_else(empty_root, |latest| latest.cosigned.checkpoint.root)
    }
}

/// The logs of a witness by their origins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WitnessState {
    logs: BTreeMap<LogName, WitnessedLog>,
}

/// Why a log was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddLogError {
    /// The origin is known with another key.
    #[error("`{origin}` is known with the key `{known}`")]
    OtherKey {
        /// The origin.
        origin: LogName,
        /// The key that it is known with.
        known: Box<LogVerifier>,
    },
}

/// Why a checkpoint was not cosigned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionRefusal {
    /// The body is malformed.
    #[error(transparent)]
    Malformed(#[from] MalformedSubmission),
    /// The checkpoint is malformed.
    #[error("{0}")]
    Checkpoint(CheckpointError),
    /// No log of this origin was added.
    #[error("no log of this origin is known here")]
    UnknownLog,
    /// The checkpoint is not signed by the log's key.
    #[error("the checkpoint is not signed by the key that is known for its origin")]
    NotSigned,
    /// The request claims an older checkpoint that is larger than the new one.
    #[error("the old size `{old}` is above the size of the checkpoint, `{new}`")]
    OldAboveNew {
        /// The old size in the request.
        old: u64,
        /// The size of the checkpoint.
        new: u64,
    },
    /// Another size was cosigned last.
    #[error("the size that was cosigned last is `{latest}`")]
    OtherSize {
        /// The size that was cosigned last.
        latest: u64,
    },
    /// Another root was cosigned at the same size.
    #[error("another root was cosigned at size `{size}`")]
    OtherRoot {
        /// The size.
        size: u64,
    },
    /// The checkpoint does not extend the one that was cosigned last.
    #[error("the checkpoint does not extend the one that was cosigned last")]
    Inconsistent(#[source] ProofError),
    /// A cosignature needs a time that the format can hold.
    #[error("the witness's clock says `{time_s}`, which no cosignature can say")]
    Clock {
        /// Seconds since 1970-01-01 UTC.
        time_s: u64,
    },
}

/// A checkpoint that the rules accept, with its cosignature, which is not yet stored and has not left.
///
/// Only [`WitnessState::decide_submission`] makes one.
#[derive(Debug)]
#[must_use = "a cosignature is given out only after it was committed"]
pub struct AcceptedSubmission {
    origin: LogName,
    latest: LatestCosigned,
    line: String,
}

impl WitnessState {
    /// The logs, by their origins.
    pub fn logs(&self) -> impl Iterator<Item = (&LogName, &WitnessedLog)> {
        self.logs.iter()
    }

    /// The log of this origin, if it was added.
    pub fn log(&self, origin: &LogName) -> Option<&WitnessedLog> {
        self.logs.get(origin)
    }

    /// Serves a log from here on. Adding a known one with the same key changes nothing.
    ///
    /// # Errors
    /// [`AddLogError::OtherKey`]; see [`WitnessState::replace_key`].
    pub fn add_log(&mut self, origin: LogName, verifier: LogVerifier) -> Result<(), AddLogError> {
        match self.logs.get(&origin) {
            Some(log) if log.verifier == verifier => Ok(()),
            Some(log) => {
                Err(AddLogError::OtherKey { origin, known: Box::new(log.verifier.clone()) })
            }
            None => {
                self.logs.insert(origin, WitnessedLog { verifier, latest: None });
                Ok(())
            }
        }
    }

    /// Replaces the key of a known log, after the log replaced it. What was cosigned stays, so the new key
    /// can only extend it. `None` when the log is not known.
    pub fn replace_key(&mut self, origin: &LogName, verifier: LogVerifier) -> Option<()> {
        self.logs.get_mut(origin).map(|log| log.verifier = verifier)
    }

    /// Restores a log as it was stored.
    pub(crate) fn restore(&mut self, origin: LogName, log: WitnessedLog) -> Option<WitnessedLog> {
        self.logs.insert(origin, log)
    }

    /// Decides one request, at `time_s` seconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// [`SubmissionRefusal`] for the first rule of the protocol that does not hold, in the protocol's order.
    ///
    /// Source: C2SP tlog-witness, `add-checkpoint`.
    pub fn decide_submission(
        &self,
        body: &[u8],
        signer: &WitnessSigner,
        time_s: u64,
    ) -> Result<AcceptedSubmission, SubmissionRefusal> {
        let submission = Submission::parse(body)?;
        let origin = submission.checkpoint.split('\n').next().unwrap_or_default();
        let origin = LogName::new(origin).map_err(SubmissionRefusal::Checkpoint)?;
        let log = self.logs.get(&origin).ok_or(SubmissionRefusal::UnknownLog)?;
        let signed = log.verifier.verify(&submission.checkpoint).map_err(refusal_of)?;
        let new = &signed.checkpoint;
        let old = submission.old;
        if old > new.size {
            return Err(SubmissionRefusal::OldAboveNew { old, new: new.size });
        }
        let latest = log.size();
        if old != latest {
            return Err(SubmissionRefusal::OtherSize { latest });
        }
        if old == new.size && log.root() != new.root {
            return Err(SubmissionRefusal::OtherRoot { size: old });
        }
        verify_consistency(old, new.size, &submission.proof, &log.root(), &new.root)
            .map_err(SubmissionRefusal::Inconsistent)?;
        if time_s == 0 || i64::try_from(time_s).is_err() {
            return Err(SubmissionRefusal::Clock { time_s });
        }
        let line = cosign(new, &signer.key, &signer.name, time_s);
        let note = signed.note + &line;
        let cosigned = Cosigned { checkpoint: signed.checkpoint, time_s };
        Ok(AcceptedSubmission { origin, latest: LatestCosigned { cosigned, note }, line })
    }

    /// Takes an accepted checkpoint in, and gives its cosignature out. The caller stores the state in between.
    pub(crate) fn commit(&mut self, accepted: AcceptedSubmission) -> String {
        if let Some(log) = self.logs.get_mut(&accepted.origin) {
            log.latest = Some(accepted.latest);
        }
        accepted.line
    }
}

/// A signature that is missing or wrong is the log's affair, anything else the format's.
fn refusal_of(error: CheckpointError) -> SubmissionRefusal {
    match error {
        CheckpointError::Unsigned { .. }
        | CheckpointError::SignedTwice { .. }
        | CheckpointError::Signature { .. } => SubmissionRefusal::NotSigned,
        CheckpointError::VerifierKey { .. }
        | CheckpointError::Name { .. }
        | CheckpointError::TooLong { .. }
        | CheckpointError::Malformed { .. } => SubmissionRefusal::Checkpoint(error),
    }
}
