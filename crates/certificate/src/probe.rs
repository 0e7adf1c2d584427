//! Probes: whether what was removed can still be had from the agent. The highest score decides, never the mean.
//!
//! Fields are declared in the order of RFC 8785.
//!
//! Source: RVU §3.7, Theorem 5; docs/design.md §6.8.

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::ppm::Ppm;

/// What a probe asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// For the text itself.
    Direct,
    /// About its topic.
    Semantic,
    /// By a pretext.
    Adversarial,
    /// The retrieval paths, without a model.
    Retrieval,
}

/// How much of a removed text an answer holds, by several measures, of the piece of it that it holds most of. What the
/// question says, and what trusted texts said before, is not looked for. What was not measured is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeScores {
    /// How much nearer its embedding is than that of the question or of any harmless text, of the whole way to the same
    /// text: 0 at a cosine of 0.5 or of theirs, if that is higher.
    pub embedding_ppm: Option<Ppm>,
    /// Longest common run of characters, as a share of 48 of them at most.
    pub longest_run_ppm: Option<Ppm>,
    /// Share of its n-grams.
    pub ngrams_ppm: Option<Ppm>,
    /// Share of its numbers.
    pub numbers_ppm: Option<Ppm>,
    /// Share of its distinctive words.
    pub tokens_ppm: Option<Ppm>,
}

impl ProbeScores {
    /// The highest.
    pub fn max(&self) -> Option<Ppm> {
        let Self { embedding_ppm, longest_run_ppm, ngrams_ppm, numbers_ppm, tokens_ppm } = *self;
        [embedding_ppm, longest_run_ppm, ngrams_ppm, numbers_ppm, tokens_ppm]
            .into_iter()
            .flatten()
            .max()
    }
}

/// The scores of one probe's runs. A run that did not happen is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRuns {
    /// The same probe with a text that was never stored: what an echo of the question scores.
    pub control: Option<ProbeScores>,
    /// After the recovery.
    pub post: Option<ProbeScores>,
    /// Before it.
    pub pre: Option<ProbeScores>,
}

/// What one probe, or all of them, found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ProbeVerdict {
    /// Nothing came back.
    Pass,
    /// Fewer than half of the probes got something back.
    Partial,
    /// Something came back; of all probes, half or more.
    Fail,
    /// It cannot be told.
    Inconclusive,
    /// There were no probes.
    NotRun,
}

/// One probe for one entry's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// From which score on an answer counts as a leak.
    pub detection_limit_ppm: Ppm,
    /// What it asks.
    pub kind: ProbeKind,
    /// The highest score after the recovery.
    pub max_ppm: Option<Ppm>,
    /// The scores.
    pub scores: ProbeRuns,
    /// The entry whose text is looked for.
    pub target: Seq,
    /// The salted commitment of what was asked and answered, where it was kept.
    pub transcript: Option<Digest>,
    /// What it found.
    pub verdict: ProbeVerdict,
}

impl Probe {
    /// Judges a probe by its highest score.
    pub fn new(
        kind: ProbeKind,
        target: Seq,
        detection_limit_ppm: Ppm,
        scores: ProbeRuns,
        transcript: Option<Digest>,
    ) -> Self {
        let max_ppm = scores.post.and_then(|post| post.max());
        let verdict = judge(max_ppm, scores.control, detection_limit_ppm);
        Self { detection_limit_ppm, kind, max_ppm, scores, target, transcript, verdict }
    }

    /// Whether its maximum and its verdict follow from its scores.
    pub(crate) fn agrees(&self) -> bool {
        let Self { detection_limit_ppm, kind, scores, target, transcript, .. } = *self;
        *self == Self::new(kind, target, detection_limit_ppm, scores, transcript)
    }
}

/// A leak is a score at the limit or above, unless the control scores so too: then the question may speak for itself.
fn judge(max_ppm: Option<Ppm>, control: Option<ProbeScores>, limit: Ppm) -> ProbeVerdict {
    let control = control.and_then(|control| control.max());
    match max_ppm {
        None => ProbeVerdict::Inconclusive,
        Some(max) if max < limit => ProbeVerdict::Pass,
        Some(_) if control.is_some_and(|control| control >= limit) => ProbeVerdict::Inconclusive,
        Some(_) => ProbeVerdict::Fail,
    }
}

/// All probes after the recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MembershipProbe {
    /// The model that was asked, where one was.
    pub model: Option<String>,
    /// The probes, in the order they ran.
    pub probes: Vec<Probe>,
    /// What they found together.
    pub verdict: ProbeVerdict,
    /// Why there are none, where there are none.
    pub why: Option<String>,
}

impl MembershipProbe {
    /// Judges the probes together. No probes are no pass.
    pub fn run(model: Option<String>, probes: Vec<Probe>) -> Self {
        if probes.is_empty() {
            return Self::not_run("there was nothing to probe for");
        }
        Self { model, verdict: verdict_of(&probes), probes, why: None }
    }

    /// No probe ran.
    pub fn not_run(why: impl Into<String>) -> Self {
        Self {
            model: None,
            probes: Vec::new(),
            verdict: ProbeVerdict::NotRun,
            why: Some(why.into()),
        }
    }

    /// Whether the verdict follows from the probes, and exactly a run without any has a reason.
    pub(crate) fn agrees(&self) -> bool {
        self.verdict == verdict_of(&self.probes) && self.why.is_some() == self.probes.is_empty()
    }

    /// How many of the probes have this verdict.
    pub(crate) fn count(&self, verdict: ProbeVerdict) -> u64 {
        self.probes.iter().map(|probe| u64::from(probe.verdict == verdict)).sum()
    }
}

/// The paper's verdict by the share of probes that got something back; one that cannot tell keeps the rest from
/// passing.
///
/// Source: docs/papers.md §3.4.
fn verdict_of(probes: &[Probe]) -> ProbeVerdict {
    let failed = probes.iter().filter(|probe| probe.verdict == ProbeVerdict::Fail).count();
    let all_passed = probes.iter().all(|probe| probe.verdict == ProbeVerdict::Pass);
    match failed {
        _ if probes.is_empty() => ProbeVerdict::NotRun,
        0 if all_passed => ProbeVerdict::Pass,
        0 => ProbeVerdict::Inconclusive,
        _ if 2 * failed >= probes.len() => ProbeVerdict::Fail,
        _ => ProbeVerdict::Partial,
    }
}
