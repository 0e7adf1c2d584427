//! The stages of an incident as types. Each stage consumes the one before, so only a plan that was made can be
//! applied, and only a plan that was applied can be certified.
//!
//! Start with [`Incidents::open`]. To continue an incident of the record, start with [`Incidents::opened`] or
//! [`Incidents::applied`].
//!
//! This example compiles. Each one below it changes a line and does not compile.
//!
//! ```
//! use custody_incident::stage::Opened;
//! use custody_incident::{Incident, Settings};
//! use custody_kernel::principal::Authority;
//! use custody_keys::HumanKey;
//!
//! fn recover(opened: Incident<'_, Opened>, owner: &Authority, key: &HumanKey) -> Option<Vec<u8>> {
//!     let contained = opened.contain(owner).ok()?.taken().ok()?;
//!     let planned = contained.plan(Settings::default()).ok()?;
//!     let applied = planned.apply(owner).ok()?.taken().ok()?;
//!     let probed = applied.skip_probes();
//!     Some(probed.certify(owner, key, "example").ok()?.taken().ok()?.file)
//! }
//! ```
//!
//! Only a planned incident can be applied:
//!
//! ```compile_fail,E0599
//! # use custody_incident::stage::Opened;
//! # use custody_incident::Incident;
//! # use custody_kernel::principal::Authority;
//! fn recover(opened: Incident<'_, Opened>, owner: &Authority) {
//!     let _ = opened.apply(owner);
//! }
//! ```
//!
//! Only an applied incident can be certified, and only after its probes ran or were skipped explicitly:
//!
//! ```compile_fail,E0599
//! # use custody_incident::stage::Planned;
//! # use custody_incident::Incident;
//! # use custody_kernel::principal::Authority;
//! # use custody_keys::HumanKey;
//! fn recover(planned: Incident<'_, Planned>, owner: &Authority, key: &HumanKey) {
//!     let _ = planned.certify(owner, key, "example");
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use custody_incident::stage::Applied;
//! # use custody_incident::Incident;
//! # use custody_kernel::principal::Authority;
//! # use custody_keys::HumanKey;
//! fn recover(applied: Incident<'_, Applied>, owner: &Authority, key: &HumanKey) {
//!     let _ = applied.certify(owner, key, "example");
//! }
//! ```
//!
//! A stage is consumed, so a plan cannot be applied twice:
//!
//! ```compile_fail,E0382
//! # use custody_incident::stage::Planned;
//! # use custody_incident::Incident;
//! # use custody_kernel::principal::Authority;
//! fn recover(planned: Incident<'_, Planned>, owner: &Authority) {
//!     let _ = planned.apply(owner);
//!     let _ = planned.apply(owner);
//! }
//! ```
//!
//! A step may be refused, so its result is not the next stage, and a stage has no public constructor:
//!
//! ```compile_fail,E0599
//! # use custody_incident::stage::Opened;
//! # use custody_incident::{Incident, Settings};
//! # use custody_kernel::principal::Authority;
//! fn recover(opened: Incident<'_, Opened>, owner: &Authority) {
//!     let _ = opened.contain(owner).unwrap().plan(Settings::default());
//! }
//! ```
//!
//! ```compile_fail,E0423
//! let opened = custody_incident::stage::Opened(());
//! ```

use custody_certificate::Recovery;
use custody_kernel::evidence::Finding;
use custody_kernel::principal::Authority;
use custody_keys::HumanKey;
use custody_log::{Digest, EntryId, IncidentId};
use custody_planner::Plan;

use crate::IncidentError;
use crate::act::{AppliedStep, Destroyed};
use crate::adapters::{Hosts, Unloading};
use crate::certify::ProbeReport;
use crate::gather::Settings;
use crate::indicator::Indicator;
use crate::probe::{PreparedProbes, ProbeFindings, Reach, Transcript, Ways};
use crate::step_result::StepResult;
use crate::store::Incidents;

