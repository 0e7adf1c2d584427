//! The plan: everything that recovery would do, to be read before anything happens.
//!
//! Pure, and the same for the same record, evidence and settings, in whatever order they came. `apply` takes the
//! plan's [digest](Plan::digest), so that what is done is what was read.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::evidence::Finding;
use custody_kernel::key::Key;
use custody_kernel::namespace::Namespace;
use custody_kernel::score::Score;
use custody_log::{Digest, EntryId, Seq};
use serde::{Deserialize, Serialize};

use crate::closure::Reached;
use crate::facts::{ItemChange, ItemHistory, OutsideEffect, PlanBasis, PlanFacts, WaitingProposal};
use crate::grade::{ActionReason, grade};
use crate::graph::Graph;
use crate::incident::IncidentClosure;
use crate::risk::{AdapterInfluence, RecoveryAction, RiskConfig, RiskTerms};
use crate::share::{Counting, TooManyMembers, count_reached};
use crate::spare::{SparedEntries, SparedReason};

/// The format of the plans in this module. A reader refuses any other.
pub const PLAN_FORMAT: u8 = 1;

/// What recovery would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_FORMAT`].
    pub v: u8,
    /// How much there is of everything below.
    pub counts: PlanCounts,
    /// The record it was made on.
    pub basis: PlanBasis,
    /// The record that contained the incident, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contained: Option<Seq>,
    /// How risk was scored.
    pub risk: RiskConfig,
    /// How shares were counted.
    pub shares: Counting,
    /// The evidence, ascending.
    pub findings: Vec<Finding>,
    /// What is done to each entry of the closure, ascending.
    pub entries: Vec<PlannedEntry>,
    /// The entries that are kept because they say nothing new, ascending.
    pub spared: Vec<SparedEntry>,
    /// Where the evidence may have come from, ascending. Nothing is done to these.
    pub possible_origins: Vec<Seq>,
    /// What cannot be undone: calls of the closure that ran and changed something outside, ascending.
    pub irreversible: Vec<OutsideEffect>,
    /// The weights that the closure reached or that are evicted, ascending.
    pub weights: Vec<PlannedWeights>,
    /// Memory items and watched files with a version that is taken out, by namespace and key.
    pub rollbacks: Vec<Rollback>,
    /// What waits for a person and depends on the closure, ascending. It must not be approved as it is.
    pub approvals: Vec<EntryId>,
}

/// How much there is of everything in a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCounts {
    /// Entries in the closure.
    pub entries: u64,
    /// Of these, left as they are.
    pub none: u64,
    /// Flagged.
    pub flag: u64,
    /// Quarantined.
    pub quarantine: u64,
    /// Purged.
    pub purge: u64,
    /// Purged, with their weights.
    pub evict: u64,
    /// Of those flagged, spared.
    pub spared: u64,
    /// Possible origins.
    pub possible_origins: u64,
    /// Effects that cannot be undone.
    pub irreversible: u64,
    /// Weights that are unloaded everywhere.
    pub evicted_weights: u64,
    /// Weights that ought to be but are part of a model.
    pub fused_weights: u64,
    /// Memory items that are rolled back.
    pub items: u64,
    /// Watched files that are rolled back.
    pub files: u64,
    /// Approvals that must not be given.
    pub approvals: u64,
}

/// What is done to one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedEntry {
    /// Which.
    pub entry: Seq,
    /// What.
    pub action: RecoveryAction,
    /// Why.
    pub reason: ActionReason,
    /// R(e).
    pub score: Score,
    /// What the score is made of.
    pub terms: RiskTerms,
    /// How many hops it is from the nearest finding.
    pub depth: u32,
    /// By what it was reached first.
    pub reached: Reached,
}

/// An entry that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparedEntry {
    /// Which.
    pub entry: Seq,
    /// Why.
    pub because: SparedReason,
    /// The trusted entries that say what it says, ascending.
    pub covered_by: Vec<Seq>,
}

/// What becomes of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterAction {
    /// Every load is unloaded from every host.
    Evict,
    /// They ought to go and are part of a model: no unload takes them out of it (R12). What is loaded
    /// besides is unloaded; the model itself has to be replaced.
    CannotBeEvicted,
    /// A member of the closure loaded them, and nothing speaks against the weights themselves.
    Retain,
}

/// What is done to weights, by their hash: every load of them is one adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWeights {
    /// The hash of an adapter, or the name of a base that fusing made.
    pub weights: Digest,
    /// What becomes of them.
    pub fate: AdapterAction,
    /// Every load, or every fusion that made this base.
    pub loads: Vec<Seq>,
    /// Every fusion that made them part of a model.
    pub fusions: Vec<Seq>,
}

