//! What the parts of a certificate must say of each other. A certificate that contradicts itself is refused by its
//! writer and by every reader, so a list cannot be shortened without its counts, nor a failure without the outcome.

use std::collections::BTreeSet;

use custody_log::{Digest, Seq};

use crate::adapters::EvictionMethod;
use crate::entries::{ActionTotals, MemberAction};
use crate::format::MAX_INTEGER;
use crate::recovery::Recovery;

/// Which parts do not agree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A closure without seeds: nothing was recovered from.
    #[error("the closure has no seed, so there is nothing to certify")]
    Empty,
    /// A recovery that the log knows nothing of.
    #[error("no record of the recovery is named")]
    NoRecord,
    /// A list is not ascending, or has something twice.
    #[error("`{list}` is not ascending")]
    Order {
        /// Which list.
        list: &'static str,
    },
    /// A list speaks of an entry that is no member of the closure.
    #[error("`{list}` names {entry}, which is no member of the closure")]
    NoMember {
        /// Which list.
        list: &'static str,
        /// The entry.
        entry: Seq,
    },
    /// A member is named as something outside.
    #[error("`{list}` names {entry}, which is a member of the closure")]
    Member {
        /// Which list.
        list: &'static str,
        /// The entry.
        entry: Seq,
    },
    /// A list has not exactly one row for each member.
    #[error("`{list}` does not have one row for each member of the closure")]
    Rows {
        /// Which list.
        list: &'static str,
    },
    /// The counts are not those of the manifest.
    #[error("`totals` are not those of the manifest")]
    Totals,
    /// A score does not follow from its terms.
    #[error("the score of {entry} does not follow from its terms")]
    Score {
        /// The entry.
        entry: Seq,
    },
    /// Weights or tiers that no score can be made with.
    #[error("the weights are not one together, or the tiers are not in order")]
    Tiers,
    /// An entry got less than its floor, or a spared one more than a flag.
    #[error("{entry} got `{}`, which its floor or its being spared does not allow", action.as_str())]
    Action {
        /// The entry.
        entry: Seq,
        /// Its action.
        action: MemberAction,
    },
    /// What is not done in the manifest is not what `unfinished` lists.
    #[error("`unfinished` is not what the manifest says is not done")]
    Unfinished,
    /// What is left in quarantine is not what the manifest put there.
    #[error("`quarantined` does not agree with the manifest about {entry}")]
    Quarantined {
        /// The entry.
        entry: Seq,
    },
    /// An adapter is attested twice or not at all, or a done eviction left one.
    #[error("the adapter `{weights}` is not attested as the manifest needs it")]
    Adapter {
        /// Its weights.
        weights: Digest,
    },
    /// A probe's maximum or verdict does not follow from its scores.
    #[error("the verdict of probe `{index}` does not follow from its highest score")]
    Probe {
        /// Which, counted from 0.
        index: usize,
    },
    /// The verdict over all probes does not follow from theirs.
    #[error("the verdict over all probes does not follow from theirs")]
    Verdict,
    /// The counts or the lists are not those of the entries under the root.
    #[error("the root, the counts or the lists are not those of the entries")]
    Entries,
    /// The outcome does not follow from the parts.
    #[error("the outcome does not follow from the parts")]
    Outcome,
    /// The subject is not the incident and the checkpoint after it.
    #[error("the subject is not this incident with the checkpoint after it")]
    Subject,
    /// An integer beyond 2⁵³, which two readers could read differently.
    #[error("`{field}` is beyond 2⁵³")]
    Number {
        /// Where.
        field: &'static str,
    },
    /// An entry that the log does not have.
    #[error("{entry} is beyond the end of the log")]
    BeyondLog {
        /// The entry.
        entry: Seq,
    },
    /// A record of the recovery that is older than the checkpoint before it.
    #[error("the record {seq} is older than the checkpoint before the recovery")]
    RecordBefore {
        /// The record.
        seq: Seq,
    },
}

/// Checks that the parts agree; the outcome and the entries are compared where they were read.
///
/// Where the lists are not whole, they are held to the same rules, and the counts to what they allow.
///
/// Source: docs/threats.md R23, R24, R25 and R37.
pub(crate) fn check(recovery: &Recovery, is_whole: bool) -> Result<(), Disagreement> {
    numbers(recovery)?;
    closure(recovery)?;
    manifest(recovery, is_whole)?;
    spared(recovery)?;
    residual(recovery)?;
    adapters(recovery)?;
    probes(recovery)?;
    risk(recovery)?;
    log(recovery)
}