/// An incident at a stage.
///
/// ```text
/// Opened ── contain ──► Contained ── plan ──► Planned ── apply ──► Applied ── probe ──► Probed ── certify
///    └────────────────── plan ──────────────────┘
/// ```
#[derive(Debug)]
#[must_use = "an incident that is let go stays at its stage on the record"]
pub struct Incident<'s, Stage> {
    incidents: Incidents<'s>,
    id: IncidentId,
    stage: Stage,
}

/// Evidence is recorded, and nothing is marked.
#[derive(Debug)]
pub struct Opened(());

/// The closure of the evidence is in quarantine, and so is whatever derives from it until a plan is applied.
#[derive(Debug)]
pub struct Contained {
    decision: EntryId,
    entries: u64,
}

/// A plan is made, and nothing is changed by it.
#[derive(Debug)]
pub struct Planned {
    plan: Plan,
    /// The digest of the plan to apply: that of `plan`, unless [`Incident::as_read`] set another.
    digest: Digest,
    settings: Settings,
}

/// The plan is applied, and what it purged is deleted. The disk is not swept yet.
#[derive(Debug)]
pub struct Applied {
    decision: EntryId,
    plan: Plan,
    destroyed: Vec<Destroyed>,
    is_repeat: bool,
}

/// The probes are recorded, or were skipped.
#[derive(Debug)]
pub struct Probed {
    plan: Plan,
}

/// A stage from which a plan can be made. Contain first if sessions may still be writing.
pub trait Plannable: sealed::Sealed {}

impl Plannable for Opened {}
impl Plannable for Contained {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Opened {}
    impl Sealed for super::Contained {}
}

/// The result of the sweep and the probes after a plan was applied.
#[derive(Debug, Clone)]
pub struct Examination {
    /// The report for the record and the certificate.
    pub report: ProbeReport,
    /// How far the probes reached.
    pub reach: Reach,
    /// The questions and answers, if [`Ways::transcripts`] is set.
    pub transcripts: Vec<Transcript>,
}

/// A signed and recorded certificate.
#[derive(Debug, Clone)]
pub struct SignedCertificate {
    /// The bytes of the certificate file.
    pub file: Vec<u8>,
    /// What it states. Where not every entry stands inside the file, [`custody_certificate::entry_lines`] gives those
    /// of the file beside it.
    pub recovery: Recovery,
    /// The decision that records it.
    pub decision: EntryId,
}

impl<'s> Incidents<'s> {
    /// Opens an incident with the findings of `indicators`.
    ///
    /// # Errors
    /// [`IncidentError::NothingFound`], or when it could not be recorded.
    pub fn open(
        self,
        owner: &Authority,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<StepResult<Incident<'s, Opened>>, IncidentError> {
        let (id, receipt) = self.open_incident(owner, indicators, findings)?;
        Ok(StepResult::of(receipt, |_| Incident { incidents: self, id, stage: Opened(()) }))
    }

    /// An incident of the record at its first stage. Its steps may be repeated: containing adds the entries that were
    /// reached since, and a plan has the actions that are left.
    ///
    /// # Errors
    /// [`IncidentError::UnknownIncident`].
    pub fn opened(self, id: IncidentId) -> Result<Incident<'s, Opened>, IncidentError> {
        let is_known = self.store.state(|state| state.incident(id).is_some())?;
        match is_known {
            true => Ok(Incident { incidents: self, id, stage: Opened(()) }),
            false => Err(IncidentError::UnknownIncident(id)),
        }
    }

    /// An incident of the record whose plan is applied. The destroyed texts are not available.
    ///
    /// # Errors
    /// [`IncidentError::NotApplied`].
    pub fn applied(self, id: IncidentId) -> Result<Incident<'s, Applied>, IncidentError> {
        let applied = self.applied_step(id)?.ok_or(IncidentError::NotApplied(id))?;
        Ok(Incident::at(self, id, Applied::from(applied)))
    }
}

impl<'s, Stage> Incident<'s, Stage> {
    const fn at(incidents: Incidents<'s>, id: IncidentId, stage: Stage) -> Self {
        Self { incidents, id, stage }
    }

