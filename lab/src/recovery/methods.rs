//! The methods that are compared, all on one record with the same evidence.

use std::collections::{BTreeMap, BTreeSet};

use custody_incident::{IncidentError, Incidents, Settings};
use custody_kernel::evidence::Finding;
use custody_kernel::state::Marks;
use custody_log::Seq;
use custody_planner::{
    Closure, Graph, MAX_SCORED, RecoveryAction, RiskConfig, WalkMode, rvu_v2_scores,
};
use custody_runtime::store::content_of;

use super::history::History;
use super::played::Played;
use crate::error::EvalError;
use crate::stopwatch::timed;

/// What a method did to every entry of a history.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    /// By the entry's number.
    pub(super) done: Vec<RecoveryAction>,
    /// How many entries the method reached.
    pub(super) closure: BTreeSet<usize>,
    /// From the indicators to the end.
    pub(super) seconds: f64,
    /// Of Custody, what is left on the disk.
    pub(super) at_rest: Option<u64>,
    /// Of Custody, the plan's own counts of what was spared.
    pub(super) spared: u64,
}

/// What became of a history by one method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) contaminated: u64,
    pub(super) benign: u64,
    /// Contaminated entries that nothing retrieves any more.
    pub(super) taken_out: u64,
    pub(super) reached: u64,
    /// Of those reached, contaminated ones.
    pub(super) reached_contaminated: u64,
    pub(super) benign_purged: u64,
    pub(super) benign_quarantined: u64,
}

impl Judged {
    pub(super) fn counts(&self, history: &History) -> Counts {
        let mut counts = Counts::default();
        for (at, action) in self.done.iter().enumerate() {
            let is_bad = history.is_contaminated(at);
            let is_reached = self.closure.contains(&at);
            counts.contaminated += u64::from(is_bad);
            counts.benign += u64::from(!is_bad);
            counts.taken_out += u64::from(is_bad && *action >= RecoveryAction::Quarantine);
            counts.reached += u64::from(is_reached);
            counts.reached_contaminated += u64::from(is_reached && is_bad);
            counts.benign_purged += u64::from(!is_bad && *action >= RecoveryAction::Purge);
            counts.benign_quarantined +=
                u64::from(!is_bad && *action == RecoveryAction::Quarantine);
        }
        counts
    }
}

/// Custody: what the store does, and not what the plan says it would.
pub(super) fn custody(played: &Played, history: &History) -> Result<Judged, EvalError> {
    let (store, owner) = (&played.scratch.store, &played.scratch.owner);
    let indicators = played.indicators(history);
    let (recovered, seconds) = timed(|| -> Result<_, EvalError> {
        let found = Incidents::of(store).find(&indicators)?;
        let opened = Incidents::of(store).open(owner, &indicators, found.findings)?.taken()?;
        let planned = opened.contain(owner)?.taken()?.plan(Settings::default())?;
        let applied = planned.apply(owner)?.taken()?;
        let at_rest = Incidents::of(store).sweep(applied.destroyed())?;
        Ok((applied, at_rest))
    });
    let (applied, at_rest) = recovered?;
    let members: BTreeSet<Seq> =
        applied.plan().entries.iter().map(|planned| planned.entry).collect();
    let mut done = Vec::with_capacity(played.seqs.len());
    for seq in &played.seqs {
        done.push(done_to(played, *seq)?);
    }
    let reached = played.seqs.iter().enumerate().filter(|(_, seq)| members.contains(seq));
    Ok(Judged {
        done,
        closure: reached.map(|(at, _)| at).collect(),
        seconds,
        at_rest: Some(at_rest.residue.iter().map(|residue| residue.windows).sum()),
        spared: applied.plan().counts.spared,
    })
}

/// What the store did to an entry: whether its text is destroyed, held back or still to be had.
fn done_to(played: &Played, seq: Seq) -> Result<RecoveryAction, EvalError> {
    let store = &played.scratch.store;
    let standing: Option<Marks> = store.state(|state| state.standing(seq).cloned())?;
    let record = store.record(seq)?;
    let text = content_of(&record).map(|content| store.retrieve(content)).transpose()?.flatten();
    Ok(match standing {
        Some(standing) if standing.is_purged() => RecoveryAction::Purge,
        // A mark alone is not enough: nothing may give the text away.
        Some(standing) if standing.is_out() => RecoveryAction::Quarantine,
        Some(_) if text.is_some() => RecoveryAction::Flag,
        None if text.is_some() => RecoveryAction::None,
        // Its text arrived with another entry, and went with that.
        Some(_) | None => RecoveryAction::Quarantine,
    })
}

/// The papers' first: everything within ten hops, in both directions, is purged.
pub(super) fn rvu_v1(played: &Played, found: &[Finding]) -> Result<Judged, EvalError> {
    let graph = Incidents::of(&played.scratch.store).graph()?;
    let (members, seconds) = timed(|| members(&graph, WalkMode::RvuV1, found));
    let members = members?;
    Ok(judged(
        played,
        &members.iter().map(|entry| (*entry, RecoveryAction::Purge)).collect(),
        seconds,
    ))
}

/// The papers' second: the same across adapters, scored, and done by tiers.
pub(super) fn rvu_v2(played: &Played, found: &[Finding]) -> Result<Judged, EvalError> {
    let graph = Incidents::of(&played.scratch.store).graph()?;
    let config = RiskConfig::default();
    let (actions, seconds) = timed(|| -> Result<_, EvalError> {
        let members = members(&graph, WalkMode::RvuV2, found)?;
        let contaminated: BTreeSet<Seq> = found.iter().map(|finding| finding.entry).collect();
        let mut actions = BTreeMap::new();
        for chunk in members.chunks(MAX_SCORED) {
            let scores = rvu_v2_scores(&graph, chunk, &contaminated, &BTreeMap::new(), &config)
                .map_err(|cause| EvalError::Setup(cause.to_string()))?;
            let tiers = scores.into_iter().map(|score| config.tier(score));
            actions.extend(chunk.iter().copied().zip(tiers));
        }
        Ok(actions)
    });
    Ok(judged(played, &actions?, seconds))
}

/// Everything since the first seed is taken back, as from a backup.
pub(super) fn rollback_by_time(played: &Played, found: &[Finding]) -> Judged {
    let first = found.iter().map(|finding| finding.entry).min().unwrap_or(Seq(u64::MAX));
    let since = played.seqs.iter().filter(|seq| **seq >= first);
    judged(played, &since.map(|seq| (*seq, RecoveryAction::Purge)).collect(), 0.0)
}

fn members(graph: &Graph, mode: WalkMode, found: &[Finding]) -> Result<Vec<Seq>, EvalError> {
    let seeds: Vec<Seq> = found.iter().map(|finding| finding.entry).collect();
    let closure = Closure::new(graph, mode, &seeds).map_err(IncidentError::from)?;
    Ok(closure.members().map(|member| member.entry).collect())
}

fn judged(played: &Played, actions: &BTreeMap<Seq, RecoveryAction>, seconds: f64) -> Judged {
    let reached = played.seqs.iter().enumerate().filter(|(_, seq)| actions.contains_key(seq));
    Judged {
        done: played.seqs.iter().map(|seq| actions.get(seq).copied().unwrap_or_default()).collect(),
        closure: reached.map(|(at, _)| at).collect(),
        seconds,
        at_rest: None,
        spared: 0,
    }
}
