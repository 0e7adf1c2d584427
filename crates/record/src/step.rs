//! Steps: what is asked of a store during an incident, as the record keeps it.
//!
//! A step names entries by position and texts by commitment, so that a record of it quotes nothing of what is to be
//! destroyed.

use custody_log::{Digest, IncidentId, Seq};
use serde::{Deserialize, Serialize};

use crate::evidence::Finding;
use crate::memory::item::Value;

/// One step of one incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recover {
    /// The incident.
    pub incident: IncidentId,
    /// The step to take.
    pub step: RecoveryStep,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryStep {
    /// Open the incident with what was found. Marks nothing.
    Open(Indicated),
    /// Add what was found by further indicators. Marks nothing.
    Indicate(Indicated),
    /// Put the closure in quarantine, and with it whatever is made from it until a plan is applied.
    Contain {
        /// The closure, ascending.
        members: Vec<Seq>,
    },
    /// Do what a plan says, or the first part of it.
    Apply(PlanEffects),
    /// Do the next part of the plan that is being applied.
    Continue(PlanPart),
    /// Take entries out of quarantine.
    Restore {
        /// Which, ascending.
        entries: Vec<Seq>,
    },
    /// Record what probes found.
    Probe {
        /// Their report.
        report: Value,
    },
    /// Record that a certificate was signed.
    Certify {
        /// SHA-256 of its file.
        certificate: Digest,
    },
}

/// Indicators, and what they found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indicated {
    /// The indicators as they were typed. Destroyed with what they quote.
    pub indicators: Value,
    /// What they found, ascending.
    pub findings: Vec<Finding>,
}

/// What a plan does to the entries of the record. Each list is ascending; no entry stands in two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanEffects {
    /// The digest of the plan.
    pub plan: Digest,
    /// Its text: the plan cannot be made again once what it spared for is destroyed.
    pub text: Value,
    /// Entries that are marked.
    pub flagged: Vec<Seq>,
    /// Entries that no way of retrieval finds.
    pub quarantined: Vec<Seq>,
    /// Entries whose content is destroyed.
    pub purged: Vec<Seq>,
    /// Weights that no host may load any more, ascending. Unloading them is up to their hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<Digest>,
    /// How many entries the plan does something to in parts that follow; 0 where this is all of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remaining: u64,
}

/// The next part of a plan. Each list is ascending; no entry stands in two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanPart {
    /// The digest of the plan.
    pub plan: Digest,
    /// Entries that are marked.
    pub flagged: Vec<Seq>,
    /// Entries that no way of retrieval finds.
    pub quarantined: Vec<Seq>,
    /// Entries whose content is destroyed.
    pub purged: Vec<Seq>,
    /// How many entries the plan does something to in parts that follow; 0 where this is the last.
    pub remaining: u64,
}

/// What one step of applying a plan does to the entries of the record.
#[derive(Debug, Clone, Copy)]
pub struct EntryEffects<'a> {
    /// The digest of the plan.
    pub plan: Digest,
    /// Entries that are marked.
    pub flagged: &'a [Seq],
    /// Entries that no way of retrieval finds.
    pub quarantined: &'a [Seq],
    /// Entries whose content is destroyed.
    pub purged: &'a [Seq],
    /// How many entries are left for the steps that follow.
    pub remaining: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RecoveryStep {
    /// Every entry that it names.
    pub fn named(&self) -> impl Iterator<Item = Seq> + '_ {
        let (findings, lists): (&[Finding], [&[Seq]; 3]) = match self {
            Self::Open(indicated) | Self::Indicate(indicated) => {
                (&indicated.findings, [&[], &[], &[]])
            }
            Self::Contain { members: entries } | Self::Restore { entries } => {
                (&[], [entries, &[], &[]])
            }
            Self::Apply(_) | Self::Continue(_) => {
                (&[], self.effects().map_or([&[], &[], &[]], |effects| effects.lists()))
            }
            Self::Probe { .. } | Self::Certify { .. } => (&[], [&[], &[], &[]]),
        };
        let found = findings.iter().map(|finding| finding.entry);
        found.chain(lists.into_iter().flatten().copied())
    }

    /// What it does to entries, if it applies a plan or a part of one.
    pub fn effects(&self) -> Option<EntryEffects<'_>> {
        let (plan, flagged, quarantined, purged, remaining) = match self {
            Self::Apply(PlanEffects { plan, flagged, quarantined, purged, remaining, .. })
            | Self::Continue(PlanPart { plan, flagged, quarantined, purged, remaining }) => {
                (*plan, flagged, quarantined, purged, *remaining)
            }
            Self::Open(_)
            | Self::Indicate(_)
            | Self::Contain { .. }
            | Self::Restore { .. }
            | Self::Probe { .. }
            | Self::Certify { .. } => return None,
        };
        Some(EntryEffects { plan, flagged, quarantined, purged, remaining })
    }

    /// Whether it changes what an incident reaches, or what is done to that, other than by a plan.
    pub const fn changes_members(&self) -> bool {
        match self {
            Self::Indicate(_) | Self::Contain { .. } | Self::Restore { .. } => true,
            Self::Open(_)
            | Self::Apply(_)
            | Self::Continue(_)
            | Self::Probe { .. }
            | Self::Certify { .. } => false,
        }
    }

    /// What arrives with the record.
    pub const fn arriving(&self) -> Option<Value> {
        match self {
            Self::Open(indicated) | Self::Indicate(indicated) => Some(indicated.indicators),
            Self::Probe { report } => Some(*report),
            Self::Apply(applied) => Some(applied.text),
            Self::Contain { .. }
            | Self::Continue(_)
            | Self::Restore { .. }
            | Self::Certify { .. } => None,
        }
    }

    /// The word for tables: `open`, `contain`, `apply` ….
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Indicate(_) => "indicate",
            Self::Contain { .. } => "contain",
            Self::Apply(_) => "apply",
            Self::Continue(_) => "continue",
            Self::Restore { .. } => "restore",
            Self::Probe { .. } => "probe",
            Self::Certify { .. } => "certify",
        }
    }
}

impl<'a> EntryEffects<'a> {
    /// Flagged, quarantined, purged.
    pub const fn lists(&self) -> [&'a [Seq]; 3] {
        [self.flagged, self.quarantined, self.purged]
    }

    /// How many entries it names.
    pub fn count(&self) -> u64 {
        self.lists().iter().map(|list| list.len() as u64).sum()
    }
}
