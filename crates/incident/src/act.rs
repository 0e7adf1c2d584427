//! Acting: open, contain, apply, restore. Each is one step on the record, decided by the kernel and committed with
//! what it does to the store, or not at all.

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
use crate::gather::{self, Settings, known};
use crate::graph::graph_of;
use crate::indicator::Indicator;
use crate::search::arrival;
use crate::store::Incidents;

/// The largest plan that is read back, in bytes: one of ten million entries.
const MAX_PLAN_BYTES: u64 = 2 << 30;

/// What was put in quarantine.
#[derive(Debug, Clone)]
pub struct Contained {
    /// The decision.
    pub receipt: Receipt,
    /// How many entries.
    pub entries: u64,
}

/// What came of applying a plan.
#[derive(Debug)]
pub struct Applied {
    /// The decision; that of the first time when this was a second.
    pub decision: EntryId,
    /// The answer.
    pub answer: Answer,
    /// The plan, as it was applied.
    pub plan: Plan,
    /// The texts that were destroyed, to look for what is left of them. Wiped when dropped; empty when the plan was
    /// applied before.
    pub destroyed: Vec<Destroyed>,
    /// Whether it was applied before.
    pub again: bool,
}

/// A text that was destroyed.
#[derive(Debug, Clone)]
pub struct Destroyed {
    /// The entry with which it arrived.
    pub entry: Seq,
    /// What it said.
    pub bytes: Zeroizing<Vec<u8>>,
}

impl Incidents<'_> {
    /// Opens an incident with what `indicators` found.
    ///
    /// # Errors
    /// [`IncidentError::NothingFound`], or when it could not be recorded.
    pub fn open_incident(
        &self,
        owner: &Authority,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<(IncidentId, Receipt), IncidentError> {
        let id = IncidentId::from_random(random());
        let receipt = self.indicate(owner, id, indicators, findings, RecoveryStep::Open)?;
        Ok((id, receipt))
    }

    /// Adds what further indicators found.
    ///
    /// # Errors
    /// As [`Incidents::open_incident`].
    pub fn add_evidence(
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

    /// Puts the closure of an incident in quarantine, and whatever is made from it until a plan is applied. Done in one
    /// turn of the writer, so that nobody who goes on writing can outrun it.
    ///
    /// # Errors
    /// [`IncidentError::UnknownIncident`], or when it could not be recorded.
    pub fn contain(&self, owner: &Authority, id: IncidentId) -> Result<Contained, IncidentError> {
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
                Ok(Contained { receipt, entries })
            })
            .wait()
    }

    /// Does what the plan with this digest says, if it is still the plan. What it purges is destroyed in the same
    /// commit; [`Incidents::sweep`] then sees to the disk. A plan that was applied before is not applied again.
    ///
    /// # Errors
    /// [`IncidentError::Moved`] when the record changed what the plan would do.
    pub fn apply_plan(
        &self,
        owner: &Authority,
        id: IncidentId,
        digest: Digest,
        settings: &Settings,
    ) -> Result<Applied, IncidentError> {
        if let Some(done) = self.applied_before(id, digest)? {
            return Ok(done);
        }
        let (by, settings) = (owner.clone(), settings.clone());
        self.store
            .run(move |transaction| {
                let view = transaction.view();
                let plan = gather::plan(view, id, &settings)?;
                let now = plan.digest().map_err(|cause| unreadable("plan", id, &cause))?;
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
                let Receipt { id: decision, answer, .. } = receipt;
                let destroyed = if is_done { destroyed } else { Vec::new() };
                Ok(Applied { decision, answer, plan, destroyed, again: false })
            })
            .wait()
    }

    fn applied_before(
        &self,
        id: IncidentId,
        digest: Digest,
    ) -> Result<Option<Applied>, IncidentError> {
        self.store.look(|view| {
            let incident = known(view.state(), id)?;
            let Some(applied) = incident.applied.filter(|applied| applied.plan == digest) else {
                return Ok(None);
            };
            let plan = recorded_plan(view, id, applied.record)?;
            let decision = view.record(applied.record)?.id;
            let (answer, destroyed) = (Answer::Done, Vec::new());
            Ok(Some(Applied { decision, answer, plan, destroyed, again: true }))
        })
    }

    /// The plan of an incident that was applied last.
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

    /// The texts that applying `plan` would destroy, to prepare probes for them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn to_destroy(&self, id: IncidentId, plan: &Plan) -> Result<Vec<Destroyed>, IncidentError> {
        self.store.look(|view| destroyed(view, id, plan))
    }

    /// Takes entries out of quarantine. By the owner, or by a reviewer for what is their tenant's.
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

    /// The indicators of an incident as they were typed; `None` once they are destroyed with what they quote.
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
                    .map_err(|cause| unreadable("indicators", id, &cause))?;
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

/// Something of recovery's own as it is stored.
pub(crate) fn json<T: serde::Serialize + ?Sized>(
    value: &T,
    what: &'static str,
    incident: IncidentId,
) -> Result<Content, IncidentError> {
    let bytes = serde_json::to_vec(value).map_err(|cause| unreadable(what, incident, &cause))?;
    Ok(Content::new(bytes)?)
}

pub(crate) fn unreadable(
    what: &'static str,
    incident: IncidentId,
    cause: &serde_json::Error,
) -> IncidentError {
    IncidentError::Unreadable { what, incident, why: cause.to_string() }
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
        .map_err(|cause| unreadable("plan", id, &cause))
}

/// A plan as it is stored. Its rows are much alike, and one of a million entries would else be larger than any content
/// may be.
fn packed(plan: &Plan, id: IncidentId) -> Result<Content, IncidentError> {
    let failed = |cause: &serde_json::Error| unreadable("plan", id, cause);
    let packer = GzEncoder::new(Vec::new(), Compression::fast());
    // JSON comes in pieces of a few bytes, and each piece costs the packer a look at all of its memory.
    let mut buffer = BufWriter::with_capacity(1 << 20, packer);
    serde_json::to_writer(&mut buffer, plan).map_err(|cause| failed(&cause))?;
    let packer = buffer.into_inner().map_err(|cause| cause.into_error());
    let bytes = packer.and_then(GzEncoder::finish).map_err(serde_json::Error::io);
    Ok(Content::new(bytes.map_err(|cause| failed(&cause))?)?)
}

/// What the plan does, entry by entry. Weights are no entries: their hosts unload them.
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