fn numbers(recovery: &Recovery) -> Result<(), Disagreement> {
    let adapters = &recovery.adapter_attestation;
    let breaks = &recovery.audit.breaks;
    let largest = [
        ("time_ms", Some(recovery.time.0)),
        ("frontier", Some(recovery.runtime_recovery.closure.frontier)),
        ("loads", adapters.evicted.iter().map(|adapter| adapter.loads).max()),
        ("loads_left", adapters.unfinished.iter().map(|adapter| adapter.loads_left).max()),
        ("at_ms", breaks.iter().map(|found| found.at_ms.0).max()),
        ("head_size", breaks.iter().filter_map(|found| found.head_size).max()),
    ];
    let beyond = largest.into_iter().find(|(_, number)| number.is_some_and(|n| n > MAX_INTEGER));
    beyond.map_or(Ok(()), |(field, _)| Err(Disagreement::Number { field }))
}

fn closure(recovery: &Recovery) -> Result<(), Disagreement> {
    let closure = &recovery.runtime_recovery.closure;
    if closure.seeds.is_empty() {
        return Err(Disagreement::Empty);
    }
    ascending("members", closure.members.iter())?;
    ascending("seeds", closure.seeds.iter())?;
    ascending("possible_origins", closure.possible_origins.iter())?;
    members(recovery, "seeds", closure.seeds.iter())?;
    outside(recovery, "possible_origins", &closure.possible_origins)
}

fn manifest(recovery: &Recovery, is_whole: bool) -> Result<(), Disagreement> {
    let runtime = &recovery.runtime_recovery;
    let rows = runtime.manifest_entries.iter().map(|row| &row.entry);
    if !rows.eq(&runtime.closure.members) {
        return Err(Disagreement::Rows { list: "manifest_entries" });
    }
    for row in &runtime.manifest_entries {
        ascending("adapters", row.adapters.iter())?;
    }
    let listed = ActionTotals::of(&runtime.manifest_entries);
    let agrees =
        if is_whole { runtime.totals == listed } else { includes(&runtime.totals, &listed) };
    if agrees { Ok(()) } else { Err(Disagreement::Totals) }
}

/// Whether `totals` may be those of more entries than `listed` counts.
fn includes(totals: &ActionTotals, listed: &ActionTotals) -> bool {
    totals.counts().iter().zip(listed.counts()).all(|(all, listed)| {
        let left = all.planned.checked_sub(all.done);
        listed.done <= all.done && left >= listed.planned.checked_sub(listed.done)
    })
}

fn spared(recovery: &Recovery) -> Result<(), Disagreement> {
    ascending("spared", recovery.spared.iter().map(|spared| spared.entry))?;
    for spared in &recovery.spared {
        let (action, _) = planned(recovery, "spared", spared.entry)?;
        if action > MemberAction::Flag {
            return Err(Disagreement::Action { entry: spared.entry, action });
        }
        ascending("covered_by", spared.covered_by.iter())?;
        outside(recovery, "covered_by", &spared.covered_by)?;
    }
    Ok(())
}

fn residual(recovery: &Recovery) -> Result<(), Disagreement> {
    let residual = &recovery.residual;
    let rows = &recovery.runtime_recovery.manifest_entries;
    let calls = residual.effects.iter().map(|effect| (effect.entry, effect));
    ascending("effects", calls)?;
    members(recovery, "effects", residual.effects.iter().map(|effect| &effect.entry))?;
    let open = rows.iter().filter(|row| !row.done).map(|row| (row.entry, row.action));
    if !open.eq(residual.unfinished.iter().map(|left| (left.entry, left.action))) {
        return Err(Disagreement::Unfinished);
    }
    ascending("quarantined", residual.quarantined.iter())?;
    for entry in &residual.quarantined {
        let (action, done) = planned(recovery, "quarantined", *entry)?;
        // What waits for its purge may have been contained in the meantime.
        if done && action != MemberAction::Quarantine {
            return Err(Disagreement::Quarantined { entry: *entry });
        }
    }
    let put = rows.iter().filter(|row| row.done && row.action == MemberAction::Quarantine);
    match put.map(|row| row.entry).find(|e| residual.quarantined.binary_search(e).is_err()) {
        Some(entry) => Err(Disagreement::Quarantined { entry }),
        None => Ok(()),
    }
}

