//! The plan: everything that a recovery would do, for a person to read before anything is changed.
//!
//! Applying a plan requires its [digest](Plan::digest), so exactly the plan that was read is applied.

use custody_kernel::evidence::Finding;
use custody_kernel::key::Key;
use custody_kernel::namespace::Namespace;
use custody_kernel::score::Score;
use custody_log::{Digest, EntryId, Seq};
use serde::{Deserialize, Serialize};

use crate::closure::Reached;
use crate::facts::{FoundEntry, OutsideEffect, PlanBasis, RepeatedText};
use crate::grade::ActionReason;
use crate::risk::{RecoveryAction, RiskConfig, RiskTerms};
use crate::share::Counting;
use crate::spare::SparedReason;

/// The format of the plans in this module. A reader refuses any other.
pub const PLAN_FORMAT: u8 = 1;

/// How many entries that only repeat the closure a plan lists. A page that quotes a public prompt may have as many as
/// there are sessions.
pub const MAX_REPEATED: usize = 1_024;

/// Everything that a recovery would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_FORMAT`].
    pub v: u8,
    /// The sizes of the lists below.
    pub counts: PlanCounts,
    /// The record from which the plan was made.
    pub basis: PlanBasis,
    /// The record that contained the incident, if it is contained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contained: Option<Seq>,
    /// The weights and tiers of the risk score.
    pub risk: RiskConfig,
    /// Whether shares are exact or estimated.
    pub shares: Counting,
    /// The evidence, ascending.
    pub findings: Vec<Finding>,
    /// The entries that were found, with label and time, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<FoundEntry>,
    /// Whether trusted findings that are older than every untrusted one are purged too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purge_trusted: bool,
    /// The action for each entry of the closure, ascending.
    pub entries: Vec<PlannedEntry>,
    /// The entries that are kept because they only repeat trusted texts, ascending.
    pub spared: Vec<SparedEntry>,
    /// The entries from which the evidence may derive, ascending. The plan has no action for them.
    pub possible_origins: Vec<Seq>,
    /// The entries outside the closure that repeat one of it, in words that older trusted texts hold too; ascending,
    /// at most [`MAX_REPEATED`]. The plan has no action for them: a person may add one to the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedText>,
    /// The effects that cannot be undone: calls of the closure that ran and changed something outside, ascending.
    pub irreversible: Vec<OutsideEffect>,
    /// The weights that the closure reached or that are evicted, ascending by hash.
    pub weights: Vec<PlannedWeights>,
    /// Memory items and watched files with a version that is taken out, by namespace and key.
    pub rollbacks: Vec<Rollback>,
    /// The proposals that wait for approval and depend on the closure, ascending. They must not be approved.
    pub approvals: Vec<EntryId>,
}

/// The sizes of the lists of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCounts {
    /// Entries in the closure.
    pub entries: u64,
    /// Entries without an action.
    pub none: u64,
    /// Entries that are flagged, the spared ones included.
    pub flag: u64,
    /// Entries that are quarantined.
    pub quarantine: u64,
    /// Entries that are purged.
    pub purge: u64,
    /// Entries that are purged and whose weights are evicted.
    pub evict: u64,
    /// Entries that are spared.
    pub spared: u64,
    /// Possible origins.
    pub possible_origins: u64,
    /// Entries outside the closure that repeat one of it, those that are not listed included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
    /// Effects that cannot be undone.
    pub irreversible: u64,
    /// Weights that are unloaded from every host.
    pub evicted_weights: u64,
    /// Weights to evict that are fused into a model.
    pub fused_weights: u64,
    /// Memory items that are rolled back.
    pub items: u64,
    /// Watched files that are rolled back.
    pub files: u64,
    /// Approvals that must not be given.
    pub approvals: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The action for one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedEntry {
    /// The entry.
    pub entry: Seq,
    /// The action.
    pub action: RecoveryAction,
    /// What determined the action.
    pub reason: ActionReason,
    /// The risk R(e), in [0, 1].
    pub score: Score,
    /// The terms of the score.
    pub terms: RiskTerms,
    /// Hops from the nearest finding; 0 for a finding.
    pub depth: u32,
    /// The kind of edge that reached it first.
    pub reached: Reached,
}

/// An entry that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparedEntry {
    /// The entry.
    pub entry: Seq,
    /// The reason.
    pub because: SparedReason,
    /// The trusted entries that contain its sentences, ascending.
    pub covered_by: Vec<Seq>,
}

/// The action for weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterAction {
    /// Every load is unloaded from every host.
    Evict,
    /// They are to be evicted but are fused into a model, which no unload undoes (R12). Other loads are unloaded; the
    /// model has to be replaced.
    CannotBeEvicted,
    /// A member of the closure loaded them, and there is no evidence against the weights.
    Retain,
}

/// The action for weights, by their hash: every load of the same weights is the same adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWeights {
    /// The hash of an adapter, or the name of a base that fusing produced.
    pub weights: Digest,
    /// The action.
    pub fate: AdapterAction,
    /// Every load, or every fusion that produced this base.
    pub loads: Vec<Seq>,
    /// Every fusion of the weights into a model.
    pub fusions: Vec<Seq>,
}

