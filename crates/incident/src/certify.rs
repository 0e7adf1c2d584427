//! Certifying: the plan, the actions that are done and those that are left, read from the record and signed by the
//! owner.
//!
//! Nothing comes from the memory of the program: whether an entry is purged, in quarantine or flagged is looked up on
//! the record at the moment of signing.

use custody_certificate::{
    Audit, Certificate, CertifiedClosure, ClosureMode, EvidenceKind, Expectations, IncludedRecord,
    IrreversibleEffect, LedgerBreak, LoggedStep, ManifestEntry, MeasuredInfluence, MemberAction,
    MemberRisk, MembershipProbe, Ppm, Recovery, Residual, RiskMode, RiskScores, RiskTiers,
    RiskWeights, RuntimeRecovery, SignedCheckpoint, SparedMember, Unfinished, Verified,
};
use custody_kernel::evidence::{self, Finding};
use custody_kernel::kind::EntryKind;
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Answer, Record, Request};
use custody_kernel::score::Score;
use custody_kernel::state::{IncidentState, Mark};
use custody_kernel::step::RecoveryStep;
use custody_keys::HumanKey;
use custody_log::{
    CertificateId, Checkpoint, Digest, IncidentId, Seq, Timestamp, consistency_proof,
    inclusion_proof, key_name, origin,
};
use custody_planner::{
    ActionReason, AdapterInfluence, Counting, Plan, PlanBasis, PlannedEntry, RELATIVE_ERROR,
    RecoveryAction, RiskSettings, SparedEntry,
};
use custody_policy::policy::Policy;
use custody_runtime::clock::random;
use custody_runtime::store::{Receipt, StoreError, Tampering, View, content_of};
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::IncidentError;
use crate::act::recorded_plan;
use crate::adapters::adapters_of;
use crate::arrival::arrival;
use crate::at_rest::AtRest;
use crate::attest::{attest, left_loaded};
use crate::certified::{member_action, member_kind};
use crate::gather::known;
use crate::store::Incidents;

/// The report of the probes after a plan was applied, as it is recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeReport {
    /// The residue in the files of the store.
    pub at_rest: AtRest,
    /// The probes for destroyed texts.
    pub membership: MembershipProbe,
}

impl Incidents<'_> {
    /// Signs a certificate of the recovery from an incident and records it. Returns the file, and what it states.
    pub(crate) fn certify(
        &self,
        owner: &Authority,
        key: &HumanKey,
        id: IncidentId,
        program: &str,
    ) -> Result<(Vec<u8>, Recovery, Receipt), IncidentError> {
        let signer = self.store.keys().log_key().map_err(StoreError::from)?;
        let now = self.store.clock().now();
        let recovery = self.store.look(|view| {
            let certifying = Certifying { view, id };
            certifying.recovery(program, &signer, now)
        })?;
        let file = custody_certificate::certify(&recovery, key.signing_key())?;
        let certificate = Digest::of(&file);
        let receipt = self.take(owner, id, RecoveryStep::Certify { certificate }, None)?;
        Ok((file, recovery, receipt))
    }

    /// The recovery that `stated` is a part of: with every entry, as the store has them now. `None` where the record
    /// holds no such plan.
    ///
    /// # Errors
    /// [`IncidentError::UnknownIncident`], or when the store cannot be read.
    pub fn recount_entries(&self, stated: &Recovery) -> Result<Option<Recovery>, IncidentError> {
        self.store.look(|view| {
            let reached = Certifying { view, id: stated.incident }.recounted(stated)?;
            Ok(reached.map(|reached| Recovery {
                runtime_recovery: reached.runtime,
                risk_scores: reached.risk_scores,
                spared: reached.spared,
                residual: reached.residual,
                ..stated.clone()
            }))
        })
    }

    /// How many records there were when the plan was made that `stated` names as applied. `None` where the record holds
    /// no such plan.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn basis_of_plan(&self, stated: &Recovery) -> Result<Option<u64>, IncidentError> {
        self.store.look(|view| {
            let certifying = Certifying { view, id: stated.incident };
            let Some(applied) = certifying.applied_by(stated)? else { return Ok(None) };
            let plan = match recorded_plan(view, stated.incident, applied) {
                // Of a format that is not read any more, say.
                Err(IncidentError::Unreadable { .. }) => return Ok(None),
                plan => plan?,
            };
            let PlanBasis { size, root } = plan.basis;
            Ok((view.root_at(size) == Some(root.0)).then_some(size))
        })
    }

    /// Verifies a certificate with the key of this store's owner.
    ///
    /// # Errors
    /// [`IncidentError::Certificate`] with the first check that fails.
    pub fn verify_certificate(
        &self,
        file: &[u8],
        expected: Expectations,
    ) -> Result<Verified, IncidentError> {
        let (store, owner) = self
            .store
            .state(|state| (state.store(), state.owner().and_then(|owner| owner.public_key)))?;
        let owner = owner.and_then(|key| VerifyingKey::from_bytes(&key.0).ok());
        let owner = owner.ok_or(Tampering::LogKey)?;
        let expected = Expectations { store: expected.store.or(store), ..expected };
        Ok(Certificate::verify(file, &owner, expected)?)
    }
}

