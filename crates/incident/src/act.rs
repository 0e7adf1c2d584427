//! Acting: open, contain, apply, restore. Each is one step on the record, decided by the kernel and committed together
//! with its effect on the store.

use std::io::{BufReader, BufWriter, Read as _};

use custody_kernel::evidence::Finding;
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Answer, Value};
use custody_kernel::step::{self, Indicated, Recover, RecoveryStep};
use custody_log::{Digest, EntryId, IncidentId, Seq};
use custody_planner::{Closure, Plan, RecoveryAction, WalkMode};
use custody_runtime::clock::random;
use custody_runtime::store::{Content, Receipt, StoreError, View};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use zeroize::Zeroizing;

use crate::IncidentError;
use crate::arrival::arrival;
use crate::gather::{self, Settings, known};
use crate::graph::graph_of;
use crate::indicator::Indicator;
use crate::store::Incidents;

/// The largest plan that is read, in bytes: about ten million entries.
const MAX_PLAN_BYTES: u64 = 2 << 30;

/// A plan that was applied, or that the kernel refused to apply.
#[derive(Debug)]
pub(crate) struct AppliedStep {
    /// The decision; that of the first application if this is a repetition.
    pub(crate) decision: EntryId,
    /// The plan that was applied.
    pub(crate) plan: Plan,
    /// The destroyed texts. Wiped when dropped; empty if the plan was applied before.
    pub(crate) destroyed: Vec<Destroyed>,
    /// Whether it was applied before.
    pub(crate) is_repeat: bool,
}

/// A text that was destroyed.
#[derive(Debug, Clone)]
pub struct Destroyed {
    /// The entry with which it arrived.
    pub entry: Seq,
    /// The bytes of the text.
    pub bytes: Zeroizing<Vec<u8>>,
}

