//! The stages of an incident as types: each is reached by consuming the one before, so that no plan is applied that was
//! not made, and nothing is certified that was not applied.
//!
//! [`Incidents::open`] begins. A program that comes back later begins where the record is: at [`Incidents::opened`] or
//! [`Incidents::applied`].
//!
//! This compiles; each example below it changes one line, and does not.
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
//! A plan is applied only once it was made:
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
//! Nothing is certified that was not applied, nor before it was examined or that was left out on purpose:
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
//! A stage is consumed: no plan is applied twice.
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
//! An answer that may be a refusal is not the next stage, and a stage cannot be made up.
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

use custody_kernel::evidence::Finding;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::principal::Authority;
use custody_kernel::record::Answer;
use custody_keys::HumanKey;
use custody_log::{Digest, EntryId, IncidentId};
use custody_planner::Plan;
use custody_runtime::store::Receipt;

use crate::IncidentError;
use crate::act::{AppliedStep, Destroyed};
use crate::adapters::{Hosts, Unloading};
use crate::certify::ProbeReport;
use crate::gather::Settings;
use crate::indicator::Indicator;
use crate::probe::{PreparedProbes, ProbeFindings, Reach, Transcript, Ways};
use crate::store::Incidents;

/// What came of asking for a step of an incident.
#[derive(Debug)]
#[must_use = "a step may be refused, and then it was not taken"]
pub enum StepResult<T> {
    /// It was taken.
    Taken(T),
    /// The kernel refused it; nothing was changed.
    Refused(RefusedStep),
}

/// A step that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}")]
pub struct RefusedStep {
    /// The decision.
    pub decision: EntryId,
    /// The rule that refused it.
    pub refusal: Refusal,
}

impl<T> StepResult<T> {
    /// What was reached, or the refusal as an error, for a caller to whom both are failures.
    ///
    /// # Errors
    /// When the step was refused.
    pub fn taken(self) -> Result<T, RefusedStep> {
        match self {
            Self::Taken(reached) => Ok(reached),
            Self::Refused(refused) => Err(refused),
        }
    }

    fn of(receipt: Receipt, reached: impl FnOnce(EntryId) -> T) -> Self {
        let Receipt { id: decision, answer, .. } = receipt;
        match answer {
            Answer::Refused(refusal) => Self::Refused(RefusedStep { decision, refusal }),
            // A step of an incident is done or refused.
            Answer::Done | Answer::Pending { .. } | Answer::Value { .. } | Answer::NotFound => {
                Self::Taken(reached(decision))
            }
        }
    }
}

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

/// There is evidence. Nothing is marked by it.
#[derive(Debug)]
pub struct Opened(());

/// What the evidence reaches is in quarantine, and whatever is made from it until a plan is applied.
#[derive(Debug)]
pub struct Contained {
    decision: EntryId,
    entries: u64,
}

/// It is known what would be done.
#[derive(Debug)]
pub struct Planned {
    plan: Plan,
    /// The digest of the plan that is to be applied: of this one, unless a reader named another.
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

/// It was looked for what is left, or it was decided not to.
#[derive(Debug)]
pub struct Probed {
    plan: Plan,
}

/// A stage from which a plan can be made. Containing comes first where anybody may still be writing.
pub trait Plannable: sealed::Sealed {}

impl Plannable for Opened {}
impl Plannable for Contained {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Opened {}
    impl Sealed for super::Contained {}
}

/// What was looked for after a plan was applied, and what was found.
#[derive(Debug, Clone)]
pub struct Examination {
    /// For the record and the certificate.
    pub report: ProbeReport,
    /// How far the probes reached.
    pub reach: Reach,
    /// What was asked and answered, where that is wanted.
    pub transcripts: Vec<Transcript>,
}

/// A certificate that was signed, and recorded.
#[derive(Debug, Clone)]
pub struct SignedCertificate {
    /// The file.
    pub file: Vec<u8>,
    /// The decision that records it.
    pub decision: EntryId,
}

impl<'s> Incidents<'s> {
    /// Opens an incident with what `indicators` found.
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

    /// An incident of the record, as far as its evidence. What was done about it may be done again:
    /// containing adds what
    /// was reached since, and a plan says what is left to do.
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

    /// An incident of the record whose plan is applied. The destroyed texts are gone.
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

    /// Its id.
    pub const fn id(&self) -> IncidentId {
        self.id
    }
}

impl<'s> Incident<'s, Opened> {
    /// Adds what further indicators found.
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

    /// Puts everything that the evidence reaches in quarantine, and whatever is made from it until a plan is applied.
    /// Done in one turn of the writer, so that nobody who goes on writing can outrun it.
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
    /// The decision that contained it.
    pub const fn decision(&self) -> EntryId {
        self.stage.decision
    }

    /// How many entries are in quarantine by it.
    pub const fn entries(&self) -> u64 {
        self.stage.entries
    }
}

impl<'s, Stage: Plannable> Incident<'s, Stage> {
    /// Finds out what recovery would do now. Marks nothing.
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
    /// What would be done.
    pub const fn plan(&self) -> &Plan {
        &self.stage.plan
    }

    /// The digest of the plan that is to be applied.
    pub const fn digest(&self) -> Digest {
        self.stage.digest
    }

    /// To apply the plan that was read under `digest`, and no other. If it is not this plan, applying it
    /// fails, unless it
    /// was applied before.
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

    /// Prepares probes for what would be destroyed, and runs them while it is still there, so that it is known which of
    /// them can find anything. `progress` is told how many questions are answered, and of how many.
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

    /// Does what the plan says, if it is still the plan. What it purges is destroyed in the same commit. A
    /// plan that was
    /// applied before is not applied again.
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

    /// The plan, as it was applied.
    pub const fn plan(&self) -> &Plan {
        &self.stage.plan
    }

    /// The texts that were destroyed, to look for what is left of them. Wiped when dropped; none when the plan was
    /// applied before.
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

    /// Sweeps the disk and looks for what is left: in the files of the store, and by the probes that were prepared.
    /// `None` when all of it was done and recorded before.
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

    /// Records what was found.
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

    /// Goes on without probes. The certificate has the report that was recorded last, else it says that none ran.
    pub fn skip_probes(self) -> Incident<'s, Probed> {
        let Self { incidents, id, stage: Applied { plan, .. } } = self;
        Incident::at(incidents, id, Probed { plan })
    }
}

impl Incident<'_, Probed> {
    /// The plan, as it was applied.
    pub const fn plan(&self) -> &Plan {
        &self.stage.plan
    }

    /// Signs a certificate of what was done, and records that it was signed. What is certified is read off the record,
    /// and not from what this program believes it did. An older report is superseded by a new one, so a certificate may
    /// be followed by another.
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
        let (file, receipt) = self.incidents.certify(owner, key, self.id, program)?;
        Ok(StepResult::of(receipt, |decision| SignedCertificate { file, decision }))
    }
}
