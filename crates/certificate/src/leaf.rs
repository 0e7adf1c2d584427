//! The leaves of a certificate: one for each member of the closure and each possible origin, with all that the
//! certificate states about it, and the tree over them.
//!
//! A leaf is one object of canonical JSON. Its hash is that of RFC 9162, `SHA-256(0x00 ‖ leaf)`, and that of an inner
//! node `SHA-256(0x01 ‖ left ‖ right)`, so that neither can be taken for the other.

use std::borrow::Cow;
use std::iter::Peekable;

use custody_log::{Digest, Hash, MerkleTree, Seq, leaf_hash};
use serde::{Deserialize, Serialize};

use crate::entries::{
    IrreversibleEffect, ManifestEntry, Residual, RuntimeRecovery, SparedMember, Unfinished,
};
use crate::format::MAX_LISTED;
use crate::recovery::Recovery;
use crate::risk::{MemberRisk, RiskScores};

/// That a leaf is under the root: its place, and the siblings on the way up.
///
/// Source: RFC 9162 §2.1.3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryProof {
    /// The entry that the leaf is about.
    pub entry: Seq,
    /// The siblings on the way up, the lowest first.
    pub inclusion: Vec<Digest>,
    /// The place of the leaf among all of them, from 0.
    pub index: u64,
}

/// All entries of an incident: the root of the tree over them, and how many there are of each kind.
///
/// The tree has one leaf for each member and each possible origin, ascending by entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifiedEntries {
    /// Effects that cannot be undone.
    pub effects: u64,
    /// Members of the closure.
    pub members: u64,
    /// Ancestors of the seeds.
    pub possible_origins: u64,
    /// One for each member that stands inside the certificate, where not every leaf does; else none.
    pub proofs: Vec<EntryProof>,
    /// Members that are in quarantine.
    pub quarantined: u64,
    /// The root of the tree.
    pub root: Digest,
    /// Members that the evidence points at.
    pub seeds: u64,
    /// Members that were spared.
    pub spared: u64,
    /// Members whose action is not done.
    pub unfinished: u64,
}

impl CertifiedEntries {
    /// Counts the lists of `recovery`. The root is not taken, and nothing is proven.
    pub(crate) fn counted(recovery: &Recovery) -> Self {
        let Recovery { runtime_recovery: runtime, residual, spared, .. } = recovery;
        Self {
            effects: residual.effects.len() as u64,
            members: runtime.closure.members.len() as u64,
            possible_origins: runtime.closure.possible_origins.len() as u64,
            proofs: Vec::new(),
            quarantined: residual.quarantined.len() as u64,
            root: Digest([0; 32]),
            seeds: runtime.closure.seeds.len() as u64,
            spared: spared.len() as u64,
            unfinished: residual.unfinished.len() as u64,
        }
    }

    /// How many leaves the tree has.
    pub const fn leaves(&self) -> u64 {
        self.members.saturating_add(self.possible_origins)
    }
}

/// One leaf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Leaf<'a> {
    /// A member of the closure.
    Member(Box<MemberLeaf<'a>>),
    /// An ancestor of the seeds, to which nothing was done.
    PossibleOrigin(Seq),
}

/// All that is stated about a member.
///
/// Fields are declared in the order of RFC 8785.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberLeaf<'a> {
    effects: Cow<'a, [IrreversibleEffect]>,
    manifest: Cow<'a, ManifestEntry>,
    quarantined: bool,
    risk: Cow<'a, MemberRisk>,
    seed: bool,
    /// The trusted entries that cover it, where it was spared.
    spared: Option<Cow<'a, [Seq]>>,
    /// Why its action is not done, where it is not.
    unfinished: Option<Cow<'a, str>>,
}

impl Leaf<'_> {
    /// The entry that it is about.
    pub(crate) fn entry(&self) -> Seq {
        match self {
            Self::Member(member) => member.manifest.entry,
            Self::PossibleOrigin(entry) => *entry,
        }
    }

    fn hash(&self) -> serde_json::Result<Hash> {
        Ok(leaf_hash(&serde_json::to_vec(self)?))
    }
}

