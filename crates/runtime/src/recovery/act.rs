//! Acting: open, contain, apply, restore. Each is one step on the record, decided by the kernel and committed with
//! what it does to the store, or not at all.

use std::io::{BufReader, BufWriter, Read as _};

use custody_kernel::evidence::Finding;
use custody_kernel::principal::Authority;
use custody_kernel::record::{Answer, Request, Value};
use custody_kernel::state::Actor;
use custody_kernel::step::{self, Indicated, Recover, Step};
use custody_log::{Digest, EntryId, IncidentId, Seq};
use custody_planner::{Closure, Plan, RecoveryAction, WalkMode};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rusqlite::Connection;
use zeroize::Zeroizing;

use super::RecoveryError;
use super::gather::{self, Settings, known};
use super::indicator::Indicator;
use super::search::{arrival, readable};
use crate::clock::random;
use crate::store::{Content, Ledger, Receipt, Store, StoreError, Transaction, index, read_record};

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

impl Store {
    /// Opens an incident with what `indicators` found.
    ///
    /// # Errors
    /// [`RecoveryError::NothingFound`], or when it could not be recorded.
    pub fn open_incident(
        &self,
        owner: &Authority,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<(IncidentId, Receipt), StoreError> {
        let id = IncidentId::from_random(random());
        let receipt = self.indicate(owner, id, indicators, findings, Step::Open)?;
        Ok((id, receipt))
    }

    /// Adds what further indicators found.
    ///
    /// # Errors
    /// As [`Store::open_incident`].
    pub fn add_evidence(
        &self,
        owner: &Authority,
        id: IncidentId,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<Receipt, StoreError> {
        self.indicate(owner, id, indicators, findings, Step::Indicate)
    }

    fn indicate(
        &self,
        owner: &Authority,
        id: IncidentId,
        indicators: &[Indicator],
        findings: Vec<Finding>,
        step: fn(Indicated) -> Step,
    ) -> Result<Receipt, StoreError> {
        if findings.is_empty() {
            return Err(RecoveryError::NothingFound.into());
        }
        let content = json(indicators, "indicators", id)?;
        let indicators = Value::New(content.commitment());
        self.take(owner, id, step(Indicated { indicators, findings }), Some(content))
    }

    /// Puts the closure of an incident in quarantine, and whatever is made from it until a plan is applied. Done in one
    /// turn of the writer, so that nobody who goes on writing can outrun it.
    ///
    /// # Errors
    /// [`RecoveryError::UnknownIncident`], or when it could not be recorded.
    pub fn contain(&self, owner: &Authority, id: IncidentId) -> Result<Contained, StoreError> {
        let by = Actor::Principal(owner.clone());
        self.run(move |transaction| {
            let (_, ledger) = transaction.parts();
            let incident = known(ledger.state(), id)?;
            let seeds: Vec<Seq> = incident.findings.iter().map(|found| found.entry).collect();
            let graph = ledger.graph()?;
            let closure =
                Closure::new(&graph, WalkMode::Causal, &seeds).map_err(RecoveryError::from)?;
            let members: Vec<Seq> = closure.members().map(|member| member.entry).collect();
            let entries = members.len() as u64;
            let recover = Recover { incident: id, step: Step::Contain { members } };
            let request = Request::Recover(Box::new(recover));
            let receipt = transaction.ask(by, request, None, Vec::new())?;
            Ok(Contained { receipt, entries })
        })
        .wait()
    }

    /// Does what the plan with this digest says, if it is still the plan. What it purges is destroyed in the same
    /// commit; [`Store::sweep`] then sees to the disk. A plan that was applied before is not applied again.
    ///
    /// # Errors
    /// [`RecoveryError::Moved`] when the record changed what the plan would do.
    pub fn apply_plan(
        &self,
        owner: &Authority,
        id: IncidentId,
        digest: Digest,
        settings: &Settings,
    ) -> Result<Applied, StoreError> {
        if let Some(done) = self.applied_before(id, digest)? {
            return Ok(done);
        }
        let (by, settings) = (Actor::Principal(owner.clone()), settings.clone());
        self.run(move |transaction| {
            let (connection, ledger) = transaction.parts();
            let plan = gather::plan(connection, ledger, id, &settings)?;
            let now = plan.digest().map_err(|cause| unreadable("plan", id, &cause))?;
            if now != digest {
                return Err(RecoveryError::Moved { now }.into());
            }
            let destroyed = destroyed(connection, ledger, id, &plan)?;
            let content = packed(&plan, id)?;
            let applied = as_step(&plan, digest, Value::New(content.commitment()));
            let recover = Recover { incident: id, step: Step::Apply(applied) };
            let request = Request::Recover(Box::new(recover));
            let receipt = transaction.ask(by, request, Some(&content), Vec::new())?;
            let is_done = receipt.answer == Answer::Done;
            if is_done {
                destroy(transaction, &destroyed)?;
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
    ) -> Result<Option<Applied>, StoreError> {
        self.read(|connection, ledger| {
            let incident = known(ledger.state(), id)?;
            let Some(applied) = incident.applied.filter(|applied| applied.plan == digest) else {
                return Ok(None);
            };
            let plan = recorded_plan(connection, ledger, id, applied.record)?;
            let decision = read_record(connection, ledger, applied.record)?.id;
            let (answer, destroyed) = (Answer::Done, Vec::new());
            Ok(Some(Applied { decision, answer, plan, destroyed, again: true }))
        })
    }

    /// The plan of an incident that was applied last.
    ///
    /// # Errors
    /// [`RecoveryError::NotApplied`], or when it cannot be read.
    pub fn applied_plan(&self, id: IncidentId) -> Result<Plan, StoreError> {
        self.read(|connection, ledger| {
            let applied = known(ledger.state(), id)?.applied;
            let applied = applied.ok_or(RecoveryError::NotApplied(id))?;
            recorded_plan(connection, ledger, id, applied.record)
        })
    }

    /// The texts that applying `plan` would destroy, to prepare probes for them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn to_destroy(&self, id: IncidentId, plan: &Plan) -> Result<Vec<Destroyed>, StoreError> {
        self.read(|connection, ledger| destroyed(connection, ledger, id, plan))
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
    ) -> Result<Receipt, StoreError> {
        entries.sort_unstable();
        entries.dedup();
        self.take(by, id, Step::Restore { entries }, None)
    }

    /// The indicators of an incident as they were typed; `None` once they are destroyed with what they quote.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn indicators_of(&self, id: IncidentId) -> Result<Option<Vec<Indicator>>, StoreError> {
        self.read(|connection, ledger| {
            let mut all = Vec::new();
            for seq in &known(ledger.state(), id)?.indicated {
                let record = read_record(connection, ledger, *seq)?;
                let bytes = arrival(&record).map(|content| readable(connection, ledger, content));
                let Some(bytes) = bytes.transpose()?.flatten() else { return Ok(None) };
                let read: Vec<Indicator> = serde_json::from_slice(&bytes)
                    .map_err(|cause| unreadable("indicators", id, &cause))?;
                all.extend(read);
            }
            Ok(Some(all))
        })
    }

    /// Records one step.
    pub(super) fn take(
        &self,
        by: &Authority,
        incident: IncidentId,
        step: Step,
        content: Option<Content>,
    ) -> Result<Receipt, StoreError> {
        let by = Actor::Principal(by.clone());
        let request = Request::Recover(Box::new(Recover { incident, step }));
        self.run(move |transaction| transaction.ask(by, request, content.as_ref(), Vec::new()))
            .wait()
    }
}

/// Something of recovery's own as it is stored.
pub(super) fn json<T: serde::Serialize + ?Sized>(
    value: &T,
    what: &'static str,
    incident: IncidentId,
) -> Result<Content, StoreError> {
    let bytes = serde_json::to_vec(value).map_err(|cause| unreadable(what, incident, &cause))?;
    Content::new(bytes)
}

pub(super) fn unreadable(
    what: &'static str,
    incident: IncidentId,
    cause: &serde_json::Error,
) -> StoreError {
    RecoveryError::Unreadable { what, incident, why: cause.to_string() }.into()
}

pub(super) fn recorded_plan(
    connection: &Connection,
    ledger: &Ledger,
    id: IncidentId,
    record: Seq,
) -> Result<Plan, StoreError> {
    let record = read_record(connection, ledger, record)?;
    let content = arrival(&record).ok_or(StoreError::NoContent(record.seq))?;
    let bytes = readable(connection, ledger, content)?.unwrap_or_default();
    let unpacked = GzDecoder::new(bytes.as_slice()).take(MAX_PLAN_BYTES);
    serde_json::from_reader(BufReader::new(unpacked))
        .map_err(|cause| unreadable("plan", id, &cause))
}

/// A plan as it is stored. Its rows are much alike, and one of a million entries would else be larger than any content
/// may be.
fn packed(plan: &Plan, id: IncidentId) -> Result<Content, StoreError> {
    let failed = |cause: &serde_json::Error| unreadable("plan", id, cause);
    let packer = GzEncoder::new(Vec::new(), Compression::fast());
    // JSON comes in pieces of a few bytes, and each piece costs the packer a look at all of its memory.
    let mut buffer = BufWriter::with_capacity(1 << 20, packer);
    serde_json::to_writer(&mut buffer, plan).map_err(|cause| failed(&cause))?;
    let packer = buffer.into_inner().map_err(|cause| cause.into_error());
    let bytes = packer.and_then(GzEncoder::finish).map_err(serde_json::Error::io);
    Content::new(bytes.map_err(|cause| failed(&cause))?)
}

/// What the plan does, entry by entry. Weights are no entries: their hosts unload them.
fn as_step(plan: &Plan, digest: Digest, text: Value) -> step::Applied {
    let mut purged = plan.with_action(RecoveryAction::Purge);
    purged.extend(plan.with_action(RecoveryAction::Evict));
    purged.sort_unstable();
    step::Applied {
        plan: digest,
        text,
        flagged: plan.with_action(RecoveryAction::Flag),
        quarantined: plan.with_action(RecoveryAction::Quarantine),
        purged,
        evicted: plan.evicted(),
    }
}

/// The texts that applying the plan destroys: those that arrived with what is purged, and the indicators.
fn destroyed(
    connection: &Connection,
    ledger: &Ledger,
    id: IncidentId,
    plan: &Plan,
) -> Result<Vec<Destroyed>, StoreError> {
    let mut entries = plan.with_action(RecoveryAction::Purge);
    entries.extend(plan.with_action(RecoveryAction::Evict));
    if !entries.is_empty() {
        entries.extend(&known(ledger.state(), id)?.indicated);
    }
    let mut found = Vec::new();
    for entry in entries {
        let record = read_record(connection, ledger, entry)?;
        let Some(content) = arrival(&record) else { continue };
        if let Some(bytes) = readable(connection, ledger, content)? {
            found.push(Destroyed { entry, bytes: Zeroizing::new(bytes) });
        }
    }
    Ok(found)
}

/// Deletes the texts, and every row that was made from them.
fn destroy(transaction: &Transaction<'_>, texts: &[Destroyed]) -> Result<(), StoreError> {
    let (connection, ledger) = transaction.parts();
    for text in texts {
        // Recovery's own texts are in no index, and taking out what was never put in would damage it.
        if !ledger.state().is_of_recovery(text.entry) {
            index::forget(connection, text.entry, &text.bytes)?;
        }
        connection
            .prepare_cached("DELETE FROM contents WHERE arrival = ?1")?
            .execute([i64::try_from(text.entry.0).unwrap_or(i64::MAX)])?;
    }
    Ok(())
}
