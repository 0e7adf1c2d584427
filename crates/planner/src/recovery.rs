//! Planning a recovery from the incident, the spared entries and the facts of the record.
//!
//! Pure and deterministic: the same record, evidence and settings give the same plan, in whatever order they came.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::evidence::older_trusted;
use custody_kernel::score::Score;
use custody_log::{Digest, EntryId, Seq};

use crate::facts::{
    ItemChange, ItemHistory, OutsideEffect, PlanFacts, RepeatedText, WaitingProposal,
};
use crate::grade::{ActionReason, grade};
use crate::graph::Graph;
use crate::incident::IncidentClosure;
use crate::plan::{
    AdapterAction, MAX_REPEATED, PLAN_FORMAT, Plan, PlanCounts, PlannedEntry, PlannedWeights,
    Rollback, RollbackTarget, SparedEntry,
};
use crate::risk::{AdapterInfluence, RecoveryAction, RiskConfig, RiskTerms};
use crate::share::{TooManyMembers, count_reached};
use crate::spare::SparedEntries;

/// A plan that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The graph is of another record than the facts.
    #[error("the graph has {graph} entries and the record {record}; read both at once")]
    OtherRecord {
        /// Entries of the graph.
        graph: u64,
        /// Entries of the record.
        record: u64,
    },
    /// The spared entries were found for other seeds.
    #[error("the spared entries are those of other evidence; find them again")]
    OtherSeeds,
    /// The closure is too large to be scored.
    #[error(transparent)]
    TooLarge(#[from] TooManyMembers),
}

/// Plans the recovery from `incident`. Reads its arguments and changes nothing.
///
/// `measured` is the influence of weights, by their hash; those it does not name were never measured.
///
/// # Errors
/// See [`PlanError`].
///
/// Source: docs/design.md §6.6 and §6.7.
pub fn plan_recovery(
    incident: &IncidentClosure<'_>,
    spared: &SparedEntries,
    measured: &BTreeMap<Digest, f64>,
    facts: &PlanFacts<'_>,
    risk: &RiskConfig,
) -> Result<Plan, PlanError> {
    let closure = incident.closure();
    let graph = closure.graph();
    if graph.len() != facts.basis.size {
        return Err(PlanError::OtherRecord { graph: graph.len(), record: facts.basis.size });
    }
    if !spared.is_for(incident) {
        return Err(PlanError::OtherSeeds);
    }
    let count_reached = count_reached(closure)?;
    let older_trusted = match facts.purge_trusted {
        true => BTreeSet::new(),
        false => older_trusted(incident.findings().iter(), |entry| {
            let at = facts.found.binary_search_by_key(&entry, |found| found.entry);
            at.ok().and_then(|at| facts.found.get(at)).map(|found| found.label)
        }),
    };
    let entries = closure.members().zip(&count_reached.counts).map(|(member, reached)| {
        let entry = member.entry;
        let terms = RiskTerms {
            contaminated: incident.contamination(entry),
            influence: AdapterInfluence::on(graph, entry, measured),
            share: Score::share(u64::from(*reached), graph.len()),
        };
        let score = risk.score(&terms);
        let (action, reason) =
            match grade(incident, spared, &older_trusted, entry, risk.tier(score)) {
                // It was written after the incident was contained, so its content is not considered.
                (action, _) if is_held(incident, facts.contained, entry) => {
                    (action.max(RecoveryAction::Quarantine), ActionReason::Held)
                }
                graded => graded,
            };
        PlannedEntry {
            entry,
            action,
            reason,
            score,
            terms,
            depth: member.depth,
            reached: member.reached,
        }
    });
    let entries: Vec<PlannedEntry> = entries.collect();
    let taken = Taken { graph, entries: &entries };
    let repeated = repeated_texts(incident, facts.repeated);
    let mut plan = Plan {
        v: PLAN_FORMAT,
        counts: PlanCounts { repeated: repeated.len() as u64, ..PlanCounts::default() },
        basis: facts.basis,
        contained: facts.contained,
        risk: *risk,
        shares: count_reached.counting,
        findings: incident.findings().to_vec(),
        found: facts.found.to_vec(),
        purge_trusted: facts.purge_trusted,
        spared: spared_entries(spared),
        possible_origins: closure.possible_origins().collect(),
        repeated: repeated.iter().take(MAX_REPEATED).copied().collect(),
        irreversible: irreversible(incident, facts.effects),
        weights: weights(incident, &entries),
        rollbacks: rollbacks(&taken, facts.histories),
        approvals: approvals(incident, facts.waiting),
        entries,
    };
    plan.counts = plan.counted();
    Ok(plan)
}

fn spared_entries(spared: &SparedEntries) -> Vec<SparedEntry> {
    let entries = spared.entries().map(|(entry, because)| SparedEntry {
        entry,
        because,
        covered_by: spared.covered_by(entry).to_vec(),
    });
    entries.collect()
}

/// Whether `entry` derives from the closure and was recorded after containment. An entry with direct evidence of its
/// own is graded by that.
fn is_held(incident: &IncidentClosure<'_>, contained: Option<Seq>, entry: Seq) -> bool {
    contained.is_some_and(|contained| entry > contained) && !incident.has_direct_evidence(entry)
}

/// The entries that the plan takes out.
struct Taken<'a> {
    graph: &'a Graph,
    /// Ascending.
    entries: &'a [PlannedEntry],
}