/// The leaves of a recovery whose parts agree, ascending.
pub(crate) fn leaves(recovery: &Recovery) -> impl Iterator<Item = Leaf<'_>> {
    let rows = &recovery.runtime_recovery.manifest_entries;
    let members = rows.iter().zip(&recovery.risk_scores.entries);
    let members = members.map(|(row, risk)| Leaf::Member(Box::new(member(recovery, row, risk))));
    let origins = recovery.runtime_recovery.closure.possible_origins.iter();
    let origins = origins.map(|entry| Leaf::PossibleOrigin(*entry));
    Merged { members: members.peekable(), origins: origins.peekable() }
}

/// Two ascending rows of leaves as one.
struct Merged<M: Iterator, O: Iterator> {
    members: Peekable<M>,
    origins: Peekable<O>,
}

impl<'a, M, O> Iterator for Merged<M, O>
where
    M: Iterator<Item = Leaf<'a>>,
    O: Iterator<Item = Leaf<'a>>,
{
    type Item = Leaf<'a>;

    fn next(&mut self) -> Option<Leaf<'a>> {
        let member = self.members.peek().map(Leaf::entry);
        match self.origins.peek().map(Leaf::entry) {
            Some(origin) if member.is_none_or(|member| origin < member) => self.origins.next(),
            _ => self.members.next(),
        }
    }
}

fn member<'a>(
    recovery: &'a Recovery,
    row: &'a ManifestEntry,
    risk: &'a MemberRisk,
) -> MemberLeaf<'a> {
    let Residual { effects, quarantined, unfinished } = &recovery.residual;
    let from = effects.partition_point(|effect| effect.entry < row.entry);
    let until = effects.partition_point(|effect| effect.entry <= row.entry);
    let spared = find(&recovery.spared, row.entry, |spared| spared.entry);
    let left = find(unfinished, row.entry, |left| left.entry);
    MemberLeaf {
        effects: effects.get(from..until).unwrap_or_default().into(),
        manifest: Cow::Borrowed(row),
        quarantined: is_in(quarantined, row.entry),
        risk: Cow::Borrowed(risk),
        seed: is_in(&recovery.runtime_recovery.closure.seeds, row.entry),
        spared: spared.map(|spared| spared.covered_by.as_slice().into()),
        unfinished: left.map(|left| left.why.as_str().into()),
    }
}

fn is_in(entries: &[Seq], entry: Seq) -> bool {
    entries.binary_search(&entry).is_ok()
}

fn find<T>(rows: &[T], entry: Seq, entry_of: impl Fn(&T) -> Seq) -> Option<&T> {
    let at = rows.binary_search_by_key(&entry, entry_of).ok()?;
    rows.get(at)
}

/// How many leaves a recovery has.
pub(crate) fn count(recovery: &Recovery) -> u64 {
    let runtime = &recovery.runtime_recovery;
    (runtime.manifest_entries.len() + runtime.closure.possible_origins.len()) as u64
}

/// The entries of a whole recovery as its certificate has them: the root and the counts, and the proofs of the leaves
/// that stand inside, where not all do.
pub(crate) fn certified(recovery: &Recovery) -> serde_json::Result<CertifiedEntries> {
    let hashes = leaves(recovery).map(|leaf| leaf.hash()).collect::<serde_json::Result<_>>()?;
    let tree = MerkleTree::new(hashes);
    let listed = listed(recovery).unwrap_or_default();
    let mut proofs = Vec::with_capacity(listed.len());
    if !listed.is_empty() {
        for (index, leaf) in leaves(recovery).enumerate() {
            let entry = leaf.entry();
            if is_in(&listed, entry)
                && let Some(inclusion) = tree.inclusion_proof(index)
            {
                let inclusion = inclusion.into_iter().map(Digest).collect();
                proofs.push(EntryProof { entry, inclusion, index: index as u64 });
            }
        }
    }
    Ok(CertifiedEntries {
        proofs,
        root: Digest(tree.root()),
        ..CertifiedEntries::counted(recovery)
    })
}

/// The hash of each leaf, with its entry.
pub(crate) fn hashes(
    recovery: &Recovery,
) -> impl Iterator<Item = serde_json::Result<(Seq, Hash)>> + '_ {
    leaves(recovery).map(|leaf| Ok((leaf.entry(), leaf.hash()?)))
}

