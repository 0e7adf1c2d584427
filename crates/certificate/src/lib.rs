//! Recovery certificates: what an incident reached, what was done about it and what is left, signed by the owner of
//! the store so that a stranger can verify it with the file and a public key.
//!
//! The file is an in-toto Statement in a DSSE envelope with one Ed25519 signature, and its own canonical bytes: there
//! is one byte sequence for one certificate, and every other is refused. Counts, verdicts and the outcome are derived
//! from the lists beside them; one that disagrees is refused, when signing as when reading.
//!
//! ```no_run
//! use custody_certificate::{Certificate, Expectations};
//! use ed25519_dalek::VerifyingKey;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read("certificate.json")?;
//! // The owner's public key, from anywhere but the file itself.
//! let owner = VerifyingKey::from_bytes(&[0; 32])?;
//!
//! let verified = Certificate::verify(&file, &owner, Expectations::default())?;
//! let certificate = verified.certificate();
//! println!("{:?}: {:?}", certificate.recovery.incident, certificate.outcome.state);
//! for claim in verified.claims() {
//!     println!("whoever has the store can recount that {claim}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: the parts of a [`Recovery`] (`entries`, `adapters`, `probe`, `risk`, `audit`), the `outcome`
//! derived from them, what must `agree`, the `leaf` of each entry and the root over them, the `proof` that log and root
//! hold what is said, the `statement`, the `envelope`, [`Certificate::verify`], and the file of entries (`leaf_lines`).
//!
//! Source: RVU §3.8 and Theorem 4; in-toto Attestation Framework v1; DSSE v1; RFC 8785; docs/design.md §8.

mod adapters;
mod agree;
mod audit;
mod certificate;
mod claim;
mod entries;
mod envelope;
mod error;
mod format;
mod leaf;
mod leaf_lines;
mod manifest;
mod outcome;
mod ppm;
mod probe;
mod proof;
mod recovery;
mod risk;
mod statement;

pub use adapters::{AdapterAttestation, Evicted, EvictionMethod, Fused, Retained, StillLoaded};
pub use agree::Disagreement;
pub use audit::{Audit, IncludedRecord, LedgerBreak, LoggedStep, SignedCheckpoint};
pub use certificate::{Expectations, Unverified, Verified, certify};
pub use claim::Claim;
pub use entries::{
    ActionCount, ActionTotals, CertifiedClosure, ClosureMode, IrreversibleEffect, ManifestEntry,
    MemberAction, MemberKind, Residual, RuntimeRecovery, SparedMember, Unfinished,
};
pub use envelope::{key_id, signing_bytes};
pub use error::{CertificateError, CheckpointPosition, FileLayer, LineFault};
pub use format::{
    MAX_BYTES, MAX_LINE_BYTES, MAX_LISTED, PAYLOAD_TYPE, PREDICATE_TYPE, PREDICATE_TYPE_V2,
    STATEMENT_TYPE,
};
pub use leaf::{CertifiedEntries, EntryProof};
pub use leaf_lines::{EntryReader, entry_lines};
pub use outcome::{CertificateOutcome, Missing, OutcomeReason, OutcomeState};
pub use ppm::{Ppm, PpmError};
pub use probe::{MembershipProbe, Probe, ProbeKind, ProbeRuns, ProbeScores, ProbeVerdict};
pub use recovery::Recovery;
pub use risk::{
    EvidenceKind, MeasuredInfluence, MemberRisk, RiskMode, RiskScores, RiskTiers, RiskWeights,
};
pub use statement::Certificate;