/// An item that is rolled back, or which had a version taken out of its past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Where it is.
    pub namespace: Namespace,
    /// Under which key.
    pub key: Key,
    /// The file that is rolled back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The versions that are taken out, ascending.
    pub out: Vec<Seq>,
    /// What it holds afterwards.
    pub to: RollbackTarget,
    /// Whether something clean was written after the first version that is taken out. Then rolling back keeps it.
    pub has_later_clean_writes: bool,
}

/// The last version of an item that stays and can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollbackTarget {
    /// The item holds it already.
    Current(Seq),
    /// This one, again.
    Version(Seq),
    /// It was deleted by this one, or there is none and it is deleted.
    Absent(Option<Seq>),
}

/// Why there is no plan.
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
    let planned = closure.members().zip(&count_reached.counts).map(|(member, reached)| {
        let entry = member.entry;
        let terms = RiskTerms {
            contaminated: incident.contamination(entry),
            influence: AdapterInfluence::on(graph, entry, measured),
            share: Score::share(u64::from(*reached), graph.len()),
        };
        let score = risk.score(&terms);
        let (action, reason) = match grade(incident, spared, entry, risk.tier(score)) {
            // Whatever it says, it was written while the incident was known.
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
    let entries: Vec<PlannedEntry> = planned.collect();
    let taken = Taken { graph, entries: &entries };
    let mut plan = Plan {
        v: PLAN_FORMAT,
        counts: PlanCounts::default(),
        basis: facts.basis,
        contained: facts.contained,
        risk: *risk,
        shares: count_reached.counting,
        findings: incident.findings().to_vec(),
        spared: spared_entries(spared),
        possible_origins: closure.possible_origins().collect(),
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
    let with_cover = |(entry, because)| SparedEntry {
        entry,
        because,
        covered_by: spared.covered_by(entry).to_vec(),
    };
    spared.entries().map(with_cover).collect()
}

impl Plan {
    /// SHA-256 over the JSON of what would be done, and to what. `apply` demands it.
    ///
    /// Left out is what moves with every entry that anybody adds to the record, and changes nothing that is done:
    /// its size, the scores, and whatever was made from the closure after it was contained. An attacker who keeps
    /// writing can thus not outrun a plan.
    ///
    /// # Errors
    /// Never for a plan that [`plan_recovery`] made: it holds text and finite numbers only.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(&serde_json::to_vec(&Decisive::of(self))?))
    }

    /// The entries that get `action`, ascending.
    pub fn with_action(&self, action: RecoveryAction) -> Vec<Seq> {
        let with = self.entries.iter().filter(|planned| planned.action == action);
        with.map(|planned| planned.entry).collect()
    }

    /// The weights that no host may load any more, ascending: also those that no unload takes out of a model.
    pub fn evicted(&self) -> Vec<Digest> {
        let evicted = self.weights.iter().filter(|weights| weights.fate != AdapterAction::Retain);
        evicted.map(|weights| weights.weights).collect()
    }

    fn counted(&self) -> PlanCounts {
        let of = |action| count(&self.entries, |planned| planned.action == action);
        let with = |fate| count(&self.weights, |weights| weights.fate == fate);
        let is_moved = |rollback: &Rollback| !matches!(rollback.to, RollbackTarget::Current(_));
        PlanCounts {
            entries: self.entries.len() as u64,
            none: of(RecoveryAction::None),
            flag: of(RecoveryAction::Flag),
            quarantine: of(RecoveryAction::Quarantine),
            purge: of(RecoveryAction::Purge),
            evict: of(RecoveryAction::Evict),
            spared: self.spared.len() as u64,
            possible_origins: self.possible_origins.len() as u64,
            irreversible: self.irreversible.len() as u64,
            evicted_weights: with(AdapterAction::Evict),
            fused_weights: with(AdapterAction::CannotBeEvicted),
            items: count(&self.rollbacks, |item| item.file.is_none() && is_moved(item)),
            files: count(&self.rollbacks, |item| item.file.is_some() && is_moved(item)),
            approvals: self.approvals.len() as u64,
        }
    }
}

/// What a plan's digest is over: whole numbers, words and names in one order, so that its JSON is always the same.
#[derive(Serialize)]
struct Decisive<'a> {
    v: u8,
    contained: Option<Seq>,
    findings: &'a [Finding],
    entries: Vec<(Seq, RecoveryAction, ActionReason)>,
    irreversible: Vec<&'a OutsideEffect>,
    weights: Vec<(Digest, AdapterAction)>,
    rollbacks: Vec<(&'a Namespace, &'a Key, Vec<Seq>)>,
}

impl<'a> Decisive<'a> {
    fn of(plan: &'a Plan) -> Self {
        let is_known = |entry: &Seq| plan.contained.is_none_or(|contained| *entry < contained);
        let entries = plan.entries.iter().filter(|planned| planned.reason != ActionReason::Held);
        let entries = entries.map(|planned| (planned.entry, planned.action, planned.reason));
        let out = |rollback: &'a Rollback| {
            let out: Vec<Seq> = rollback.out.iter().copied().filter(is_known).collect();
            (!out.is_empty()).then_some((&rollback.namespace, &rollback.key, out))
        };
        Self {
            v: plan.v,
            contained: plan.contained,
            findings: &plan.findings,
            entries: entries.collect(),
            irreversible: plan.irreversible.iter().filter(|e| is_known(&e.entry)).collect(),
            weights: plan.weights.iter().map(|weights| (weights.weights, weights.fate)).collect(),
            rollbacks: plan.rollbacks.iter().filter_map(out).collect(),
        }
    }
}

