//! The outcome: what a reader who reads one line must know. It follows from the other parts and is never asserted.

use serde::{Deserialize, Serialize};

use crate::probe::ProbeVerdict;
use crate::recovery::Recovery;

/// Whether the incident is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeState {
    /// All that was planned is done, and no probe got anything back.
    Recovered,
    /// Something is missing.
    Incomplete,
}

/// What is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// A limit stopped the closure; the count is how many members it stopped at.
    ClosureTruncated,
    /// Actions are not done.
    ActionsUnfinished,
    /// Adapters are still loaded.
    AdaptersUnfinished,
    /// Adapters are part of a base model.
    AdaptersFused,
    /// Probes got something back.
    ProbesFailed,
    /// Probes cannot tell.
    ProbesInconclusive,
    /// There were no probes.
    ProbesNotRun,
}

/// One reason why an outcome is incomplete.
///
/// Fields are declared in the order of RFC 8785.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeReason {
    /// How often.
    pub count: u64,
    /// What is missing.
    pub missing: Missing,
}

/// The outcome of a recovery.
///
/// Fields are declared in the order of RFC 8785.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateOutcome {
    /// What is missing; empty exactly when it is a recovery.
    pub reasons: Vec<OutcomeReason>,
    /// In one word.
    pub state: OutcomeState,
}

impl CertificateOutcome {
    /// Derives the outcome. Effects that cannot be undone and entries left in quarantine stand in the residual list;
    /// they are results of a finished plan and no reasons.
    ///
    /// Source: docs/design.md §8.
    pub fn of(recovery: &Recovery) -> Self {
        let probes = &recovery.membership_probe;
        // The counts are of all entries, whether they are listed inside or not.
        let totals = recovery.runtime_recovery.totals.counts();
        let unfinished = totals.iter().map(|count| count.planned.saturating_sub(count.done)).sum();
        let adapters = &recovery.adapter_attestation;
        let counted = [
            (Missing::ClosureTruncated, recovery.runtime_recovery.closure.frontier),
            (Missing::ActionsUnfinished, unfinished),
            (Missing::AdaptersUnfinished, adapters.unfinished.len() as u64),
            (Missing::AdaptersFused, adapters.fusion_warnings.len() as u64),
            (Missing::ProbesFailed, probes.count(ProbeVerdict::Fail)),
            (Missing::ProbesInconclusive, probes.count(ProbeVerdict::Inconclusive)),
            (Missing::ProbesNotRun, u64::from(probes.probes.is_empty())),
        ];
        let reasons: Vec<OutcomeReason> = counted
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(missing, count)| OutcomeReason { count, missing })
            .collect();
        let state =
            if reasons.is_empty() { OutcomeState::Recovered } else { OutcomeState::Incomplete };
        Self { reasons, state }
    }
}
