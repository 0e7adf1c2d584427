//! What verifying a certificate checks, in order: which held, which did not, which were not reached.

use custody_certificate::{CertificateError, Disagreement, FileLayer};
use serde::Serialize;

/// One step of verifying. Each is tried only when those before it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Check {
    Envelope,
    Signature,
    Statement,
    Agreement,
    Log,
    Expected,
    Entries,
}

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckResult {
    Held,
    Failed,
    NotReached,
    /// Nothing was expected of it.
    NotAsked,
    /// What it would be checked with was not there.
    NotGiven,
}

impl Check {
    pub(super) const ALL: [Self; 7] = [
        Self::Envelope,
        Self::Signature,
        Self::Statement,
        Self::Agreement,
        Self::Log,
        Self::Expected,
        Self::Entries,
    ];

    /// What is established when the check held.
    pub(super) const fn says(self) -> &'static str {
        match self {
            Self::Envelope => "one canonical DSSE envelope that names the owner's key",
            Self::Signature => "signed by the owner, and not changed since",
            Self::Statement => "a canonical statement of ours, with the digest of its predicate",
            Self::Agreement => "its parts agree, and its outcome follows from them",
            Self::Log => "the log only grew, and holds the recovery's records",
            Self::Expected => {
                "it is of the incident and store that were named, and follows what was known"
            }
            Self::Entries => "every entry is under its root, and its counts and lists are theirs",
        }
    }

    /// Its result, if verifying ended with `refusal`.
    pub(super) fn result(self, refusal: Option<&CertificateError>) -> CheckResult {
        match refusal.map(Self::of) {
            None => CheckResult::Held,
            Some(failed) if self < failed => CheckResult::Held,
            Some(failed) if self == failed => CheckResult::Failed,
            Some(_) => CheckResult::NotReached,
        }
    }

    /// The check that refuses so.
    fn of(refusal: &CertificateError) -> Self {
        match refusal {
            CertificateError::TooLarge { .. }
            | CertificateError::Truncated
            | CertificateError::PayloadType { .. }
            | CertificateError::Signatures { .. }
            | CertificateError::OtherKey { .. }
            | CertificateError::Base64 { .. } => Self::Envelope,
            CertificateError::Malformed { part, .. } | CertificateError::NotCanonical { part } => {
                match part {
                    FileLayer::Envelope => Self::Envelope,
                    FileLayer::Statement => Self::Statement,
                }
            }
            CertificateError::Signature { .. } => Self::Signature,
            CertificateError::StatementType { .. }
            | CertificateError::PredicateType { .. }
            | CertificateError::Version { .. }
            | CertificateError::ManifestDigest
            | CertificateError::Disagreement(Disagreement::Subject) => Self::Statement,
            CertificateError::Disagreement(
                Disagreement::BeyondLog { .. }
                | Disagreement::RecordBefore { .. }
                | Disagreement::Number { field: "size" },
            )
            | CertificateError::LogKey { .. }
            | CertificateError::Checkpoint { .. }
            | CertificateError::ForeignCheckpoint { .. }
            | CertificateError::Consistency(_)
            | CertificateError::Inclusion { .. } => Self::Log,
            CertificateError::Disagreement(_) | CertificateError::EntryInclusion { .. } => {
                Self::Agreement
            }
            CertificateError::EntryLine { .. }
            | CertificateError::EntriesRoot { .. }
            | CertificateError::OfEntries(_) => Self::Entries,
            CertificateError::OtherIncident { .. }
            | CertificateError::OtherStore { .. }
            | CertificateError::NotNext { .. } => Self::Expected,
        }
    }
}