    /// The id of the incident.
    pub const fn id(&self) -> IncidentId {
        self.id
    }
}

impl<'s> Incident<'s, Opened> {
    /// Adds the findings of further indicators.
    ///
    /// # Errors
    /// As [`Incidents::open`].
    pub fn add_evidence(
        self,
        owner: &Authority,
        indicators: &[Indicator],
        findings: Vec<Finding>,
    ) -> Result<StepResult<Self>, IncidentError> {
        let receipt = self.incidents.add_evidence(owner, self.id, indicators, findings)?;
        Ok(StepResult::of(receipt, |_| self))
    }

    /// Puts the closure of the evidence in quarantine, and whatever derives from it until a plan is applied. This is
    /// one turn of the writer, so no concurrent write escapes it.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub fn contain(
        self,
        owner: &Authority,
    ) -> Result<StepResult<Incident<'s, Contained>>, IncidentError> {
        let Self { incidents, id, .. } = self;
        let (receipt, entries) = incidents.contain(owner, id)?;
        Ok(StepResult::of(receipt, |decision| {
            Incident::at(incidents, id, Contained { decision, entries })
        }))
    }
}

impl Incident<'_, Contained> {
    /// The decision that contained the incident.
    pub const fn decision(&self) -> EntryId {
        self.stage.decision
    }

    /// The number of entries that it put in quarantine.
    pub const fn entries(&self) -> u64 {
        self.stage.entries
    }
}

impl<'s, Stage: Plannable> Incident<'s, Stage> {
    /// Plans the recovery from the current record. Changes nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn plan(self, settings: Settings) -> Result<Incident<'s, Planned>, IncidentError> {
        let Self { incidents, id, .. } = self;
        let plan = incidents.plan(id, &settings)?;
        let digest =
            plan.digest().map_err(|cause| IncidentError::unreadable("plan", id, &cause))?;
        Ok(Incident::at(incidents, id, Planned { plan, digest, settings }))
    }
}

impl<'s> Incident<'s, Planned> {
    /// The plan.
    pub const fn plan(&self) -> &Plan {
        &self.stage.plan
    }

    /// The digest of the plan that is to be applied.
    pub const fn digest(&self) -> Digest {
        self.stage.digest
    }

    /// Applies only the plan with this `digest`. If the record changed since it was read, applying it fails, unless
    /// it was applied before.
    pub fn as_read(mut self, digest: Digest) -> Self {
        self.stage.digest = digest;
        self
    }

    /// The texts that would be destroyed.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn to_destroy(&self) -> Result<Vec<Destroyed>, IncidentError> {
        self.incidents.to_destroy(self.id, &self.stage.plan)
    }

    /// Prepares probes for the texts that would be destroyed, and runs them once while the texts exist, to measure
    /// which of them can find anything. Calls `progress` with the number of answered questions and the total.
    ///
    /// # Errors
    /// When the store cannot be read, or the embedder fails.
    pub fn prepare_probes(
        &self,
        ways: Ways<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PreparedProbes, IncidentError> {
        let mut prepared = self.incidents.prepare_probes(&self.to_destroy()?, ways)?;
        self.incidents.probe_before(self.id, &mut prepared, ways, progress)?;
        Ok(prepared)
    }

    /// Applies the plan, if the record has not changed it. Purged contents are destroyed in the same commit. A plan
    /// that was applied before is not applied again.
    ///
    /// # Errors
    /// [`IncidentError::Moved`] when the record changed what the plan would do.
    pub fn apply(
        self,
        owner: &Authority,
    ) -> Result<StepResult<Incident<'s, Applied>>, IncidentError> {
        let Self { incidents, id, stage: Planned { digest, settings, .. } } = self;
        let (receipt, applied) = incidents.apply_plan(owner, id, digest, &settings)?;
        let Some(receipt) = receipt else {
            return Ok(StepResult::Taken(Incident::at(incidents, id, Applied::from(applied))));
        };
        Ok(StepResult::of(receipt, |_| Incident::at(incidents, id, Applied::from(applied))))
    }
}

