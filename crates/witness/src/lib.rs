//! Witnesses: processes of another user or machine that cosign the heads of a log, so that a log which was cut,
//! rolled back or forked shows, even when its key signed the result.
//!
//! A witness remembers of each log the largest checkpoint it saw, and cosigns only what extends it. It speaks the
//! protocol of C2SP tlog-witness, with one question more: [which checkpoint did you cosign last](crate::verify_latest)?
//!
//! - [`WitnessState`] decides, purely; [`WitnessFolder`] remembers, durably, before a cosignature leaves;
//!   [`WitnessServer`] listens.
//! - [`WitnessClient`] has a head cosigned and asks for the latest one; [`WitnessVerdict`] compares that with the log.
//! - [`WitnessPins`] are the witnesses that a store's owner trusts, signed with the owner's key; [`PinFolder`] is
//!   where they are kept.
//!
//! ```
//! use custody_log::{Checkpoint, LogName, LogVerifier, root_of};
//! use custody_witness::{Submission, WitnessSigner, WitnessState};
//! use ed25519_dalek::SigningKey;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A log with one record …
//! let log_key = SigningKey::from_bytes(&[7; 32]);
//! let name = LogName::new("example.com/log")?;
//! let head = Checkpoint { origin: name.clone(), size: 1, root: root_of(&[[1; 32]]) };
//! let checkpoint = head.sign(&log_key, &name);
//!
//! // … and a witness that knows it, and has seen nothing of it yet.
//! let mut witness = WitnessState::default();
//! witness.add_log(name.clone(), LogVerifier { name, key: log_key.verifying_key() })?;
//! let signer = WitnessSigner::new(LogName::new("witness.example/w1")?, SigningKey::from_bytes(&[9; 32]));
//!
//! let body = Submission { old: 0, proof: Vec::new(), checkpoint }.to_string();
//! let accepted = witness.decide_submission(body.as_bytes(), &signer, 1_790_000_000)?;
//! // `WitnessFolder::commit` stores it and gives the cosignature out.
//! # drop(accepted);
//! # Ok(())
//! # }
//! ```
//!
//! Source: C2SP tlog-witness, tlog-cosignature and tlog-checkpoint; docs/decisions/0021-witnesses.md (G3).

mod answer;
mod client;
mod folder;
mod latest;
mod pin_folder;
mod pins;
mod server;
mod state;
mod submission;
mod verdict;

pub use answer::WitnessAnswer;
pub use client::{
    CosignError, CosignStep, LatestError, WitnessClient, WitnessReply, WitnessUrl, WitnessUrlError,
    fresh_nonce,
};
pub use folder::{CommitError, WitnessFolder, WitnessFolderError};
pub use latest::{LatestAnswerError, WitnessNonce, verify_latest};
pub use pin_folder::{CosignHeadError, PinFolder, PinFolderError};
pub use pins::{MAX_PINS, WitnessPin, WitnessPins, WitnessPinsError};
pub use server::{HttpRefusal, HttpRequest, ServerLimits, WitnessServer, read_request};
pub use state::{
    AcceptedSubmission, AddLogError, LatestCosigned, SubmissionRefusal, WitnessSigner,
    WitnessState, WitnessedLog,
};
pub use submission::{MAX_PROOF_HASHES, MalformedSubmission, Submission};
pub use verdict::{WitnessDoubt, WitnessVerdict};
