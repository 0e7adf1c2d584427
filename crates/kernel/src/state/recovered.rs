//! Incidents: what is marked, who may mark it, and what that changes for everybody else.
//!
//! A mark is on an entry; what an item holds follows from the marks. It holds the newest of its versions that is not
//! out, so rolling back and restoring are one rule, and restoring gives back exactly what was there.

use std::collections::{BTreeMap, BTreeSet};

use custody_log::{Digest, IncidentId, Seq, Timestamp};

use super::decide::Verdict;
use super::{AskError, State};
use crate::evidence::Finding;
use crate::key::Key;
use crate::memory::item::Version;
use crate::memory::refusal::Refusal;
use crate::memory::review::{Pending, needs_owner};
use crate::namespace::Namespace;
use crate::principal::{Authority, Role};
use crate::record::{By, Record, Value};
use crate::step::{Applied, ListError, Recover, Step, ascending};

/// What an incident did to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// Marked for the reader; nothing else.
    Flagged,
    /// No way of retrieval finds it.
    Quarantined,
    /// Its content is destroyed.
    Purged,
}

/// The marks of one entry, each by the incident that made it. Nearly always there is one, so no list is made for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    first: (IncidentId, Mark),
    more: Vec<(IncidentId, Mark)>,
}

impl Standing {
    /// Whether no way of retrieval finds it.
    pub fn is_out(&self) -> bool {
        self.marks().any(|(_, mark)| mark >= Mark::Quarantined)
    }

    /// Whether its content is destroyed.
    pub fn is_purged(&self) -> bool {
        self.marks().any(|(_, mark)| mark == Mark::Purged)
    }

    /// The marks, in the order in which incidents made them.
    pub fn marks(&self) -> impl Iterator<Item = (IncidentId, Mark)> + '_ {
        [self.first].into_iter().chain(self.more.iter().copied())
    }

    /// The mark of one incident.
    pub fn mark_of(&self, incident: IncidentId) -> Option<Mark> {
        self.marks().find(|(by, _)| *by == incident).map(|(_, mark)| mark)
    }

    fn mark(&mut self, incident: IncidentId, mark: Mark) {
        if self.mark_of(incident).is_none() {
            self.more.push((incident, mark));
        }
        for (by, held) in [&mut self.first].into_iter().chain(&mut self.more) {
            // What is destroyed stays destroyed; of the others the last word counts.
            if *by == incident && *held != Mark::Purged {
                *held = mark;
            }
        }
    }
}

/// Puts a mark on an entry.
fn put(marks: &mut BTreeMap<Seq, Standing>, entry: Seq, incident: IncidentId, mark: Mark) {
    let first = || Standing { first: (incident, mark), more: Vec::new() };
    marks.entry(entry).or_insert_with(first).mark(incident, mark);
}

/// One incident, as far as it got.
#[derive(Debug, Clone)]
pub struct IncidentState {
    /// Which.
    pub id: IncidentId,
    /// The record that opened it.
    pub opened: Seq,
    /// When that was.
    pub at: Timestamp,
    /// The records that hold its indicators.
    pub indicated: Vec<Seq>,
    /// What the indicators found, ascending.
    pub findings: Vec<Finding>,
    /// The record that first contained it.
    pub contained: Option<Seq>,
    /// What was applied last.
    pub applied: Option<AppliedPlan>,
    /// Every record of a restoring.
    pub restored: Vec<Seq>,
    /// The last record of probes.
    pub probed: Option<Seq>,
    /// The last certificate, and its record.
    pub certified: Option<(Seq, Digest)>,
    /// Whether what is made from its members is put in quarantine at once.
    holds: bool,
}

impl IncidentState {
    /// Whether what is made from its members is put in quarantine at once.
    pub const fn holds(&self) -> bool {
        self.holds
    }
}

/// A plan that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedPlan {
    /// The record of it.
    pub record: Seq,
    /// Its digest.
    pub plan: Digest,
}

/// Every incident, and every mark.
#[derive(Debug, Clone, Default)]
pub(super) struct Recovered {
    incidents: BTreeMap<IncidentId, IncidentState>,
    marks: BTreeMap<Seq, Standing>,
    /// How many incidents hold what is made from their members.
    holding: usize,
    /// The records that hold texts of recovery itself.
    own: BTreeSet<Seq>,
    /// Every certificate of the store, the oldest first.
    certificates: Vec<Digest>,
}

impl State {
    /// One incident.
    pub fn incident(&self, id: IncidentId) -> Option<&IncidentState> {
        self.recovered.incidents.get(&id)
    }