/// Whether an entry was made from the closure after that was contained. One that evidence points to is judged by it.
fn is_held(incident: &IncidentClosure<'_>, contained: Option<Seq>, entry: Seq) -> bool {
    contained.is_some_and(|contained| entry > contained) && !incident.has_direct_evidence(entry)
}

fn count<T>(of: &[T], which: impl Fn(&T) -> bool) -> u64 {
    of.iter().filter(|one| which(one)).count() as u64
}

/// The entries whose content is out of reach once the plan is applied.
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

    /// Whether the content of `version` is there to go back to.
    fn keeps(&self, version: &ItemChange) -> bool {
        let is_gone = |entry: Seq| self.graph.is_purged(entry);
        !self.takes(version) && !is_gone(version.entry) && !version.arrival.is_some_and(is_gone)
    }
}

fn irreversible(incident: &IncidentClosure<'_>, effects: &[OutsideEffect]) -> Vec<OutsideEffect> {
    let is_member = |effect: &&OutsideEffect| incident.closure().contains(effect.entry);
    let mut found: Vec<OutsideEffect> = effects.iter().filter(is_member).cloned().collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn approvals(incident: &IncidentClosure<'_>, waiting: &[WaitingProposal]) -> Vec<EntryId> {
    let is_member = |entry: &Seq| incident.closure().contains(*entry);
    let depends =
        |one: &&WaitingProposal| is_member(&one.entry) || one.depends_on.iter().any(is_member);
    let held: BTreeSet<EntryId> =
        waiting.iter().filter(depends).map(|waiting| waiting.proposal).collect();
    held.into_iter().collect()
}

/// The weights to evict are those an evicted entry was produced under or brought in, and every base made of them.
fn weights(incident: &IncidentClosure<'_>, entries: &[PlannedEntry]) -> Vec<PlannedWeights> {
    let graph = incident.closure().graph();
    let mut bad = BTreeSet::new();
    let evicted = entries.iter().filter(|planned| planned.action == RecoveryAction::Evict);
    let mut ahead: Vec<Digest> = evicted
        .flat_map(|planned| {
            // A load that is bad says nothing against the other adapters of its host.
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
    let planned = |weights: Digest| {
        let fusions: Vec<Seq> = graph.fusions(weights).collect();
        let is_in_a_model = !fusions.is_empty() || graph.is_base(weights);
        let fate = match (bad.contains(&weights), is_in_a_model) {
            (false, _) => AdapterAction::Retain,
            (true, false) => AdapterAction::Evict,
            (true, true) => AdapterAction::CannotBeEvicted,
        };
        PlannedWeights { weights, fate, loads: graph.loads(weights).collect(), fusions }
    };
    all.into_iter().map(planned).collect()
}

fn rollbacks(taken: &Taken<'_>, histories: &[ItemHistory]) -> Vec<Rollback> {
    let mut found: Vec<Rollback> =
        histories.iter().filter_map(|history| rollback(taken, history)).collect();
    found.sort_by(|one, other| (&one.namespace, &one.key).cmp(&(&other.namespace, &other.key)));
    found
}

/// `None` if no version is taken out.
fn rollback(taken: &Taken<'_>, history: &ItemHistory) -> Option<Rollback> {
    let mut versions = history.versions.clone();
    versions.sort_unstable_by_key(|version| version.entry);
    let is_out = |version: &&ItemChange| taken.takes(version);
    let out: Vec<Seq> = versions.iter().filter(is_out).map(|version| version.entry).collect();
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