impl Incidents<'_> {
    /// Opens an incident with the findings of `indicators`.
    pub(crate) fn open_incident(
        &self,
        owner: &Authority,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<(IncidentId, Receipt), IncidentError> {
        let id = IncidentId::from_random(random());
        let receipt = self.indicate(owner, id, indicators, findings, RecoveryStep::Open)?;
        Ok((id, receipt))
    }

    /// Adds the findings of further indicators.
    pub(crate) fn add_evidence(
        &self,
        owner: &Authority,
        id: IncidentId,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<Receipt, IncidentError> {
        self.indicate(owner, id, indicators, findings, RecoveryStep::Indicate)
    }

    fn indicate(
        &self,
        owner: &Authority,
        id: IncidentId,
        indicators: &[Indicator],
        findings: Vec<Finding>,
        step: fn(Indicated) -> RecoveryStep,
    ) -> Result<Receipt, IncidentError> {
        if findings.is_empty() {
            return Err(IncidentError::NothingFound);
        }
        let content = json(indicators, "indicators", id)?;
        let indicators = Value::New(content.commitment());
        self.take(owner, id, step(Indicated { indicators, findings }), Some(content))
    }

    /// Puts the closure of an incident in quarantine. Returns the decision and the number of entries.
    pub(crate) fn contain(
        &self,
        owner: &Authority,
        id: IncidentId,
    ) -> Result<(Receipt, u64), IncidentError> {
        let by = owner.clone();
        self.store
            .run(move |transaction| {
                let view = transaction.view();
                let incident = known(view.state(), id)?;
                let seeds: Vec<Seq> = incident.findings.iter().map(|found| found.entry).collect();
                let graph = graph_of(view)?;
                let closure = Closure::new(&graph, WalkMode::Causal, &seeds)?;
                let members: Vec<Seq> = closure.members().map(|member| member.entry).collect();
                let entries = members.len() as u64;
                let recover = Recover { incident: id, step: RecoveryStep::Contain { members } };
                let request = AdminRequest::Recover(Box::new(recover));
                let receipt = transaction.administer(by, request, None, Vec::new())?;
                Ok((receipt, entries))
            })
            .wait()
    }

    /// Applies the plan with this digest, if the record has not changed it. Returns the decision with it; `None` if
    /// the plan was applied before.
    pub(crate) fn apply_plan(
        &self,
        owner: &Authority,
        id: IncidentId,
        digest: Digest,
        settings: &Settings,
    ) -> Result<(Option<Receipt>, AppliedStep), IncidentError> {
        if let Some(done) = self.applied_before(id, digest)? {
            return Ok((None, done));
        }
        let (by, settings) = (owner.clone(), settings.clone());
        self.store
            .run(move |transaction| {
                let view = transaction.view();
                let plan = gather::plan(view, id, &settings)?;
                let now =
                    plan.digest().map_err(|cause| IncidentError::unreadable("plan", id, &cause))?;
                if now != digest {
                    return Err(IncidentError::Moved { now });
                }
                let destroyed = destroyed(view, id, &plan)?;
                let content = packed(&plan, id)?;
                let applied = as_step(&plan, digest, Value::New(content.commitment()));
                let recover = Recover { incident: id, step: RecoveryStep::Apply(applied) };
                let request = AdminRequest::Recover(Box::new(recover));
                let receipt = transaction.administer(by, request, Some(&content), Vec::new())?;
                let is_done = receipt.answer == Answer::Done;
                if is_done {
                    for text in &destroyed {
                        transaction.destroy(text.entry, &text.bytes)?;
                    }
                }
                let destroyed = if is_done { destroyed } else { Vec::new() };
                let decision = receipt.id;
                Ok((Some(receipt), AppliedStep { decision, plan, destroyed, is_repeat: false }))
            })
            .wait()
    }

    fn applied_before(
        &self,
        id: IncidentId,
        digest: Digest,
    ) -> Result<Option<AppliedStep>, IncidentError> {
        let applied =
            self.store.state(|state| known(state, id).map(|incident| incident.applied))??;
        match applied.filter(|applied| applied.plan == digest) {
            Some(_) => self.applied_step(id),
            None => Ok(None),
        }
    }

    /// The last applied plan, read from the record.
    pub(crate) fn applied_step(
        &self,
        id: IncidentId,
    ) -> Result<Option<AppliedStep>, IncidentError> {
        self.store.look(|view| {
            let Some(applied) = known(view.state(), id)?.applied else { return Ok(None) };
            let plan = recorded_plan(view, id, applied.record)?;
            let decision = view.record(applied.record)?.id;
            Ok(Some(AppliedStep { decision, plan, destroyed: Vec::new(), is_repeat: true }))
        })
    }

    /// The last applied plan of an incident.
    ///
    /// # Errors
    /// [`IncidentError::NotApplied`], or when it cannot be read.
    pub fn applied_plan(&self, id: IncidentId) -> Result<Plan, IncidentError> {
        self.store.look(|view| {
            let applied = known(view.state(), id)?.applied;
            let applied = applied.ok_or(IncidentError::NotApplied(id))?;
            recorded_plan(view, id, applied.record)
        })
    }

    /// The texts that applying `plan` would destroy.
    pub(crate) fn to_destroy(
        self,
        id: IncidentId,
        plan: &Plan,
    ) -> Result<Vec<Destroyed>, IncidentError> {
        self.store.look(|view| destroyed(view, id, plan))
    }

    /// Releases entries from quarantine. The owner may release any; a reviewer, those of their tenant.
    ///
    /// # Errors
    /// When one of them is not in quarantine for this incident, or it could not be recorded.
    pub fn restore(
        &self,
        by: &Authority,
        id: IncidentId,
        mut entries: Vec<Seq>,
    ) -> Result<Receipt, IncidentError> {
        entries.sort_unstable();
        entries.dedup();
        self.take(by, id, RecoveryStep::Restore { entries }, None)
    }

    /// The indicators of an incident as they were typed; `None` if they are destroyed with what they quote.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn indicators_of(&self, id: IncidentId) -> Result<Option<Vec<Indicator>>, IncidentError> {
        self.store.look(|view| {
            let mut all = Vec::new();
            for seq in &known(view.state(), id)?.indicated {
                let record = view.record(*seq)?;
                let bytes = arrival(&record).map(|content| view.any_content(content));
                let Some(bytes) = bytes.transpose()?.flatten() else { return Ok(None) };
                let read: Vec<Indicator> = serde_json::from_slice(&bytes)
                    .map_err(|cause| IncidentError::unreadable("indicators", id, &cause))?;
                all.extend(read);
            }
            Ok(Some(all))
        })
    }

    /// Records one step.
    pub(crate) fn take(
        &self,
        by: &Authority,
        incident: IncidentId,
        step: RecoveryStep,
        content: Option<Content>,
    ) -> Result<Receipt, IncidentError> {
        let by = by.clone();
        let request = AdminRequest::Recover(Box::new(Recover { incident, step }));
        Ok(self
            .store
            .run(move |step| step.administer(by, request, content.as_ref(), Vec::new()))
            .wait()?)
    }
}