    /// Every incident, the oldest first.
    pub fn incidents(&self) -> Vec<&IncidentState> {
        let mut all: Vec<_> = self.recovered.incidents.values().collect();
        all.sort_unstable_by_key(|incident| incident.opened);
        all
    }

    /// SHA-256 of every certificate of the store, the oldest first. Each names the one before it.
    pub fn certificates(&self) -> &[Digest] {
        &self.recovered.certificates
    }

    /// Whether `entry` holds a text of recovery itself: indicators, a plan, a report. No search finds those.
    pub fn is_of_recovery(&self, entry: Seq) -> bool {
        self.recovered.own.contains(&entry)
    }

    /// What incidents did to an entry, if anything.
    pub fn standing(&self, entry: Seq) -> Option<&Standing> {
        self.recovered.marks.get(&entry)
    }

    /// Every entry with a mark, ascending.
    pub fn marked(&self) -> impl Iterator<Item = (Seq, &Standing)> {
        self.recovered.marks.iter().map(|(entry, standing)| (*entry, standing))
    }

    /// Whether no way of retrieval finds `entry`: it is in quarantine, or destroyed.
    pub fn is_out(&self, entry: Seq) -> bool {
        self.standing(entry).is_some_and(Standing::is_out)
    }

    /// Whether the content of `entry` is destroyed.
    pub fn is_purged(&self, entry: Seq) -> bool {
        self.standing(entry).is_some_and(Standing::is_purged)
    }

    /// The first entry of a proposal that is out: what it asks must not happen until that is restored.
    pub(super) fn held_back(&self, pending: &Pending) -> Option<Seq> {
        let value = pending.value.map(|value| value.arrival);
        let named = pending.dependencies.iter().copied();
        let mut all = [pending.entry].into_iter().chain(value).chain(named);
        all.find(|entry| self.is_out(*entry))
    }

    /// Whether a step of an incident may be taken.
    pub(super) fn recover(
        &self,
        authority: &Authority,
        recover: &Recover,
    ) -> Result<Verdict, AskError> {
        let Recover { incident: id, step } = recover;
        let incident = match (self.incident(*id), step) {
            (None, Step::Open(_)) => None,
            (Some(_), Step::Open(_)) => return Err(AskError::DuplicateIncident(*id)),
            (None, _) => return Err(AskError::UnknownIncident(*id)),
            (Some(incident), _) => Some(incident),
        };
        if let Some(entry) = step.named().find(|entry| entry.0 >= self.len()) {
            return Err(AskError::UnknownEntry(entry));
        }
        if let Some(Value::Of(content)) = step.arriving() {
            return Err(AskError::UnknownContent(content.arrival));
        }
        let lists = |cause| AskError::Lists(cause);
        match step {
            Step::Contain { members } => ascending(members).map_err(lists)?,
            Step::Apply(applied) => {
                let found = incident.into_iter().flat_map(|incident| &incident.findings);
                // What an earlier plan destroyed cannot be destroyed again.
                let found = found.filter(|finding| !self.is_purged(finding.entry));
                applied.check(found).map_err(lists)?;
            }
            Step::Restore { entries } => {
                ascending(entries).map_err(lists)?;
                self.check_restorable(*id, entries).map_err(lists)?;
                return Ok(Verdict::administrative(self.may_restore(authority, entries)));
            }
            Step::Open(_) | Step::Indicate(_) | Step::Probe { .. } | Step::Certify { .. } => {}
        }
        Ok(Verdict::administrative(needs_owner(authority)))
    }

    fn check_restorable(&self, id: IncidentId, entries: &[Seq]) -> Result<(), ListError> {
        let held = |entry: &&Seq| {
            let mark = self.standing(**entry).and_then(|standing| standing.mark_of(id));
            mark != Some(Mark::Quarantined)
        };
        match entries.iter().find(held) {
            Some(entry) => Err(ListError::NotQuarantined(*entry)),
            None => Ok(()),
        }
    }

    /// The owner restores anything, a reviewer what is their tenant's.
    fn may_restore(&self, authority: &Authority, entries: &[Seq]) -> Result<(), Refusal> {
        let who = authority.who();
        let is_theirs = |entry: &Seq| self.entry(*entry).is_some_and(|e| e.tenant == who.tenant);
        let reviews = authority.is_human() && who.role == Role::Reviewer;
        if authority.is_owner() || (reviews && entries.iter().all(is_theirs)) {
            return Ok(());
        }
        Err(if reviews { Refusal::NeedsOwner } else { Refusal::NeedsReviewer })
    }

