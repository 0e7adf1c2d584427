//! What a certificate states, before it is written down.

use custody_log::{CertificateId, Digest, IncidentId, StoreId, Timestamp};

use crate::adapters::AdapterAttestation;
use crate::audit::Audit;
use crate::entries::{Residual, RuntimeRecovery, SparedMember};
use crate::probe::MembershipProbe;
use crate::risk::RiskScores;

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
    pub spared: Vec<SparedMember>,
    /// What is left.
    pub residual: Residual,
    /// The log before and after, with the proofs between.
    pub audit: Audit,
    /// SHA-256 of the file of the store's certificate before this one, which makes them a chain.
    pub previous: Option<Digest>,
}
