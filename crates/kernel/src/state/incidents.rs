//! Incidents as far as they got, and the marks that they made.
//!
//! A mark is on an entry; what an item holds follows from the marks. It holds the newest of its versions that is not
//! out, so rolling back and restoring are one rule, and restoring gives back exactly what was there.

use std::collections::{BTreeMap, BTreeSet};

use custody_log::{Digest, IncidentId, Seq, Timestamp};

use super::State;
use crate::evidence::Finding;
use crate::lists::is_in;
use crate::memory::item::Version;
use crate::memory::review::Pending;

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
pub struct Marks {
    first: (IncidentId, Mark),
    more: Vec<(IncidentId, Mark)>,
}

impl Marks {
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

/// One incident, as far as it got.
#[derive(Debug, Clone)]
pub struct IncidentState {
    /// The id of the incident.
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
    /// What was applied last, or is being applied.
    pub applied: Option<AppliedPlan>,
    /// How many entries that plan still has to do something to; 0 when it is applied.
    pub left: u64,
    /// How many steps were taken.
    pub steps: u64,
    /// Every record of a restoring.
    pub restored: Vec<Seq>,
    /// The last record of probes.
    pub probed: Option<Seq>,
    /// The last certificate, and its record.
    pub certified: Option<(Seq, Digest)>,
    /// Whether what is made from its members is put in quarantine at once.
    pub(crate) holds: bool,
}

impl IncidentState {
    /// An incident that begins with the record `opened`.
    pub(crate) const fn opened(id: IncidentId, opened: Seq, at: Timestamp) -> Self {
        Self {
            id,
            opened,
            at,
            indicated: Vec::new(),
            findings: Vec::new(),
            contained: None,
            applied: None,
            left: 0,
            steps: 0,
            restored: Vec::new(),
            probed: None,
            certified: None,
            holds: false,
        }
    }

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
pub(crate) struct Recovered {
    pub(crate) incidents: BTreeMap<IncidentId, IncidentState>,
    pub(crate) marks: BTreeMap<Seq, Marks>,
    /// The entries that joins of contexts stand for.
    joins: BTreeMap<Seq, Vec<Seq>>,
    /// The marks of joins, which follow from those of the entries that they stand for.
    join_marks: BTreeMap<Seq, Marks>,
    /// How many incidents hold what is made from their members.
    pub(crate) holding: usize,
    /// The records that hold texts of recovery itself.
    pub(crate) own: BTreeSet<Seq>,
    /// Every certificate of the store, the oldest first.
    pub(crate) certificates: Vec<Digest>,
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
    pub fn standing(&self, entry: Seq) -> Option<&Marks> {
        self.recovered.standing(entry)
    }

    /// Whether `entry` stands for what a session had read, and is nothing by itself.
    pub fn is_join(&self, entry: Seq) -> bool {
        self.recovered.joins.contains_key(&entry)
    }

    /// Every entry with a mark, ascending.
    pub fn marked(&self) -> impl Iterator<Item = (Seq, &Marks)> {
        self.recovered.marks.iter().map(|(entry, standing)| (*entry, standing))
    }

    /// Whether no way of retrieval finds `entry`: it is in quarantine, or destroyed.
    pub fn is_out(&self, entry: Seq) -> bool {
        self.standing(entry).is_some_and(Marks::is_out)
    }

    /// Whether the content of `entry` is destroyed.
    pub fn is_purged(&self, entry: Seq) -> bool {
        self.standing(entry).is_some_and(Marks::is_purged)
    }

    /// The first entry of a proposal that is out: what it asks must not happen until that is restored.
    pub(crate) fn held_back(&self, pending: &Pending) -> Option<Seq> {
        let value = pending.value.map(|value| value.arrival);
        let named = pending.dependencies.iter().copied();
        let mut all = [pending.entry].into_iter().chain(value).chain(named);
        all.find(|entry| self.is_out(*entry))
    }

    /// Whether any incident holds what is made from its members.
    pub(crate) const fn is_holding(&self) -> bool {
        self.recovered.holding > 0
    }
}

impl Recovered {
    /// The marks of an entry or a join.
    pub(crate) fn standing(&self, entry: Seq) -> Option<&Marks> {
        self.marks.get(&entry).or_else(|| self.join_marks.get(&entry))
    }

    /// Whether `entry` is out, by the marks of any incident.
    pub(crate) fn is_out(&self, entry: Seq) -> bool {
        self.standing(entry).is_some_and(Marks::is_out)
    }

    /// Lets `join` stand for `entries`.
    pub(crate) fn join(&mut self, join: Seq, entries: Vec<Seq>) {
        self.mark_join(join, &entries);
        self.joins.insert(join, entries);
    }

    /// Lets the marks of joins follow those of the entries in `marked`, ascending, that they stand for.
    pub(crate) fn mark_joins(&mut self, marked: &[Seq]) {
        let joins = std::mem::take(&mut self.joins);
        let mut changed = BTreeSet::new();
        for (join, entries) in &joins {
            // A join may stand for joins before it.
            if entries.iter().any(|entry| is_in(marked, entry) || changed.contains(entry)) {
                self.join_marks.remove(join);
                self.mark_join(*join, entries);
                changed.insert(*join);
            }
        }
        self.joins = joins;
    }

    /// A join is out where one of its entries is, for the same incidents.
    fn mark_join(&mut self, join: Seq, entries: &[Seq]) {
        let standing = entries.iter().filter_map(|entry| self.standing(*entry));
        let out = standing.flat_map(Marks::marks).filter(|(_, mark)| *mark >= Mark::Quarantined);
        let by: BTreeSet<IncidentId> = out.map(|(incident, _)| incident).collect();
        let mut marks = by.into_iter().map(|incident| (incident, Mark::Quarantined));
        if let Some(first) = marks.next() {
            self.join_marks.insert(join, Marks { first, more: marks.collect() });
        }
    }

    /// Puts a mark on an entry.
    pub(crate) fn mark(&mut self, entry: Seq, incident: IncidentId, mark: Mark) {
        let marks = self
            .marks
            .entry(entry)
            .or_insert_with(|| Marks { first: (incident, mark), more: Vec::new() });
        marks.mark(incident, mark);
    }
}

/// Whether a version can be retrieved: neither it nor the arrival of its content is out.
pub(super) fn is_kept(version: &Version, is_out: impl Fn(Seq) -> bool) -> bool {
    !is_out(version.entry) && !is_out(version.content.arrival)
}