    pub(super) fn apply_recover(&mut self, recover: &Recover, record: &Record) {
        let (id, entry) = (recover.incident, record.seq);
        if let Step::Open(_) = recover.step {
            let opened = IncidentState {
                id,
                opened: entry,
                at: record.at,
                indicated: Vec::new(),
                findings: Vec::new(),
                contained: None,
                applied: None,
                restored: Vec::new(),
                probed: None,
                certified: None,
                holds: false,
            };
            self.recovered.incidents.insert(id, opened);
        }
        if recover.step.arriving().is_some() {
            self.recovered.own.insert(entry);
        }
        let Some(incident) = self.recovered.incidents.get_mut(&id) else { return };
        match &recover.step {
            Step::Open(indicated) | Step::Indicate(indicated) => {
                incident.indicated.push(entry);
                incident.findings.extend_from_slice(&indicated.findings);
                incident.findings.sort_unstable();
                incident.findings.dedup();
            }
            Step::Contain { members } => {
                incident.contained = incident.contained.or(Some(entry));
                incident.holds = true;
                self.mark_all(id, members, Mark::Quarantined);
                self.follow_marks();
            }
            Step::Apply(applied) => {
                incident.applied = Some(AppliedPlan { record: entry, plan: applied.plan });
                incident.holds = false;
                self.mark_applied(id, applied);
                self.evict(id, entry, &applied.evicted);
                self.follow_marks();
            }
            Step::Restore { entries } => {
                incident.restored.push(entry);
                self.mark_all(id, entries, Mark::Flagged);
                self.follow_marks();
            }
            Step::Probe { .. } => incident.probed = Some(entry),
            Step::Certify { certificate } => {
                incident.certified = Some((entry, *certificate));
                self.recovered.certificates.push(*certificate);
            }
        }
        self.recovered.holding =
            self.recovered.incidents.values().filter(|incident| incident.holds).count();
    }

    fn mark_applied(&mut self, id: IncidentId, applied: &Applied) {
        self.mark_all(id, &applied.flagged, Mark::Flagged);
        self.mark_all(id, &applied.quarantined, Mark::Quarantined);
        let mut purged = applied.purged.clone();
        if !purged.is_empty() {
            // An indicator may quote what is destroyed.
            let incident = self.recovered.incidents.get(&id);
            purged.extend(incident.into_iter().flat_map(|incident| &incident.indicated));
        }
        self.mark_all(id, &purged, Mark::Purged);
    }

    fn mark_all(&mut self, id: IncidentId, entries: &[Seq], mark: Mark) {
        for entry in entries {
            put(&mut self.recovered.marks, *entry, id, mark);
        }
    }

    /// Lets items and contexts follow the marks.
    fn follow_marks(&mut self) {
        let marks = &self.recovered.marks;
        let is_out = |entry: Seq| marks.get(&entry).is_some_and(Standing::is_out);
        self.items.look_again(is_out);
        // What a model has read stays in its context, whatever is destroyed here.
        for session in self.sessions.values_mut() {
            let spoilt = session.context.parents().iter().copied().find(|entry| is_out(*entry));
            if let Some(entry) = spoilt {
                session.context.spoil(entry);
            }
        }
    }

    /// Whether any incident holds what is made from its members.
    pub(super) const fn is_holding(&self) -> bool {
        self.recovered.holding > 0
    }

    /// Puts a record in quarantine that was made from a member of an incident which holds its descendants. `changed`
    /// is the item that it changed.
    pub(super) fn hold(&mut self, record: &Record, changed: Option<(Namespace, Key)>) {
        let brought: Vec<Seq> = self.brought_to(record).collect();
        let Recovered { incidents, marks, .. } = &mut self.recovered;
        let holds = |id: &IncidentId| incidents.get(id).is_some_and(IncidentState::holds);
        let above = record.parents.iter().chain(&brought).filter_map(|parent| marks.get(parent));
        let out = above.flat_map(Standing::marks).filter(|(_, mark)| *mark >= Mark::Quarantined);
        let mut holders: Vec<IncidentId> = out.map(|(id, _)| id).filter(holds).collect();
        holders.sort_unstable();
        holders.dedup();
        if holders.is_empty() {
            return;
        }
        for id in holders {
            put(marks, record.seq, id, Mark::Quarantined);
        }
        if let By::Session(id) = record.by
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.context.spoil(record.seq);
        }
        let marks = &self.recovered.marks;
        if let Some((namespace, key)) = changed {
            let is_out = |entry: Seq| marks.get(&entry).is_some_and(Standing::is_out);
            self.items.look_again_at(&namespace, &key, is_out);
        }
    }
}

/// Whether a version can be retrieved: neither it nor the arrival of its content is out.
pub(super) fn is_kept(version: &Version, is_out: impl Fn(Seq) -> bool) -> bool {
    !is_out(version.entry) && !is_out(version.content.arrival)
}