/// An item with a version that is taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The namespace of the item.
    pub namespace: Namespace,
    /// The key of the item.
    pub key: Key,
    /// The watched file that is rolled back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The versions that are taken out, ascending.
    pub out: Vec<Seq>,
    /// The version that the item has afterwards.
    pub to: RollbackTarget,
    /// Whether a clean version was written after the first one that is taken out. The rollback keeps it.
    pub has_later_clean_writes: bool,
}

/// The last version of an item that stays and can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollbackTarget {
    /// The current version, which stays.
    Current(Seq),
    /// An earlier version, restored.
    Version(Seq),
    /// No value: this version deleted it, or no version is left.
    Absent(Option<Seq>),
}

impl Plan {
    /// SHA-256 over the JSON of the planned actions. Applying a plan requires it.
    ///
    /// It leaves out what changes with every new entry of the record and does not change an action: the size of the
    /// record, the scores, and entries derived from the closure after containment. An attacker who keeps writing
    /// therefore cannot invalidate a plan.
    ///
    /// # Errors
    /// Never for a plan that [`plan_recovery`](crate::recovery::plan_recovery) made: it holds text and
    /// finite numbers only.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(&serde_json::to_vec(&Decisive::of(self))?))
    }

    /// The entries that get `action`, ascending.
    pub fn with_action(&self, action: RecoveryAction) -> Vec<Seq> {
        let with = self.entries.iter().filter(|planned| planned.action == action);
        with.map(|planned| planned.entry).collect()
    }

    /// The weights that no host may load any more, ascending, including those that are fused into a model.
    pub fn evicted(&self) -> Vec<Digest> {
        let evicted = self.weights.iter().filter(|weights| weights.fate != AdapterAction::Retain);
        evicted.map(|weights| weights.weights).collect()
    }

    /// Whether `entry` was recorded before the incident was contained.
    fn is_before_containment(&self, entry: Seq) -> bool {
        self.contained.is_none_or(|contained| entry < contained)
    }

    /// The part of a rollback that the digest covers; `None` if every version is from after containment.
    fn decisive_rollback<'a>(&self, rollback: &'a Rollback) -> Option<DecisiveRollback<'a>> {
        let out = rollback.out.iter().copied().filter(|entry| self.is_before_containment(*entry));
        let out: Vec<Seq> = out.collect();
        (!out.is_empty()).then_some((&rollback.namespace, &rollback.key, out))
    }

    /// The sizes of the lists.
    pub(crate) fn counted(&self) -> PlanCounts {
        let (files, items): (Vec<&Rollback>, Vec<&Rollback>) = self
            .rollbacks
            .iter()
            .filter(|rollback| !matches!(rollback.to, RollbackTarget::Current(_)))
            .partition(|rollback| rollback.file.is_some());
        PlanCounts {
            entries: self.entries.len() as u64,
            none: self.count_action(RecoveryAction::None),
            flag: self.count_action(RecoveryAction::Flag),
            quarantine: self.count_action(RecoveryAction::Quarantine),
            purge: self.count_action(RecoveryAction::Purge),
            evict: self.count_action(RecoveryAction::Evict),
            spared: self.spared.len() as u64,
            possible_origins: self.possible_origins.len() as u64,
            repeated: self.counts.repeated,
            irreversible: self.irreversible.len() as u64,
            evicted_weights: self.count_weights(AdapterAction::Evict),
            fused_weights: self.count_weights(AdapterAction::CannotBeEvicted),
            items: items.len() as u64,
            files: files.len() as u64,
            approvals: self.approvals.len() as u64,
        }
    }

    fn count_action(&self, action: RecoveryAction) -> u64 {
        self.entries.iter().filter(|planned| planned.action == action).count() as u64
    }

    fn count_weights(&self, fate: AdapterAction) -> u64 {
        self.weights.iter().filter(|weights| weights.fate == fate).count() as u64
    }
}

/// The part of a plan that its digest covers. It has whole numbers, words and names in a fixed order, so its JSON is
/// deterministic.
#[derive(Serialize)]
struct Decisive<'a> {
    v: u8,
    contained: Option<Seq>,
    findings: &'a [Finding],
    entries: Vec<(Seq, RecoveryAction, ActionReason)>,
    irreversible: Vec<&'a OutsideEffect>,
    weights: Vec<(Digest, AdapterAction)>,
    rollbacks: Vec<DecisiveRollback<'a>>,
}

type DecisiveRollback<'a> = (&'a Namespace, &'a Key, Vec<Seq>);

impl<'a> Decisive<'a> {
    fn of(plan: &'a Plan) -> Self {
        let entries = plan.entries.iter().filter(|planned| planned.reason != ActionReason::Held);
        let entries = entries.map(|planned| (planned.entry, planned.action, planned.reason));
        let irreversible =
            plan.irreversible.iter().filter(|effect| plan.is_before_containment(effect.entry));
        Self {
            v: plan.v,
            contained: plan.contained,
            findings: &plan.findings,
            entries: entries.collect(),
            irreversible: irreversible.collect(),
            weights: plan.weights.iter().map(|weights| (weights.weights, weights.fate)).collect(),
            rollbacks: plan
                .rollbacks
                .iter()
                .filter_map(|one| plan.decisive_rollback(one))
                .collect(),
        }
    }
}
