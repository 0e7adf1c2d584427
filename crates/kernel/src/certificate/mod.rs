//! Recovery certificates: what an incident reached, what was done about it and what is left, signed by the owner so
//! that a stranger can verify it with the file and a public key.
//!
//! The file is an in-toto Statement in a DSSE envelope with one Ed25519 signature, and its own canonical bytes: there
//! is one byte sequence for one certificate, and every other is refused. Counts, verdicts and the outcome are derived
//! from the lists beside them; one that disagrees is refused, when signing as when reading.
//!
//! In reading order: the parts ([`entries`], [`adapters`], [`probe`], [`risk`], [`log`]), the [`outcome`] derived from
//! them, what a reader can recount ([`claim`]); then, private, what must agree, the statement and the envelope.
//!
//! Source: RVU §3.8 and Theorem 4; in-toto Attestation Framework v1; DSSE v1; RFC 8785; docs/design.md §8.

pub mod entries;

pub mod adapters;

pub mod probe;

pub mod risk;

pub mod log;

pub mod ppm;

pub mod outcome;

pub mod claim;

mod agree;

mod statement;

mod manifest;

mod envelope;

mod error;

use ed25519_dalek::{SigningKey, VerifyingKey};

use self::adapters::AdapterAttestation;
use self::claim::Claim;
use self::entries::{Residual, RuntimeRecovery, Spared};
use self::log::Audit;
use self::outcome::Outcome;
use self::probe::MembershipProbe;
use self::risk::RiskScores;
use crate::audit::Checkpoint;
use crate::digest::Digest;
use crate::id::{CertificateId, IncidentId, StoreId, Timestamp};

pub use self::agree::Disagreement;
pub use self::envelope::{PAYLOAD_TYPE, key_id, signing_bytes};
pub use self::error::{CertificateError, Part, Which};
pub use self::statement::{PREDICATE_TYPE, STATEMENT_TYPE};

/// The largest file that is read or written, in bytes: enough for 100,000 entries.
pub const MAX_BYTES: usize = 64 << 20;

/// The largest integer that every reader of JSON tells from its neighbours: 2⁵³ − 1.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Everything that a certificate states, before anything is derived from it.
///
/// Every list is ascending, so that one recovery has one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The certificate's own id.
    pub id: CertificateId,
    /// When it was made.
    pub time: Timestamp,
    /// Which incident it is about.
    pub incident: IncidentId,
    /// In which store.
    pub store: StoreId,
    /// Name and version of the program that did it.
    pub program: String,
    /// SHA-256 of the policy in force.
    pub policy_digest: Digest,
    /// The digest of the plan that was applied.
    pub plan_digest: Digest,
    /// What was reached and what was done to it.
    pub runtime_recovery: RuntimeRecovery,
    /// What became of the adapters.
    pub adapter_attestation: AdapterAttestation,
    /// Whether what was removed comes back.
    pub membership_probe: MembershipProbe,
    /// Why each entry got its action.
    pub risk_scores: RiskScores,
    /// The members that were only flagged, because trusted entries already held all they say.
    pub spared: Vec<Spared>,
    /// What is left.
    pub residual: Residual,
    /// The log before and after, with the proofs between.
    pub audit: Audit,
    /// SHA-256 of the file of the store's certificate before this one, which makes them a chain.
    pub previous: Option<Digest>,
}

/// A recovery with what follows from it, as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// What is stated.
    pub recovery: Recovery,
    /// Whether that is a recovery.
    pub outcome: Outcome,
    /// The paper's own digest: SHA-256 over the predicate without this field, as Python's `json.dumps` writes it with
    /// sorted keys. It finds accidents; anybody can compute it, so it proves nothing.
    pub manifest_digest: Digest,
}

/// What a reader knows beforehand. What is `None` is not checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expectations {
    /// The incident that the certificate must be about.
    pub incident: Option<IncidentId>,
    /// The store that it must be of.
    pub store: Option<StoreId>,
    /// The [digest](Verified::digest) of the newest certificate known: this one must follow it.
    pub after: Option<Digest>,
}