/// What a certificate states entry by entry.
struct Reached {
    runtime: RuntimeRecovery,
    risk_scores: RiskScores,
    spared: Vec<SparedMember>,
    residual: Residual,
}

/// A view of the store from which a recovery is certified.
struct Certifying<'a> {
    view: View<'a>,
    id: IncidentId,
}

impl Certifying<'_> {
    fn recovery(
        &self,
        program: &str,
        signer: &SigningKey,
        now: Timestamp,
    ) -> Result<Recovery, IncidentError> {
        let state = self.view.state();
        let incident = known(state, self.id)?;
        let applied = incident.applied.ok_or(IncidentError::NotApplied(self.id))?;
        let plan = recorded_plan(self.view, self.id, applied.record)?;
        let report = incident.probed.map(|probed| self.report(probed)).transpose()?;
        let reached = self.reached(&plan, report.as_ref())?;
        let store = state.store().ok_or(Tampering::LogKey)?;
        let policy = state.policy().map(|policy| policy.version);
        let scores = plan.entries.iter().map(|planned| score(planned.score));
        Ok(Recovery {
            id: CertificateId::from_random(random()),
            time: now.max(state.now()),
            incident: self.id,
            store,
            program: program.to_owned(),
            policy_digest: policy.unwrap_or_else(|| Policy::standard().version()),
            plan_digest: applied.plan,
            adapter_attestation: attest(state, &reached.runtime.manifest_entries, scores),
            runtime_recovery: reached.runtime,
            membership_probe: membership(report),
            risk_scores: reached.risk_scores,
            spared: reached.spared,
            residual: reached.residual,
            audit: self.audit(incident, signer)?,
            previous: state.certificates().last().copied(),
        })
    }

    /// What is stated entry by entry: what the plan orders, and what is done of it.
    fn reached(&self, plan: &Plan, report: Option<&ProbeReport>) -> Result<Reached, IncidentError> {
        let state = self.view.state();
        let residue = report.map(|report| residue(&report.at_rest)).unwrap_or_default();
        let unapplied = self.unapplied(plan)?;
        let mut rows = Vec::with_capacity(plan.entries.len());
        let mut residual = Residual::default();
        for planned in &plan.entries {
            let record = self.view.record(planned.entry)?;
            let adapters = adapters_of(&record);
            let is_unapplied = planned.action != RecoveryAction::None
                && unapplied.is_some_and(|first| first <= planned.entry);
            let left = is_unapplied.then_some("the plan is not applied to it yet");
            let left = left.or_else(|| self.left_to_do(planned, &residue)).or_else(|| {
                let is_evicted = planned.action == RecoveryAction::Evict;
                is_evicted.then(|| left_loaded(state, &adapters)).flatten()
            });
            let row = manifest_row(planned, &record, adapters, left.is_none());
            if row.done && row.action == MemberAction::Quarantine {
                residual.quarantined.push(row.entry);
            }
            if let Some(why) = left {
                let (action, entry) = (row.action, row.entry);
                residual.unfinished.push(Unfinished { action, entry, why: why.to_owned() });
            }
            rows.push(row);
        }
        for effect in &plan.irreversible {
            let record = self.view.record(effect.entry)?;
            residual.effects.push(effect_row(&effect.tool, &record));
        }
        Ok(Reached {
            runtime: RuntimeRecovery::new(closure(plan), rows),
            risk_scores: risk_scores(plan),
            spared: plan.spared.iter().map(spared_row).collect(),
            residual,
        })
    }

    /// What is stated entry by entry, as the store has it now, of the plan and the report that `stated` names. `None`
    /// where it names no plan of its incident.
    fn recounted(&self, stated: &Recovery) -> Result<Option<Reached>, IncidentError> {
        let Some(applied) = self.applied_by(stated)? else { return Ok(None) };
        let plan = recorded_plan(self.view, self.id, applied)?;
        let probed = known(self.view.state(), self.id)?.probed;
        let mut records = stated.audit.records.iter();
        let named = records.find(|record| record.step == LoggedStep::Probed);
        let report = match (named, probed) {
            (Some(named), Some(probed)) if named.seq == probed => Some(self.report(probed)?),
            _ => None,
        };
        self.reached(&plan, report.as_ref()).map(Some)
    }

    /// The record of the plan that `stated` names as applied, if it is one.
    fn applied_by(&self, stated: &Recovery) -> Result<Option<Seq>, IncidentError> {
        let mut records = stated.audit.records.iter();
        let applied = records.find(|record| record.step == LoggedStep::Applied);
        let Some(applied) = applied.filter(|applied| applied.seq.0 < self.view.len()) else {
            return Ok(None);
        };
        let record = self.view.record(applied.seq)?;
        let is_plan = matches!(&record.request, Request::Admin(AdminRequest::Recover(recover))
            if recover.incident == self.id && matches!(recover.step, RecoveryStep::Apply(_)));
        Ok((is_plan && record.answer == Answer::Done).then_some(applied.seq))
    }

    fn report(&self, probed: Seq) -> Result<ProbeReport, IncidentError> {
        let record = self.view.record(probed)?;
        let content = arrival(&record).ok_or(StoreError::NoContent(probed))?;
        let bytes = self.view.any_content(content)?.unwrap_or_default();
        let report = serde_json::from_slice(&bytes);
        report.map_err(|cause| IncidentError::unreadable("probe report", self.id, &cause))
    }

    /// The first entry to which `plan` is not applied yet, where that is being applied.
    fn unapplied(&self, plan: &Plan) -> Result<Option<Seq>, IncidentError> {
        let incident = known(self.view.state(), self.id)?;
        if incident.left == 0 || incident.applied.map(|applied| applied.plan) != plan.digest().ok()
        {
            return Ok(None);
        }
        let left = usize::try_from(incident.left).unwrap_or(usize::MAX);
        let actions = plan.entries.iter().rev();
        let mut actions = actions.filter(|planned| planned.action != RecoveryAction::None);
        Ok(actions.nth(left - 1).map(|planned| planned.entry))
    }

    /// Why the action for an entry is not done, if it is not.
    fn left_to_do(&self, planned: &PlannedEntry, residue: &[Seq]) -> Option<&'static str> {
        let state = self.view.state();
        let mark = state.standing(planned.entry).and_then(|standing| standing.mark_of(self.id));
        match (planned.action, mark) {
            (RecoveryAction::None, _) => None,
            (RecoveryAction::Purge | RecoveryAction::Evict, Some(Mark::Purged)) => residue
                .binary_search(&planned.entry)
                .is_ok()
                .then_some("its bytes are still in a file of the store"),
            (RecoveryAction::Quarantine, Some(Mark::Quarantined | Mark::Purged))
            | (RecoveryAction::Flag, Some(_)) => None,
            (RecoveryAction::Quarantine, Some(Mark::Flagged)) => Some("it was restored"),
            (RecoveryAction::Flag | RecoveryAction::Quarantine, None)
            | (RecoveryAction::Purge | RecoveryAction::Evict, _) => Some("it is not done"),
        }
    }

    fn audit(&self, incident: &IncidentState, signer: &SigningKey) -> Result<Audit, IncidentError> {
        let (state, leaves, size) = (self.view.state(), self.view.leaves(), self.view.len());
        let opened = incident.opened.0;
        let steps = [
            (LoggedStep::Opened, Some(incident.opened)),
            (LoggedStep::Contained, incident.contained),
            (LoggedStep::Applied, incident.applied.map(|applied| applied.record)),
            (LoggedStep::Probed, incident.probed),
        ];
        let mut records = Vec::new();
        for (step, seq) in steps {
            let Some(seq) = seq else { continue };
            let leaf = usize::try_from(seq.0).ok().and_then(|at| leaves.get(at));
            let proof = inclusion_proof(leaves, seq.0, size);
            let (leaf, proof) = leaf.zip(proof).ok_or(IncidentError::NoCheckpoint(self.id))?;
            let inclusion = proof.into_iter().map(Digest).collect();
            records.push(IncludedRecord { inclusion, leaf: Digest(*leaf), seq, step });
        }
        records.sort_by_key(|record| record.seq);
        let consistency =
            consistency_proof(leaves, opened, size).ok_or(IncidentError::NoCheckpoint(self.id))?;
        Ok(Audit {
            after: self.signed(size, signer)?,
            before: self.signed(opened, signer)?,
            breaks: self.breaks(state.breaks())?,
            consistency: consistency.into_iter().map(Digest).collect(),
            records,
        })
    }

    /// A checkpoint of the log's first `size` records, signed now. A checkpoint of an earlier size can be signed at
    /// any time, because the records are the same.
    fn signed(&self, size: u64, signer: &SigningKey) -> Result<SignedCheckpoint, IncidentError> {
        self.checkpoint(size, signer).ok_or(IncidentError::NoCheckpoint(self.id))
    }

    fn checkpoint(&self, size: u64, signer: &SigningKey) -> Option<SignedCheckpoint> {
        let state = self.view.state();
        let log_key = state.log_key().cloned()?;
        let root = self.view.root_at(size)?;
        let note = Checkpoint { origin: origin(state.store()?), size, root };
        Some(SignedCheckpoint { log_key, note: note.sign(signer, &key_name()) })
    }

    fn breaks(&self, breaks: &[Seq]) -> Result<Vec<LedgerBreak>, IncidentError> {
        let mut found = Vec::new();
        for seq in breaks {
            let record = self.view.record(*seq)?;
            if let Request::Admin(AdminRequest::AdoptLedger { reason, head_size }) = record.request
            {
                found.push(LedgerBreak { at_ms: record.at, head_size, reason, seq: *seq });
            }
        }
        Ok(found)
    }
}