impl Taken<'_> {
    /// Whether the plan takes `entry` out.
    fn is_out(&self, entry: Seq) -> bool {
        let at = self.entries.binary_search_by_key(&entry, |planned| planned.entry);
        let planned = at.ok().and_then(|at| self.entries.get(at));
        planned.is_some_and(|planned| planned.action >= RecoveryAction::Quarantine)
    }

    /// Whether `version` is taken out, itself or with its content.
    fn takes(&self, version: &ItemChange) -> bool {
        self.is_out(version.entry) || version.arrival.is_some_and(|arrival| self.is_out(arrival))
    }

    /// Whether the content of `version` stays readable.
    fn keeps(&self, version: &ItemChange) -> bool {
        let entries = [Some(version.entry), version.arrival];
        !self.takes(version) && !entries.into_iter().flatten().any(|at| self.graph.is_purged(at))
    }
}

/// The entries outside the closure that repeat one of it, each once. Older trusted texts hold what they repeat, so that
/// is no reason to take them out, nor what was made from them.
fn repeated_texts(incident: &IncidentClosure<'_>, repeated: &[RepeatedText]) -> Vec<RepeatedText> {
    let closure = incident.closure();
    let reached =
        repeated.iter().filter(|one| closure.contains(one.of) && !closure.contains(one.entry));
    let mut found: Vec<RepeatedText> = reached.copied().collect();
    found.sort_unstable();
    found.dedup_by_key(|one| one.entry);
    found
}

fn irreversible(incident: &IncidentClosure<'_>, effects: &[OutsideEffect]) -> Vec<OutsideEffect> {
    let members = effects.iter().filter(|effect| incident.closure().contains(effect.entry));
    let mut found: Vec<OutsideEffect> = members.cloned().collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn approvals(incident: &IncidentClosure<'_>, waiting: &[WaitingProposal]) -> Vec<EntryId> {
    let closure = incident.closure();
    let dependent = waiting.iter().filter(|one| {
        closure.contains(one.entry) || one.depends_on.iter().any(|entry| closure.contains(*entry))
    });
    let proposals: BTreeSet<EntryId> = dependent.map(|waiting| waiting.proposal).collect();
    proposals.into_iter().collect()
}

/// The weights to evict are those that an evicted entry was produced under or brought in, and every base fused from
/// them.
fn weights(incident: &IncidentClosure<'_>, entries: &[PlannedEntry]) -> Vec<PlannedWeights> {
    let graph = incident.closure().graph();
    let mut bad = BTreeSet::new();
    let evicted = entries.iter().filter(|planned| planned.action == RecoveryAction::Evict);
    let mut ahead: Vec<Digest> = evicted
        .flat_map(|planned| {
            // Evidence against a load is no evidence against the other adapters of its host.
            let is_event = graph.is_adapter_event(planned.entry);
            let carried = graph.weights(planned.entry).filter(move |_| !is_event);
            carried.chain(graph.brings(planned.entry))
        })
        .collect();
    while let Some(weights) = ahead.pop() {
        if bad.insert(weights) {
            let fusions = graph.fusions(weights);
            ahead.extend(fusions.flat_map(|fusion| graph.brings(fusion)));
        }
    }
    let all: BTreeSet<Digest> = incident.closure().weights().chain(bad.iter().copied()).collect();
    let planned = all.into_iter().map(|weights| {
        let fusions: Vec<Seq> = graph.fusions(weights).collect();
        let is_in_a_model = !fusions.is_empty() || graph.is_base(weights);
        let fate = match (bad.contains(&weights), is_in_a_model) {
            (false, _) => AdapterAction::Retain,
            (true, false) => AdapterAction::Evict,
            (true, true) => AdapterAction::CannotBeEvicted,
        };
        PlannedWeights { weights, fate, loads: graph.loads(weights).collect(), fusions }
    });
    planned.collect()
}

fn rollbacks(taken: &Taken<'_>, histories: &[ItemHistory]) -> Vec<Rollback> {
    let mut found: Vec<Rollback> =
        histories.iter().filter_map(|history| rollback(taken, history)).collect();
    found.sort_by(|one, other| (&one.namespace, &one.key).cmp(&(&other.namespace, &other.key)));
    found
}

/// The rollback of one item; `None` if no version is taken out.
fn rollback(taken: &Taken<'_>, history: &ItemHistory) -> Option<Rollback> {
    let mut versions = history.versions.clone();
    versions.sort_unstable_by_key(|version| version.entry);
    let out = versions.iter().filter(|version| taken.takes(version));
    let out: Vec<Seq> = out.map(|version| version.entry).collect();
    let first_out = out.first()?;
    let last_clean = versions.iter().rev().find(|version| taken.keeps(version));
    let newest = versions.last().map(|version| version.entry);
    let to = match last_clean {
        Some(version) if Some(version.entry) == newest => RollbackTarget::Current(version.entry),
        Some(ItemChange { entry, arrival: Some(_) }) => RollbackTarget::Version(*entry),
        Some(ItemChange { entry, arrival: None }) => RollbackTarget::Absent(Some(*entry)),
        None => RollbackTarget::Absent(None),
    };
    let has_later_clean_writes = last_clean.is_some_and(|version| version.entry > *first_out);
    let ItemHistory { namespace, key, file, versions: _ } = history.clone();
    Some(Rollback { namespace, key, file, out, to, has_later_clean_writes })
}
