//! The in-toto Statement: how a certificate is written down, and read back.
//!
//! Every struct of a certificate declares its fields in the order of RFC 8785 and holds only text, whole numbers below
//! 2⁵³, booleans, lists and null. Its derived JSON is therefore its canonical form, at the speed of plain serde.

use std::borrow::Cow;

use custody_log::{CertificateId, Digest, IncidentId, StoreId, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use crate::adapters::AdapterAttestation;
use crate::agree::Disagreement;
use crate::audit::Audit;
use crate::entries::{Residual, RuntimeRecovery, SparedMember};
use crate::error::{CertificateError, FileLayer};
use crate::format::{PREDICATE_TYPE, PREDICATE_TYPE_V2, STATEMENT_TYPE};
use crate::leaf::{self, CertifiedEntries};
use crate::manifest;
use crate::outcome::CertificateOutcome;
use crate::probe::MembershipProbe;
use crate::recovery::Recovery;
use crate::risk::RiskScores;

/// A recovery with what is derived from it: the predicate of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// What is stated. Its lists are whole where [`is_whole`](Certificate::is_whole) holds; else they have what stands
    /// inside the certificate.
    pub recovery: Recovery,
    /// The root over all entries, and how many there are.
    pub entries: CertifiedEntries,
    /// Whether the recovery is complete, and what is missing if it is not.
    pub outcome: CertificateOutcome,
    /// The paper's own digest: SHA-256 over the predicate without this field, as Python's `json.dumps` writes it with
    /// sorted keys. It detects accidental changes only; anybody can compute it.
    pub manifest_digest: Digest,
}

impl Certificate {
    /// Whether every entry under the root is listed.
    pub fn is_whole(&self) -> bool {
        leaf::count(&self.recovery) == self.entries.leaves()
    }
}

/// The version of the predicate. The second, which is the paper's, had no root over its entries.
const VERSION: u64 = 3;

#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement<'a> {
    #[serde(rename = "_type")]
    kind: Cow<'a, str>,
    predicate: Predicate<'a>,
    #[serde(rename = "predicateType")]
    predicate_type: Cow<'a, str>,
    subject: Vec<Subject>,
}

/// Only so much of a statement as tells what it is.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    digest: SubjectDigest,
    name: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectDigest {
    sha256: Digest,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Predicate<'a> {
    adapter_attestation: Cow<'a, AdapterAttestation>,
    audit: Cow<'a, Audit>,
    certificate_id: CertificateId,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    entries: Option<CertifiedEntries>,
    incident: IncidentId,
    manifest_digest: Digest,
    membership_probe: Cow<'a, MembershipProbe>,
    outcome: CertificateOutcome,
    plan_digest: Digest,
    policy_digest: Digest,
    previous: Option<Digest>,
    program: Cow<'a, str>,
    residual: Cow<'a, Residual>,
    risk_scores: Cow<'a, RiskScores>,
    runtime_recovery: Cow<'a, RuntimeRecovery>,
    spared: Cow<'a, [SparedMember]>,
    store: StoreId,
    time_ms: Timestamp,
    version: u64,
}

/// A field that only the second version leaves out, and none writes as null.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The statement of a whole recovery, in canonical form.
pub(crate) fn write(recovery: &Recovery) -> Result<String, CertificateError> {
    let entries = leaf::certified(recovery).map_err(malformed)?;
    let inside = leaf::inside(recovery);
    let statement = Statement {
        kind: STATEMENT_TYPE.into(),
        predicate: Predicate::of(&inside, entries),
        predicate_type: PREDICATE_TYPE.into(),
        subject: vec![Subject::of(recovery)],
    };
    let mut text = serde_json::to_string(&statement).map_err(malformed)?;
    // The digest covers all the rest, so it is put in last.
    let (place, digest) = manifest::digest(&text).ok_or(CertificateError::ManifestDigest)?;
    text.replace_range(place, &digest.to_string());
    Ok(text)
}