impl From<AppliedStep> for Applied {
    fn from(step: AppliedStep) -> Self {
        let AppliedStep { decision, plan, destroyed, is_repeat } = step;
        Self { decision, plan, destroyed, is_repeat }
    }
}

impl<'s> Incident<'s, Applied> {
    /// The decision that applied the plan.
    pub const fn decision(&self) -> EntryId {
        self.stage.decision
    }

    /// The plan that was applied.
    pub const fn plan(&self) -> &Plan {
        &self.stage.plan
    }

    /// The destroyed texts, to search for residue. They are wiped when dropped, and empty if the plan was applied
    /// before.
    pub fn destroyed(&self) -> &[Destroyed] {
        &self.stage.destroyed
    }

    /// Whether the plan was applied before.
    pub const fn is_repeat(&self) -> bool {
        self.stage.is_repeat
    }

    /// Asks every host to unload what was evicted; see [`Incidents::evict`].
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn evict(
        &self,
        owner: &Authority,
        hosts: &mut Hosts<'_>,
    ) -> Result<Vec<Unloading>, IncidentError> {
        self.incidents.evict(owner, self.id, hosts)
    }

    /// Sweeps the disk, searches the files of the store for residue, and runs the prepared probes. `None` if all of
    /// it was done and recorded before.
    ///
    /// # Errors
    /// When the files or the store cannot be read, or the embedder fails.
    pub fn examine(
        &self,
        prepared: Option<&PreparedProbes>,
        ways: Ways<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Examination>, IncidentError> {
        let at_rest = self.incidents.sweep(&self.stage.destroyed)?;
        if self.stage.is_repeat && self.is_probed()? {
            return Ok(None);
        }
        let ProbeFindings { membership, reach, transcripts } =
            match prepared.filter(|_| !self.stage.destroyed.is_empty()) {
                Some(prepared) => self.incidents.probe_after(prepared, ways, progress)?,
                None if self.stage.is_repeat => ProbeFindings::not_run(
                    "the texts were destroyed before a probe ran, and nobody kept them",
                ),
                None => ProbeFindings::not_run("nothing was destroyed"),
            };
        let report = ProbeReport { at_rest, membership };
        Ok(Some(Examination { report, reach, transcripts }))
    }

    fn is_probed(&self) -> Result<bool, IncidentError> {
        let probed = self.incidents.store.state(|state| state.incident(self.id)?.probed)?;
        Ok(probed.is_some())
    }

    /// Records the report.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub fn record_probes(
        self,
        owner: &Authority,
        report: &ProbeReport,
    ) -> Result<StepResult<Incident<'s, Probed>>, IncidentError> {
        let Self { incidents, id, stage: Applied { plan, .. } } = self;
        let receipt = incidents.record_probes(owner, id, report)?;
        Ok(StepResult::of(receipt, |_| Incident::at(incidents, id, Probed { plan })))
    }

    /// Continues without probes. The certificate has the last recorded report, or states that no probe ran.
    pub fn skip_probes(self) -> Incident<'s, Probed> {
        let Self { incidents, id, stage: Applied { plan, .. } } = self;
        Incident::at(incidents, id, Probed { plan })
    }
}

impl Incident<'_, Probed> {
    /// The plan that was applied.
    pub const fn plan(&self) -> &Plan {
        &self.stage.plan
    }

    /// Signs a certificate of the recovery and records it. Its contents come from the record only. A later certificate
    /// supersedes an earlier one.
    ///
    /// # Errors
    /// [`IncidentError::Certificate`] when its parts do not agree; nothing is signed then. Or when the store
    /// cannot be read.
    pub fn certify(
        &self,
        owner: &Authority,
        key: &HumanKey,
        program: &str,
    ) -> Result<StepResult<SignedCertificate>, IncidentError> {
        let (file, recovery, receipt) = self.incidents.certify(owner, key, self.id, program)?;
        Ok(StepResult::of(receipt, |decision| SignedCertificate { file, recovery, decision }))
    }
}