/// The members that stand inside a certificate, ascending; `None` where every leaf does.
///
/// What is not done, what cannot be undone, what is in quarantine, what the evidence points at: the first
/// [`MAX_LISTED`] of each. And what probes looked for, which stands inside anyway.
fn listed(recovery: &Recovery) -> Option<Vec<Seq>> {
    if count(recovery) <= MAX_LISTED {
        return None;
    }
    let Residual { effects, quarantined, unfinished } = &recovery.residual;
    let most = usize::try_from(MAX_LISTED).unwrap_or(usize::MAX);
    let effects = effects.iter().map(|effect| effect.entry);
    let unfinished = unfinished.iter().map(|left| left.entry);
    let seeds = &recovery.runtime_recovery.closure.seeds;
    let mut listed: Vec<Seq> = effects
        .take(most)
        .chain(unfinished.take(most))
        .chain(quarantined.iter().copied().take(most))
        .chain(seeds.iter().copied().take(most))
        .chain(recovery.membership_probe.probes.iter().map(|probe| probe.target))
        .collect();
    listed.sort_unstable();
    listed.dedup();
    Some(listed)
}

/// A whole recovery with only those lists that stand inside its certificate.
pub(crate) fn inside(recovery: &Recovery) -> Cow<'_, Recovery> {
    let Some(listed) = listed(recovery) else { return Cow::Borrowed(recovery) };
    let Recovery { runtime_recovery: runtime, risk_scores, residual, spared, .. } = recovery;
    let mut closure = runtime.closure.clone();
    closure.members.retain(|entry| is_in(&listed, *entry));
    closure.seeds.retain(|entry| is_in(&listed, *entry));
    closure.possible_origins.clear();
    let rows = runtime.manifest_entries.iter().filter(|row| is_in(&listed, row.entry));
    let risks = risk_scores.entries.iter().filter(|row| is_in(&listed, row.entry));
    let effects = residual.effects.iter().filter(|row| is_in(&listed, row.entry));
    let quarantined = residual.quarantined.iter().filter(|entry| is_in(&listed, **entry));
    let unfinished = residual.unfinished.iter().filter(|row| is_in(&listed, row.entry));
    Cow::Owned(Recovery {
        runtime_recovery: RuntimeRecovery {
            closure,
            manifest_entries: rows.cloned().collect(),
            totals: runtime.totals,
        },
        risk_scores: RiskScores { entries: risks.copied().collect(), ..risk_scores.clone() },
        spared: spared.iter().filter(|row| is_in(&listed, row.entry)).cloned().collect(),
        residual: Residual {
            effects: effects.cloned().collect(),
            quarantined: quarantined.copied().collect(),
            unfinished: unfinished.cloned().collect(),
        },
        ..recovery.clone()
    })
}

/// The lists of a recovery, made again leaf by leaf.
#[derive(Debug)]
pub(crate) struct Lists {
    recovery: Recovery,
}

impl Lists {
    /// Without any leaf yet: all that `inside`, what stands inside of a certificate, does not say entry by entry.
    pub(crate) fn new(inside: &Recovery) -> Self {
        let mut recovery = inside.clone();
        let runtime = &mut recovery.runtime_recovery;
        runtime.closure.members.clear();
        runtime.closure.seeds.clear();
        runtime.closure.possible_origins.clear();
        runtime.manifest_entries.clear();
        recovery.risk_scores.entries.clear();
        recovery.spared.clear();
        recovery.residual = Residual::default();
        Self { recovery }
    }

    /// Adds the next leaf.
    pub(crate) fn push(&mut self, leaf: Leaf<'_>) {
        let Recovery { runtime_recovery: runtime, risk_scores, residual, spared, .. } =
            &mut self.recovery;
        let member = match leaf {
            Leaf::Member(member) => *member,
            Leaf::PossibleOrigin(entry) => return runtime.closure.possible_origins.push(entry),
        };
        let row = member.manifest.into_owned();
        let (entry, action) = (row.entry, row.action);
        runtime.closure.members.push(entry);
        runtime.manifest_entries.push(row);
        risk_scores.entries.push(member.risk.into_owned());
        if member.seed {
            runtime.closure.seeds.push(entry);
        }
        if member.quarantined {
            residual.quarantined.push(entry);
        }
        if let Some(covered_by) = member.spared {
            spared.push(SparedMember { covered_by: covered_by.into_owned(), entry });
        }
        if let Some(why) = member.unfinished {
            residual.unfinished.push(Unfinished { action, entry, why: why.into_owned() });
        }
        residual.effects.extend(member.effects.into_owned());
    }

    /// The recovery with every leaf that was added.
    pub(crate) fn finish(self) -> Recovery {
        self.recovery
    }
}