/// A document of the recovery, as it is stored.
pub(crate) fn json<T: serde::Serialize + ?Sized>(
    value: &T,
    what: &'static str,
    incident: IncidentId,
) -> Result<Content, IncidentError> {
    let bytes = serde_json::to_vec(value)
        .map_err(|cause| IncidentError::unreadable(what, incident, &cause))?;
    Ok(Content::new(bytes)?)
}

pub(crate) fn recorded_plan(
    view: View<'_>,
    id: IncidentId,
    record: Seq,
) -> Result<Plan, IncidentError> {
    let record = view.record(record)?;
    let content = arrival(&record).ok_or(StoreError::NoContent(record.seq))?;
    let bytes = view.any_content(content)?.unwrap_or_default();
    let unpacked = GzDecoder::new(bytes.as_slice()).take(MAX_PLAN_BYTES);
    serde_json::from_reader(BufReader::new(unpacked))
        .map_err(|cause| IncidentError::unreadable("plan", id, &cause))
}

/// A plan as it is stored: compressed, because the plain JSON of a million entries is larger than the limit of a
/// content.
fn packed(plan: &Plan, id: IncidentId) -> Result<Content, IncidentError> {
    let bytes = compressed(plan).map_err(|cause| IncidentError::unreadable("plan", id, &cause))?;
    Ok(Content::new(bytes)?)
}

fn compressed(plan: &Plan) -> Result<Vec<u8>, serde_json::Error> {
    let packer = GzEncoder::new(Vec::new(), Compression::fast());
    // Serde writes a few bytes at a time, and every write to the encoder has a fixed cost.
    let mut buffer = BufWriter::with_capacity(1 << 20, packer);
    serde_json::to_writer(&mut buffer, plan)?;
    let packer = buffer.into_inner().map_err(|cause| cause.into_error());
    packer.and_then(GzEncoder::finish).map_err(serde_json::Error::io)
}

/// The effects of the plan for each entry. Weights are not entries: their hosts unload them.
fn as_step(plan: &Plan, digest: Digest, text: Value) -> step::PlanEffects {
    let mut purged = plan.with_action(RecoveryAction::Purge);
    purged.extend(plan.with_action(RecoveryAction::Evict));
    purged.sort_unstable();
    step::PlanEffects {
        plan: digest,
        text,
        flagged: plan.with_action(RecoveryAction::Flag),
        quarantined: plan.with_action(RecoveryAction::Quarantine),
        purged,
        evicted: plan.evicted(),
    }
}

/// The texts that applying the plan destroys: those that arrived with what is purged, and the indicators.
fn destroyed(view: View<'_>, id: IncidentId, plan: &Plan) -> Result<Vec<Destroyed>, IncidentError> {
    let mut entries = plan.with_action(RecoveryAction::Purge);
    entries.extend(plan.with_action(RecoveryAction::Evict));
    if !entries.is_empty() {
        entries.extend(&known(view.state(), id)?.indicated);
    }
    let mut found = Vec::new();
    for entry in entries {
        let record = view.record(entry)?;
        let Some(content) = arrival(&record) else { continue };
        if let Some(bytes) = view.any_content(content)? {
            found.push(Destroyed { entry, bytes: Zeroizing::new(bytes) });
        }
    }
    Ok(found)
}
