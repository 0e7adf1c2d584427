//! The action for an entry: the tier of its score, and never less than its floor.
//!
//! With floors the result depends on evidence and provenance first (R1, R2): a score can raise the action and never
//! lower it.

use std::collections::BTreeSet;

use custody_log::Seq;
use serde::{Deserialize, Serialize};

use crate::incident::IncidentClosure;
use crate::risk::RecoveryAction;
use crate::spare::SparedEntries;

/// What determined the action for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionReason {
    /// Its content is purged already. What derives from it gets an action all the same.
    AlreadyPurged,
    /// It brought weights into a model, and there is direct evidence against the weights or what they were trained on.
    BadWeights,
    /// There is direct evidence against it.
    DirectEvidence,
    /// There is direct evidence against it, but it is trusted, clean, and older than every untrusted entry that was
    /// found: what was found may quote it.
    OlderTrusted,
    /// It derives from an entry with direct evidence.
    Derived,
    /// It derives from the closure and was recorded after containment.
    Held,
    /// It only repeats trusted clean texts.
    Spared,
    /// The only evidence against it, or against what it derives from, is a similarity.
    OnlySimilar,
    /// Its score is in a higher tier than its floor.
    Score,
}

/// The action for `entry`, a member of the incident's closure, with a score in `tier`.
///
/// Source: docs/design.md §6.5.
pub fn grade(
    incident: &IncidentClosure<'_>,
    spared: &SparedEntries,
    older_trusted: &BTreeSet<Seq>,
    entry: Seq,
    tier: RecoveryAction,
) -> (RecoveryAction, ActionReason) {
    let graph = incident.closure().graph();
    let is_direct = incident.has_direct_evidence(entry);
    let is_bad = is_direct || is_trained_on_bad(incident, spared, entry);
    let (floor, reason) = if is_bad && graph.is_adapter_event(entry) {
        (RecoveryAction::Evict, ActionReason::BadWeights)
    } else if graph.is_purged(entry) {
        return (RecoveryAction::None, ActionReason::AlreadyPurged);
    } else if older_trusted.contains(&entry) {
        // A ceiling too: nothing destroys it unless somebody asks for that.
        return (RecoveryAction::Quarantine, ActionReason::OlderTrusted);
    } else if is_direct {
        (RecoveryAction::Purge, ActionReason::DirectEvidence)
    } else if spared.contains(entry) {
        // Sparing is also a ceiling: a covered text is flagged and kept.
        return (RecoveryAction::Flag, ActionReason::Spared);
    } else if incident.is_confirmed(entry) {
        (RecoveryAction::Quarantine, ActionReason::Derived)
    } else {
        (RecoveryAction::Flag, ActionReason::OnlySimilar)
    };
    if tier > floor { (tier, ActionReason::Score) } else { (floor, reason) }
}

/// Whether what an adapter was trained on is confirmed to be bad. Quarantine would leave it loaded.
fn is_trained_on_bad(incident: &IncidentClosure<'_>, spared: &SparedEntries, entry: Seq) -> bool {
    let graph = incident.closure().graph();
    graph.parents(entry).any(|parent| incident.is_confirmed(parent) && !spared.contains(parent))
}
