//! Signing a certificate, and verifying one.

use custody_log::{Checkpoint, Digest, IncidentId, StoreId};
use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::agree::Disagreement;
use crate::claim::{self, Claim};
use crate::error::CertificateError;
use crate::outcome::CertificateOutcome;
use crate::recovery::Recovery;
use crate::statement::Certificate;
use crate::{agree, envelope, proof, statement};

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
    /// SHA-256 of the statement.
    statement: Digest,
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
/// Where a recovery has more than [`MAX_LISTED`](crate::MAX_LISTED) entries, not all of them stand inside:
/// [`entry_lines`](crate::entry_lines) gives all of them. Checks all that a reader will, so that nothing is signed that
/// would be refused.
///
/// # Errors
/// [`CertificateError`] naming the first thing that does not hold.
///
/// Source: RVU §3.8; docs/design.md §8.
pub fn certify(recovery: &Recovery, owner: &SigningKey) -> Result<Vec<u8>, CertificateError> {
    agree::check(recovery, true)?;
    proof::verify(recovery, &owner.verifying_key())?;
    envelope::seal(&statement::write(recovery)?, owner)
}

impl Certificate {
    /// Reads a file and checks everything that can be checked without the store.
    ///
    /// Nothing of the payload is read before its signature held. Where the entries are not all inside, what is stated
    /// of the others is the owner's word until they are [given](crate::EntryReader): that there are as many, what was
    /// done to each, and that the counts are theirs. The work is linear in the file, which has at most
    /// [`MAX_BYTES`](crate::MAX_BYTES).
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
        agree::check(&certificate.recovery, certificate.is_whole())?;
        if certificate.outcome != CertificateOutcome::of(&certificate.recovery) {
            return Err(Disagreement::Outcome.into());
        }
        let statement = Digest::of(&payload);
        proof::entries(&certificate.recovery, &certificate.entries)?;
        let (before, after) = proof::verify(&certificate.recovery, owner)?;
        expected.check(&certificate.recovery)?;
        Ok(Verified { certificate, statement, digest: Digest::of(file), before, after })
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

    /// The [name](crate::key_id) of the key that it says it is signed with.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }
}

impl Verified {
    /// What it says.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Completes a certificate with entries from elsewhere than a file. `recovery` has every list in full, and in all
    /// else it is that of this certificate.
    ///
    /// # Errors
    /// [`CertificateError::OfEntries`] when the certificate is not the one that they make.
    pub fn completed(mut self, recovery: Recovery) -> Result<Self, CertificateError> {
        agree::check(&recovery, true).map_err(CertificateError::OfEntries)?;
        proof::within(&recovery, &self.after).map_err(CertificateError::OfEntries)?;
        let is_same = if self.certificate.is_whole() {
            recovery == self.certificate.recovery
        } else {
            // Root, counts and what stands inside all follow from the entries.
            Digest::of(statement::write(&recovery)?.as_bytes()) == self.statement
        };
        if !is_same {
            return Err(CertificateError::OfEntries(Disagreement::Entries));
        }
        self.certificate.recovery = recovery;
        Ok(self)
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
        claim::claims(&self.certificate, self.digest, [&self.before, &self.after])
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
