//! What a certificate claims about its store, one statement at a time, so that whoever has the store can compare each
//! and say which no longer hold.

use std::fmt;

use custody_log::{Checkpoint, Digest, Seq};

use crate::adapters::{Evicted, EvictionMethod, Fused, Retained, StillLoaded};
use crate::audit::{IncludedRecord, LedgerBreak};
use crate::entries::{ClosureMode, IrreversibleEffect, ManifestEntry, MemberAction, SparedMember};
use crate::leaf::CertifiedEntries;
use crate::probe::MembershipProbe;
use crate::risk::MemberRisk;
use crate::statement::Certificate;

/// One thing that the store can confirm or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<'a> {
    /// The log's first [`size`](Checkpoint::size) records have this root.
    Log(&'a Checkpoint),
    /// The record at this position has this leaf hash.
    Record(&'a IncludedRecord),
    /// The log holds this adoption.
    Break(&'a LedgerBreak),
    /// The log of the later checkpoint holds no adoption but these.
    OnlyBreaks(&'a [LedgerBreak]),
    /// No newer certificate of the store was signed than the one with this digest.
    Newest(Digest),
    /// The policy in force when the certificate was made.
    Policy(Digest),
    /// The incident has these entries. Stated only where they are not all listed, which leaves out the claim about the
    /// closure.
    Entries(&'a CertifiedEntries),
    /// From these seeds the closure has exactly these members.
    Closure {
        /// How it is taken.
        mode: ClosureMode,
        /// From where.
        seeds: &'a [Seq],
        /// What it reaches.
        members: &'a [Seq],
    },
    /// The entry is of this kind, holds this content, was made under these adapters, and this was done to it.
    Entry(&'a ManifestEntry),
    /// The entry's score has these terms.
    Risk(&'a MemberRisk),
    /// Trusted entries hold all that this one says.
    Spared(&'a SparedMember),
    /// The entry is in quarantine.
    Quarantined(Seq),
    /// This call was made and stands.
    Effect(&'a IrreversibleEffect),
    /// No host has these weights loaded.
    Evicted(&'a Evicted),
    /// These weights are part of this base.
    Fused(&'a Fused),
    /// These weights are still loaded.
    StillLoaded(&'a StillLoaded),
    /// Nothing was done to these weights.
    Retained(&'a Retained),
    /// Probes found this: it is what their report on the record says.
    Probes(&'a MembershipProbe),
}

impl Claim<'_> {
    /// What it is about, in one word for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Log(_) => "log",
            Self::Record(_) => "record",
            Self::Break(_) => "break",
            Self::OnlyBreaks(_) => "only_breaks",
            Self::Newest(_) => "newest",
            Self::Policy(_) => "policy",
            Self::Entries(_) => "entries",
            Self::Closure { .. } => "closure",
            Self::Entry(_) => "entry",
            Self::Risk(_) => "risk",
            Self::Spared(_) => "spared",
            Self::Quarantined(_) => "quarantined",
            Self::Effect(_) => "effect",
            Self::Evicted(_) => "evicted",
            Self::Fused(_) => "fused",
            Self::StillLoaded(_) => "still_loaded",
            Self::Retained(_) => "retained",
            Self::Probes(_) => "probes",
        }
    }

    /// The entry it is about, if it is about one.
    pub fn entry(&self) -> Option<Seq> {
        match self {
            Self::Record(record) => Some(record.seq),
            Self::Break(found) => Some(found.seq),
            Self::Entry(row) => Some(row.entry),
            Self::Risk(row) => Some(row.entry),
            Self::Spared(row) => Some(row.entry),
            Self::Quarantined(entry) => Some(*entry),
            Self::Effect(effect) => Some(effect.entry),
            Self::Log(_)
            | Self::Entries(_)
            | Self::OnlyBreaks(_)
            | Self::Newest(_)
            | Self::Policy(_)
            | Self::Closure { .. }
            | Self::Evicted(_)
            | Self::Fused(_)
            | Self::StillLoaded(_)
            | Self::Retained(_)
            | Self::Probes(_) => None,
        }
    }
}

impl fmt::Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(log) => {
                write!(f, "the first {} records have the root {}", log.size, Digest(log.root))
            }
            Self::Record(record) => write!(f, "{} is the record {}", record.seq, record.leaf),
            Self::Break(found) => write!(f, "{} is an adoption of the ledger", found.seq),
            Self::Newest(_) => f.write_str("it is the store's newest certificate"),
            Self::OnlyBreaks([]) => f.write_str("the ledger was never adopted"),
            Self::OnlyBreaks(breaks) => {
                write!(f, "the ledger was adopted {} times and no more", breaks.len())
            }
            Self::Policy(digest) => write!(f, "the policy was {digest}"),
            Self::Entries(entries) => {
                write!(f, "the {} entries have the root {}", entries.leaves(), entries.root)
            }
            Self::Closure { members, seeds, .. } => {
                write!(f, "{} seeds reach {} entries", seeds.len(), members.len())
            }
            Self::Entry(ManifestEntry { action, done: true, entry, .. }) => {
                write!(f, "{entry} {}", in_the_past(*action))
            }
            Self::Entry(ManifestEntry { entry, .. }) => write!(f, "{entry} waits for its action"),
            Self::Risk(row) => write!(f, "{} scores {}", row.entry, row.score_ppm),
            Self::Spared(row) => write!(f, "{} says nothing new", row.entry),
            Self::Quarantined(entry) => write!(f, "{entry} is in quarantine"),
            Self::Effect(effect) => write!(f, "{} cannot be undone", effect.entry),
            Self::Evicted(Evicted { method: EvictionMethod::Unloaded, weights, .. }) => {
                write!(f, "the adapter {weights} was unloaded everywhere")
            }
            Self::Evicted(Evicted { method: EvictionMethod::NotLoaded, weights, .. }) => {
                write!(f, "the adapter {weights} is loaded nowhere")
            }
            Self::Fused(adapter) => {
                write!(f, "the adapter {} is part of the base {}", adapter.weights, adapter.base)
            }
            Self::StillLoaded(adapter) => {
                write!(f, "the adapter {} is still loaded", adapter.weights)
            }
            Self::Retained(adapter) => write!(f, "the adapter {} was kept", adapter.weights),
            Self::Probes(probes) if probes.probes.is_empty() => f.write_str("no probe was run"),
            Self::Probes(probes) => write!(f, "{} probes were run", probes.probes.len()),
        }
    }
}

const fn in_the_past(action: MemberAction) -> &'static str {
    match action {
        MemberAction::None => "was left as it is",
        MemberAction::Flag => "was flagged",
        MemberAction::Quarantine => "was put in quarantine",
        MemberAction::Purge => "was purged",
        MemberAction::Evict => "was purged and its adapters evicted",
    }
}

/// Every claim of a certificate, the log's first: what they do not carry need not be recounted.
///
/// `digest` is that of the certificate's file, `before` and `after` the log as its checkpoints state it.
pub(crate) fn claims<'a>(
    certificate: &'a Certificate,
    digest: Digest,
    [before, after]: [&'a Checkpoint; 2],
) -> impl Iterator<Item = Claim<'a>> {
    let recovery = &certificate.recovery;
    let runtime = &recovery.runtime_recovery;
    let residual = &recovery.residual;
    let adapters = &recovery.adapter_attestation;
    let reached = match certificate.is_whole() {
        false => Claim::Entries(&certificate.entries),
        true => Claim::Closure {
            mode: runtime.closure.mode,
            seeds: &runtime.closure.seeds,
            members: &runtime.closure.members,
        },
    };
    let log = [Claim::Log(before), Claim::Log(after)];
    log.into_iter()
        .chain(recovery.audit.records.iter().map(Claim::Record))
        .chain(recovery.audit.breaks.iter().map(Claim::Break))
        .chain([Claim::OnlyBreaks(&recovery.audit.breaks), Claim::Newest(digest)])
        .chain([Claim::Policy(recovery.policy_digest), reached])
        .chain(runtime.manifest_entries.iter().map(Claim::Entry))
        .chain(recovery.risk_scores.entries.iter().map(Claim::Risk))
        .chain(recovery.spared.iter().map(Claim::Spared))
        .chain(residual.quarantined.iter().copied().map(Claim::Quarantined))
        .chain(residual.effects.iter().map(Claim::Effect))
        .chain(adapters.evicted.iter().map(Claim::Evicted))
        .chain(adapters.fusion_warnings.iter().map(Claim::Fused))
        .chain(adapters.unfinished.iter().map(Claim::StillLoaded))
        .chain(adapters.retained.iter().map(Claim::Retained))
        .chain([Claim::Probes(&recovery.membership_probe)])
}