fn adapters(recovery: &Recovery) -> Result<(), Disagreement> {
    let attested = &recovery.adapter_attestation;
    ascending("evicted", attested.evicted.iter().map(|adapter| adapter.weights))?;
    ascending("fusion_warnings", attested.fusion_warnings.iter().map(|adapter| adapter.weights))?;
    ascending("retained", attested.retained.iter().map(|adapter| adapter.weights))?;
    ascending("unfinished", attested.unfinished.iter().map(|adapter| adapter.weights))?;
    let evicted = attested.evicted.iter().map(|adapter| adapter.weights);
    let fused = attested.fusion_warnings.iter().map(|adapter| adapter.weights);
    let retained: BTreeSet<Digest> =
        attested.retained.iter().map(|adapter| adapter.weights).collect();
    let unfinished = attested.unfinished.iter().map(|adapter| adapter.weights);

    let mut once = retained.clone();
    for weights in evicted.chain(fused).chain(unfinished) {
        if !once.insert(weights) {
            return Err(Disagreement::Adapter { weights });
        }
    }
    for adapter in &attested.evicted {
        if (adapter.method == EvictionMethod::Unloaded) != (adapter.loads > 0) {
            return Err(Disagreement::Adapter { weights: adapter.weights });
        }
    }
    let gone: BTreeSet<Digest> = attested.evicted.iter().map(|adapter| adapter.weights).collect();
    for row in &recovery.runtime_recovery.manifest_entries {
        let evicts = row.action == MemberAction::Evict;
        let missing = row.adapters.iter().find(|weights| {
            !once.contains(*weights)
                || (evicts && retained.contains(*weights))
                || (evicts && row.done && !gone.contains(*weights))
        });
        if let Some(weights) = missing {
            return Err(Disagreement::Adapter { weights: *weights });
        }
    }
    Ok(())
}

fn probes(recovery: &Recovery) -> Result<(), Disagreement> {
    let probes = &recovery.membership_probe;
    members(recovery, "probes", probes.probes.iter().map(|probe| &probe.target))?;
    if let Some(index) = probes.probes.iter().position(|probe| !probe.agrees()) {
        return Err(Disagreement::Probe { index });
    }
    if probes.agrees() { Ok(()) } else { Err(Disagreement::Verdict) }
}

fn risk(recovery: &Recovery) -> Result<(), Disagreement> {
    let risk = &recovery.risk_scores;
    let runtime = &recovery.runtime_recovery;
    if !risk.is_ordered() {
        return Err(Disagreement::Tiers);
    }
    if !risk.entries.iter().map(|row| &row.entry).eq(&runtime.closure.members) {
        return Err(Disagreement::Rows { list: "risk_scores" });
    }
    for (row, planned) in risk.entries.iter().zip(&runtime.manifest_entries) {
        if !risk.explains(row) {
            return Err(Disagreement::Score { entry: row.entry });
        }
        if planned.action < row.floor {
            let (entry, action) = (row.entry, planned.action);
            return Err(Disagreement::Action { entry, action });
        }
    }
    Ok(())
}

fn log(recovery: &Recovery) -> Result<(), Disagreement> {
    let audit = &recovery.audit;
    if audit.records.is_empty() {
        return Err(Disagreement::NoRecord);
    }
    ascending("records", audit.records.iter().map(|record| record.seq))?;
    ascending("breaks", audit.breaks.iter().map(|found| found.seq))
}

/// What the manifest says of an entry: its action, and whether it is done.
fn planned(
    recovery: &Recovery,
    list: &'static str,
    entry: Seq,
) -> Result<(MemberAction, bool), Disagreement> {
    let rows = &recovery.runtime_recovery.manifest_entries;
    let at = rows.binary_search_by_key(&entry, |row| row.entry).ok();
    let row = at.and_then(|at| rows.get(at)).ok_or(Disagreement::NoMember { list, entry })?;
    Ok((row.action, row.done))
}

fn members<'a>(
    recovery: &Recovery,
    list: &'static str,
    mut entries: impl Iterator<Item = &'a Seq>,
) -> Result<(), Disagreement> {
    let members = &recovery.runtime_recovery.closure.members;
    match entries.find(|entry| members.binary_search(entry).is_err()) {
        Some(entry) => Err(Disagreement::NoMember { list, entry: *entry }),
        None => Ok(()),
    }
}

fn outside(recovery: &Recovery, list: &'static str, entries: &[Seq]) -> Result<(), Disagreement> {
    let members = &recovery.runtime_recovery.closure.members;
    match entries.iter().find(|entry| members.binary_search(entry).is_ok()) {
        Some(entry) => Err(Disagreement::Member { list, entry: *entry }),
        None => Ok(()),
    }
}

fn ascending<T: PartialOrd>(
    list: &'static str,
    items: impl Iterator<Item = T>,
) -> Result<(), Disagreement> {
    if items.is_sorted_by(|one, next| one < next) {
        Ok(())
    } else {
        Err(Disagreement::Order { list })
    }
}
