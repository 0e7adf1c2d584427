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
    /// Do what a plan says.
    Apply(PlanEffects),
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
}

/// Why lists of entries are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Out of order, or named twice.
    #[error("entry {0} stands out of order or twice in a list; a list is ascending")]
    Order(Seq),
    /// In two lists.
    #[error("entry {0} stands in two lists; one thing is done to an entry")]
    Twice(Seq),
    /// Direct evidence points to it, and it is not purged.
    #[error("direct evidence points to entry {0}, so it is purged or nothing is applied")]
    BelowFloor(Seq),
    /// Weights out of order, or named twice.
    #[error("the weights `{0}` stand out of order or twice in the list of evicted ones")]
    Weights(Digest),
    /// It cannot be restored.
    #[error("entry {0} is not in quarantine for this incident")]
    NotQuarantined(Seq),
}

impl RecoveryStep {
    /// Every entry that it names.
    pub(crate) fn named(&self) -> impl Iterator<Item = Seq> + '_ {
        let (findings, lists): (&[Finding], [&[Seq]; 3]) = match self {
            Self::Open(indicated) | Self::Indicate(indicated) => {
                (&indicated.findings, [&[], &[], &[]])
            }
            Self::Contain { members: entries } | Self::Restore { entries } => {
                (&[], [entries, &[], &[]])
            }
            Self::Apply(applied) => (&[], applied.lists()),
            Self::Probe { .. } | Self::Certify { .. } => (&[], [&[], &[], &[]]),
        };
        let found = findings.iter().map(|finding| finding.entry);
        found.chain(lists.into_iter().flatten().copied())
    }

    /// What arrives with the record.
    pub const fn arriving(&self) -> Option<Value> {
        match self {
            Self::Open(indicated) | Self::Indicate(indicated) => Some(indicated.indicators),
            Self::Probe { report } => Some(*report),
            Self::Apply(applied) => Some(applied.text),
            Self::Contain { .. } | Self::Restore { .. } | Self::Certify { .. } => None,
        }
    }

    /// The word for tables: `open`, `contain`, `apply` ….
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Indicate(_) => "indicate",
            Self::Contain { .. } => "contain",
            Self::Apply(_) => "apply",
            Self::Restore { .. } => "restore",
            Self::Probe { .. } => "probe",
            Self::Certify { .. } => "certify",
        }
    }
}

impl PlanEffects {
    fn lists(&self) -> [&[Seq]; 3] {
        [&self.flagged, &self.quarantined, &self.purged]
    }

    /// Checks the lists, and that nothing in `found` is spared the purge.
    pub(crate) fn check<'a>(
        &self,
        found: impl IntoIterator<Item = &'a Finding>,
    ) -> Result<(), ListError> {
        for list in self.lists() {
            ascending(list)?;
        }
        if let Some(weights) = out_of_order(&self.evicted) {
            return Err(ListError::Weights(weights));
        }
        let [flagged, quarantined, purged] = self.lists();
        let twice = flagged
            .iter()
            .find(|entry| is_in(purged, entry) || is_in(quarantined, entry))
            .or_else(|| quarantined.iter().find(|entry| is_in(purged, entry)));
        if let Some(entry) = twice {
            return Err(ListError::Twice(*entry));
        }
        let direct = found.into_iter().filter(|finding| finding.by.is_direct());
        match direct.map(|finding| finding.entry).find(|entry| !is_in(purged, entry)) {
            Some(entry) => Err(ListError::BelowFloor(entry)),
            None => Ok(()),
        }
    }
}

/// Checks that `list` is ascending and names nothing twice.
pub(crate) fn ascending(list: &[Seq]) -> Result<(), ListError> {
    out_of_order(list).map_or(Ok(()), |entry| Err(ListError::Order(entry)))
}

fn is_in(list: &[Seq], entry: &Seq) -> bool {
    list.binary_search(entry).is_ok()
}

fn out_of_order<T: PartialOrd + Copy>(list: &[T]) -> Option<T> {
    list.windows(2).find_map(|pair| match pair {
        [one, next] if one >= next => Some(*next),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;

    #[test]
    fn what_direct_evidence_points_to_is_purged_or_nothing_is_applied() {
        let found = [Finding { entry: Seq(3), indicator: 0, by: Evidence::Text }];
        let applied = |purged: &[u64], quarantined: &[u64]| PlanEffects {
            purged: purged.iter().copied().map(Seq).collect(),
            quarantined: quarantined.iter().copied().map(Seq).collect(),
            flagged: Vec::new(),
            evicted: Vec::new(),
            plan: Digest([0; 32]),
            text: Value::New(Digest([0; 32])),
        };
        assert_eq!(applied(&[3], &[4]).check(&found), Ok(()));
        assert_eq!(applied(&[2], &[3]).check(&found), Err(ListError::BelowFloor(Seq(3))));
        assert_eq!(applied(&[3], &[3]).check(&found), Err(ListError::Twice(Seq(3))));
        assert_eq!(applied(&[3], &[5, 4]).check(&found), Err(ListError::Order(Seq(4))));
    }
}