/// The entries of which a file still contains a part, ascending.
fn residue(at_rest: &AtRest) -> Vec<Seq> {
    let mut entries: Vec<Seq> =
        at_rest.residue.iter().flat_map(|residue| residue.entries.iter().copied()).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn membership(report: Option<ProbeReport>) -> MembershipProbe {
    match report {
        Some(report) => report.membership,
        None => MembershipProbe::not_run("no probe was run after the plan was applied"),
    }
}

fn closure(plan: &Plan) -> CertifiedClosure {
    let mut seeds: Vec<Seq> = plan.findings.iter().map(|finding| finding.entry).collect();
    seeds.dedup();
    CertifiedClosure {
        frontier: 0,
        members: plan.entries.iter().map(|planned| planned.entry).collect(),
        mode: ClosureMode::Causal,
        possible_origins: plan.possible_origins.clone(),
        seeds,
    }
}

fn manifest_row(
    planned: &PlannedEntry,
    record: &Record,
    adapters: Vec<Digest>,
    done: bool,
) -> ManifestEntry {
    ManifestEntry {
        action: member_action(planned.action),
        adapters,
        commitment: content_of(record).map(|content| content.commitment),
        done,
        entry: planned.entry,
        kind: member_kind(EntryKind::of(&record.request)),
    }
}

fn effect_row(tool: &str, record: &Record) -> IrreversibleEffect {
    let arguments = content_of(record).map(|content| content.commitment);
    let summary = "a call that changes something outside ran".to_owned();
    IrreversibleEffect { arguments, entry: record.seq, summary, tool: tool.to_owned() }
}

fn spared_row(spared: &SparedEntry) -> SparedMember {
    SparedMember { covered_by: spared.covered_by.clone(), entry: spared.entry }
}

fn risk_scores(plan: &Plan) -> RiskScores {
    let share_error_ppm = match plan.shares {
        Counting::Exact => Ppm::ZERO,
        Counting::Estimated => ppm(RELATIVE_ERROR),
    };
    let RiskSettings { contaminated, influence, share, flag, quarantine, purge, evict } =
        RiskSettings::from(plan.risk);
    RiskScores {
        entries: plan.entries.iter().map(|planned| risk_row(planned, &plan.findings)).collect(),
        mode: RiskMode::Default,
        share_error_ppm,
        tiers: RiskTiers {
            evict_ppm: ppm(evict),
            flag_ppm: ppm(flag),
            purge_ppm: ppm(purge),
            quarantine_ppm: ppm(quarantine),
        },
        weights: RiskWeights {
            contamination_ppm: ppm(contaminated),
            influence_ppm: ppm(influence),
            share_ppm: ppm(share),
        },
    }
}

fn risk_row(planned: &PlannedEntry, findings: &[Finding]) -> MemberRisk {
    let influence = match planned.terms.influence {
        AdapterInfluence::NoAdapter => None,
        AdapterInfluence::Unknown => Some(MeasuredInfluence { measured: false, ppm: Ppm::ONE }),
        AdapterInfluence::Measured(of) => {
            Some(MeasuredInfluence { measured: true, ppm: score(of) })
        }
    };
    MemberRisk {
        contamination_ppm: score(planned.terms.contaminated),
        entry: planned.entry,
        evidence: strongest(planned.entry, findings),
        floor: floor(planned.reason),
        influence,
        score_ppm: score(planned.score),
        share_ppm: score(planned.terms.share),
    }
}

/// The mildest action that the reason allows.
const fn floor(reason: ActionReason) -> MemberAction {
    match reason {
        ActionReason::AlreadyPurged => MemberAction::None,
        ActionReason::BadWeights => MemberAction::Evict,
        ActionReason::DirectEvidence => MemberAction::Purge,
        ActionReason::OlderTrusted | ActionReason::Derived | ActionReason::Held => {
            MemberAction::Quarantine
        }
        ActionReason::Spared | ActionReason::OnlySimilar | ActionReason::Score => {
            MemberAction::Flag
        }
    }
}

/// The strongest evidence: what a person stated precedes what a model estimated.
fn strongest(entry: Seq, findings: &[Finding]) -> EvidenceKind {
    let from = findings.partition_point(|finding| finding.entry < entry);
    let of_entry = findings.iter().skip(from).take_while(|finding| finding.entry == entry);
    match of_entry.map(|finding| finding.by).min() {
        None => EvidenceKind::None,
        Some(evidence::Evidence::Id) => EvidenceKind::Id,
        Some(evidence::Evidence::Hash) => EvidenceKind::Hash,
        Some(evidence::Evidence::Text) => EvidenceKind::Text,
        Some(evidence::Evidence::Pattern) => EvidenceKind::Pattern,
        Some(evidence::Evidence::Origin) => EvidenceKind::Origin,
        Some(evidence::Evidence::Similarity(_)) => EvidenceKind::Similarity,
    }
}

fn score(score: Score) -> Ppm {
    ppm(score.value())
}

fn ppm(share: f64) -> Ppm {
    Ppm::nearest(share).unwrap_or(Ppm::ONE)
}
