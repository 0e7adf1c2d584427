//! Risk scores: why each entry got its action.
//!
//! Fields are declared in the order of RFC 8785.
//!
//! Source: RVU §3.4, Theorem 3; docs/design.md §6.5.

use custody_log::Seq;
use serde::{Deserialize, Serialize};

use crate::entries::MemberAction;
use crate::ppm::Ppm;

/// How scores are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RiskMode {
    /// A term that does not apply drops out; unknown influence counts as 1; floors hold.
    #[serde(rename = "default")]
    Default,
    /// As the paper's own program: every term counts, unknown influence is 0.
    #[serde(rename = "rvu-v2")]
    RvuV2,
}

/// What points at an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// Its id is an indicator.
    Id,
    /// Its content's hash is one.
    Hash,
    /// Its text contains one.
    Text,
    /// Its text matches one.
    Pattern,
    /// It came from where one says.
    Origin,
    /// Its text is similar to one.
    Similarity,
    /// Only what it was made from.
    None,
}

/// How far an entry's adapters move the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredInfluence {
    /// Whether anybody measured it.
    pub measured: bool,
    /// How far.
    pub ppm: Ppm,
}

/// The score of one entry, with its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberRisk {
    /// The term P: how probably it is contaminated.
    pub contamination_ppm: Ppm,
    /// The entry.
    pub entry: Seq,
    /// What points at it.
    pub evidence: EvidenceKind,
    /// The mildest action it may get, whatever it scores.
    pub floor: MemberAction,
    /// The term I; `None` where there is no adapter.
    pub influence: Option<MeasuredInfluence>,
    /// The score R.
    pub score_ppm: Ppm,
    /// The term |C({e})| / |V|: the share of the store that it reaches.
    pub share_ppm: Ppm,
}

/// How much each term counts; together 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskWeights {
    /// w_c.
    pub contamination_ppm: Ppm,
    /// w_i.
    pub influence_ppm: Ppm,
    /// w_p.
    pub share_ppm: Ppm,
}

/// From which score on each action is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskTiers {
    /// Evict.
    pub evict_ppm: Ppm,
    /// Flag.
    pub flag_ppm: Ppm,
    /// Purge.
    pub purge_ppm: Ppm,
    /// Quarantine.
    pub quarantine_ppm: Ppm,
}

/// The scores of every member, and what they were made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskScores {
    /// One for each member, in the same order.
    pub entries: Vec<MemberRisk>,
    /// How they are made.
    pub mode: RiskMode,
    /// How far the most uncertain share may be off: 0 where all were counted.
    pub share_error_ppm: Ppm,
    /// The tiers.
    pub tiers: RiskTiers,
    /// The weights.
    pub weights: RiskWeights,
}

impl RiskScores {
    /// Whether the weights are one together and the tiers stand in their order.
    ///
    /// Source: RVU §3.4, Corollary 3.1.
    pub(crate) fn is_ordered(&self) -> bool {
        let RiskWeights { contamination_ppm: c, influence_ppm: i, share_ppm: s } = self.weights;
        let RiskTiers { evict_ppm, flag_ppm, purge_ppm, quarantine_ppm } = self.tiers;
        let together = c.millionths() + i.millionths() + s.millionths();
        together == Ppm::ONE.millionths()
            && [flag_ppm, quarantine_ppm, purge_ppm, evict_ppm].is_sorted()
    }

    /// Whether a score follows from its terms, and unknown influence counts as the mode says.
    ///
    /// The terms that apply are weighed and divided by their weights' sum. Each term is rounded to a millionth, and so
    /// is the score, so one millionth either way is the same score.
    pub(crate) fn explains(&self, risk: &MemberRisk) -> bool {
        let unknown = match self.mode {
            RiskMode::Default => Ppm::ONE,
            RiskMode::RvuV2 => Ppm::ZERO,
        };
        let by_name = match risk.evidence {
            EvidenceKind::Id
            | EvidenceKind::Hash
            | EvidenceKind::Text
            | EvidenceKind::Pattern
            | EvidenceKind::Origin => true,
            EvidenceKind::Similarity | EvidenceKind::None => false,
        };
        let as_the_mode_says = match (self.mode, risk.influence) {
            (RiskMode::RvuV2, None) => false,
            (_, Some(influence)) => influence.measured || influence.ppm == unknown,
            (RiskMode::Default, None) => true,
        };
        let certain =
            self.mode == RiskMode::RvuV2 || !by_name || risk.contamination_ppm == Ppm::ONE;
        as_the_mode_says && certain && self.adds_up(risk)
    }

    fn adds_up(&self, risk: &MemberRisk) -> bool {
        let RiskWeights { contamination_ppm, influence_ppm, share_ppm } = self.weights;
        let terms = [
            Some((contamination_ppm, risk.contamination_ppm)),
            risk.influence.map(|influence| (influence_ppm, influence.ppm)),
            Some((share_ppm, risk.share_ppm)),
        ];
        let (mut total_weight, mut sum) = (0_u64, 0_u64);
        for (weight, term) in terms.into_iter().flatten() {
            let weight = u64::from(weight.millionths());
            total_weight += weight;
            sum += weight * u64::from(term.millionths());
        }
        let score = u64::from(risk.score_ppm.millionths());
        total_weight > 0 && (score * total_weight).abs_diff(sum) <= total_weight
    }
}