/// Reads a payload that must be exactly what [`write`] writes; whether its parts agree is checked elsewhere.
pub(crate) fn read(payload: &[u8]) -> Result<Certificate, CertificateError> {
    let text = std::str::from_utf8(payload)
        .map_err(|cause| malformed(serde_json::Error::custom(cause)))?;
    let statement = match serde_json::from_str::<Statement<'static>>(text) {
        Ok(statement) => statement,
        Err(cause) => return Err(refusal(text, cause)),
    };
    let version = check_types(&statement.kind, &statement.predicate_type)?;
    let mut canonical = Vec::with_capacity(text.len());
    serde_json::to_writer(&mut canonical, &statement).map_err(malformed)?;
    if canonical != payload {
        return Err(CertificateError::NotCanonical { part: FileLayer::Statement });
    }
    let Predicate { version: found, ref entries, .. } = statement.predicate;
    if found != version {
        return Err(CertificateError::Version { found });
    }
    if entries.is_some() != (version == VERSION) {
        let cause = "`entries` belong to version 3, and only to it";
        return Err(malformed(serde_json::Error::custom(cause)));
    }
    let digest = manifest::digest(text).map(|(_, digest)| digest);
    if digest != Some(statement.predicate.manifest_digest) {
        return Err(CertificateError::ManifestDigest);
    }
    let certificate = statement.predicate.into_certificate()?;
    if statement.subject != [Subject::of(&certificate.recovery)] {
        return Err(Disagreement::Subject.into());
    }
    Ok(certificate)
}

/// Why a payload is no statement of ours: of another type, or not of its own.
fn refusal(text: &str, cause: serde_json::Error) -> CertificateError {
    let types = serde_json::from_str::<Head>(text);
    match types.map(|head| check_types(&head.kind, &head.predicate_type)) {
        Ok(Err(other_type)) => other_type,
        Ok(Ok(_)) | Err(_) => malformed(cause),
    }
}

/// The version of the predicate that a statement of these types has.
fn check_types(kind: &str, predicate_type: &str) -> Result<u64, CertificateError> {
    if kind != STATEMENT_TYPE {
        return Err(CertificateError::StatementType { found: kind.to_owned() });
    }
    match predicate_type {
        PREDICATE_TYPE => Ok(VERSION),
        PREDICATE_TYPE_V2 => Ok(2),
        _ => Err(CertificateError::PredicateType { found: predicate_type.to_owned() }),
    }
}

fn malformed(cause: serde_json::Error) -> CertificateError {
    CertificateError::Malformed { part: FileLayer::Statement, cause }
}

impl Subject {
    /// The incident, and the checkpoint after it: a file that a reader may have from elsewhere.
    fn of(recovery: &Recovery) -> Self {
        let sha256 = Digest::of(recovery.audit.after.note.as_bytes());
        Self { digest: SubjectDigest { sha256 }, name: recovery.incident.to_string() }
    }
}

impl<'a> Predicate<'a> {
    fn of(recovery: &'a Recovery, entries: CertifiedEntries) -> Self {
        Self {
            adapter_attestation: Cow::Borrowed(&recovery.adapter_attestation),
            audit: Cow::Borrowed(&recovery.audit),
            certificate_id: recovery.id,
            entries: Some(entries),
            incident: recovery.incident,
            manifest_digest: Digest([0; 32]),
            membership_probe: Cow::Borrowed(&recovery.membership_probe),
            outcome: CertificateOutcome::of(recovery),
            plan_digest: recovery.plan_digest,
            policy_digest: recovery.policy_digest,
            previous: recovery.previous,
            program: Cow::Borrowed(&recovery.program),
            residual: Cow::Borrowed(&recovery.residual),
            risk_scores: Cow::Borrowed(&recovery.risk_scores),
            runtime_recovery: Cow::Borrowed(&recovery.runtime_recovery),
            spared: Cow::Borrowed(&recovery.spared),
            store: recovery.store,
            time_ms: recovery.time,
            version: VERSION,
        }
    }

    fn into_certificate(self) -> Result<Certificate, CertificateError> {
        let recovery = Recovery {
            id: self.certificate_id,
            time: self.time_ms,
            incident: self.incident,
            store: self.store,
            program: self.program.into_owned(),
            policy_digest: self.policy_digest,
            plan_digest: self.plan_digest,
            runtime_recovery: self.runtime_recovery.into_owned(),
            adapter_attestation: self.adapter_attestation.into_owned(),
            membership_probe: self.membership_probe.into_owned(),
            risk_scores: self.risk_scores.into_owned(),
            spared: self.spared.into_owned(),
            residual: self.residual.into_owned(),
            audit: self.audit.into_owned(),
            previous: self.previous,
        };
        let entries = match self.entries {
            Some(entries) => entries,
            // The second version lists every entry, so that the root follows.
            None => leaf::certified(&recovery).map_err(malformed)?,
        };
        let (outcome, manifest_digest) = (self.outcome, self.manifest_digest);
        Ok(Certificate { recovery, entries, outcome, manifest_digest })
    }
}