/// A certificate that verified. Only [`Certificate::verify`] makes one.
#[derive(Debug, Clone)]
pub struct Verified {
    certificate: Certificate,
    digest: Digest,
    before: Checkpoint,
    after: Checkpoint,
}

/// What a file says of itself, and nobody checked. It shows what the file is about and proves nothing.
#[derive(Debug, Clone)]
pub struct Unverified {
    certificate: Certificate,
    payload: Vec<u8>,
    key_id: String,
}

/// Signs a certificate of `recovery` with the owner's key. Returns the file.
///
/// Checks all that a reader will, so that nothing is signed that would be refused.
///
/// # Errors
/// [`CertificateError`] naming the first thing that does not hold.
///
/// Source: RVU §3.8; docs/design.md §8.
pub fn certify(recovery: &Recovery, owner: &SigningKey) -> Result<Vec<u8>, CertificateError> {
    agree::check(recovery)?;
    log::verify(recovery, &owner.verifying_key())?;
    envelope::seal(&statement::write(recovery)?, owner)
}

impl Certificate {
    /// Reads a file and checks everything that can be checked without the store.
    ///
    /// Nothing of the payload is read before its signature held. The work is linear in the file, which has at most
    /// [`MAX_BYTES`].
    ///
    /// # Errors
    /// [`CertificateError`] naming the first thing that is wrong.
    ///
    /// Source: DSSE protocol v1; RVU Theorem 4; docs/design.md §8.
    pub fn verify(
        file: &[u8],
        owner: &VerifyingKey,
        expected: Expectations,
    ) -> Result<Verified, CertificateError> {
        let payload = envelope::open(file, owner)?;
        let certificate = statement::read(&payload)?;
        agree::check(&certificate.recovery)?;
        if certificate.outcome != Outcome::of(&certificate.recovery) {
            return Err(Disagreement::Outcome.into());
        }
        let (before, after) = log::verify(&certificate.recovery, owner)?;
        expected.check(&certificate.recovery)?;
        Ok(Verified { certificate, digest: Digest::of(file), before, after })
    }

    /// Reads a file without knowing who should have signed it, to show it or to take it apart. Only its form is
    /// checked: anybody can make a file that says anything.
    ///
    /// # Errors
    /// [`CertificateError`] when it has not the form of a certificate.
    pub fn read_unverified(file: &[u8]) -> Result<Unverified, CertificateError> {
        let sealed = envelope::Sealed::read(file)?;
        let payload = sealed.payload()?;
        let certificate = statement::read(&payload)?;
        Ok(Unverified { certificate, payload, key_id: sealed.key_id().to_owned() })
    }
}

impl Unverified {
    /// What it says.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The bytes of the in-toto Statement.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The [name](key_id) of the key that it says it is signed with.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }
}

impl Verified {
    /// What it says.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// SHA-256 of the file: what the next certificate names as its [`previous`](Recovery::previous).
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The log before the recovery.
    pub const fn before(&self) -> &Checkpoint {
        &self.before
    }

    /// The log after the recovery.
    pub const fn after(&self) -> &Checkpoint {
        &self.after
    }

    /// Everything that can be recounted where the store is at hand.
    pub fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        claim::claims(self)
    }
}

impl Expectations {
    fn check(&self, recovery: &Recovery) -> Result<(), CertificateError> {
        let (found, store) = (recovery.incident, recovery.store);
        if let Some(expected) = self.incident.filter(|expected| *expected != found) {
            return Err(CertificateError::OtherIncident { found, expected });
        }
        if let Some(expected) = self.store.filter(|expected| *expected != store) {
            return Err(CertificateError::OtherStore { found: store, expected });
        }
        match self.after {
            Some(expected) if recovery.previous != Some(expected) => {
                Err(CertificateError::NotNext { found: recovery.previous, expected })
            }
            _ => Ok(()),
        }
    }
}
