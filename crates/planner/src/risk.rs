//! Risk: one number per entry, `R(e) = w_c·P + w_i·min(1, I) + w_p·min(1, share)`, and the tier it falls in.

use std::collections::BTreeMap;
use std::fmt;

use custody_kernel::score::Score;
use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::graph::Graph;

/// The action for an entry, in ascending order of severity.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryAction {
    /// Nothing.
    #[default]
    None,
    /// The entry is marked.
    Flag,
    /// The entry is not retrievable until it is restored.
    Quarantine,
    /// The content is destroyed.
    Purge,
    /// As purge, and the weights under which it was produced are unloaded from every host.
    Evict,
}

impl RecoveryAction {
    /// The name used in plans and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Flag => "flag",
            Self::Quarantine => "quarantine",
            Self::Purge => "purge",
            Self::Evict => "evict",
        }
    }
}

impl fmt::Display for RecoveryAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The influence I(e) of the weights under which an entry was produced on the model's answers, in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterInfluence {
    /// No adapter was active, so the term does not apply.
    NoAdapter,
    /// Not measured. Counts as 1 (closes R3).
    Unknown,
    /// Measured and clamped to 1; the maximum over several adapters.
    Measured(Score),
}

impl AdapterInfluence {
    /// The influence on `entry`, by what was `measured` of each weights.
    ///
    /// It is unknown if an adapter was not measured, or if a measurement is negative or not a number.
    pub fn on(graph: &Graph, entry: Seq, measured: &BTreeMap<Digest, f64>) -> Self {
        let mut strongest = None;
        for weights in graph.weights(entry) {
            let known = measured.get(&weights).filter(|influence| **influence >= 0.0);
            let Some(influence) = known else { return Self::Unknown };
            strongest = strongest.max(Some(Score::at_most_one(*influence)));
        }
        strongest.map_or(Self::NoAdapter, Self::Measured)
    }

    fn term(self) -> Option<Score> {
        match self {
            Self::NoAdapter => None,
            Self::Unknown => Some(Score::ONE),
            Self::Measured(influence) => Some(influence),
        }
    }
}

/// The terms of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskTerms {
    /// P(contaminated | e).
    pub contaminated: Score,
    /// I(e).
    pub influence: AdapterInfluence,
    /// The share of the record that the entry reached: |C({e})| / |V|.
    pub share: Score,
}

/// The weights and tiers of the risk score; always valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RiskSettings", into = "RiskSettings")]
pub struct RiskConfig {
    contaminated: Score,
    influence: Score,
    share: Score,
    flag: Score,
    quarantine: Score,
    purge: Score,
    evict: Score,
}

/// Weights and tiers as configured. The default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RiskSettings {
    /// w_c, of the evidence.
    pub contaminated: f64,
    /// w_i, of the adapter's influence.
    pub influence: f64,
    /// w_p, of the share.
    pub share: f64,
    /// The lowest score that is flagged.
    pub flag: f64,
    /// The lowest score that is quarantined.
    pub quarantine: f64,
    /// The lowest score that is purged.
    pub purge: f64,
    /// The lowest score at which weights are evicted.
    pub evict: f64,
}

impl Default for RiskSettings {
    fn default() -> Self {
        RiskConfig::default().into()
    }
}

/// Settings that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RiskConfigError {
    /// A setting is not in [0, 1].
    #[error("risk setting `{name}` is {value}; give a number from 0 to 1")]
    NotAScore {
        /// The name of the setting.
        name: &'static str,
        /// What it is.
        value: f64,
    },
    /// The weights are not parts of one whole.
    #[error("the risk weights `contaminated`, `influence` and `share` add up to {sum}; make it 1")]
    Sum {
        /// Their sum.
        sum: f64,
    },
    /// All the weight is on the influence, which an entry without an adapter does not have.
    #[error(
        "all the weight is on `influence`, which entries without an adapter lack; give some to the others"
    )]
    OnlyInfluence,
    /// A tier begins where the one below it does, or lower.
    #[error("tier `{upper}` must begin above tier `{lower}`")]
    Order {
        /// The milder tier.
        lower: RecoveryAction,
        /// The tier after it.
        upper: RecoveryAction,
    },
}

fn score(name: &'static str, value: f64) -> Result<Score, RiskConfigError> {
    Score::new(value).map_err(|_| RiskConfigError::NotAScore { name, value })
}

impl TryFrom<RiskSettings> for RiskConfig {
    type Error = RiskConfigError;

    fn try_from(settings: RiskSettings) -> Result<Self, RiskConfigError> {
        let this = Self {
            contaminated: score("contaminated", settings.contaminated)?,
            influence: score("influence", settings.influence)?,
            share: score("share", settings.share)?,
            flag: score("flag", settings.flag)?,
            quarantine: score("quarantine", settings.quarantine)?,
            purge: score("purge", settings.purge)?,
            evict: score("evict", settings.evict)?,
        };
        let sum = settings.contaminated + settings.influence + settings.share;
        if (sum - 1.0).abs() > 1e-9 {
            return Err(RiskConfigError::Sum { sum: (sum * 1e9).round() / 1e9 });
        }
        if this.contaminated == Score::ZERO && this.share == Score::ZERO {
            return Err(RiskConfigError::OnlyInfluence);
        }
        let tiers = this.tiers();
        for pair in tiers.windows(2) {
            let [(lower, below), (upper, above)] = *pair else { continue };
            if below >= above {
                return Err(RiskConfigError::Order { lower, upper });
            }
        }
        Ok(this)
    }
}

impl From<RiskConfig> for RiskSettings {
    fn from(config: RiskConfig) -> Self {
        Self {
            contaminated: config.contaminated.value(),
            influence: config.influence.value(),
            share: config.share.value(),
            flag: config.flag.value(),
            quarantine: config.quarantine.value(),
            purge: config.purge.value(),
            evict: config.evict.value(),
        }
    }
}

impl Default for RiskConfig {
    /// Source: RVU §3.4.
    fn default() -> Self {
        Self {
            contaminated: Score::thousandths(400),
            influence: Score::thousandths(300),
            share: Score::thousandths(300),
            flag: Score::thousandths(300),
            quarantine: Score::thousandths(600),
            purge: Score::thousandths(800),
            evict: Score::thousandths(900),
        }
    }
}

impl RiskConfig {
    /// R(e), with the weights made up to 1 again where the influence does not apply (closes R2: else an
    /// entry without an adapter could never score above 0.7).
    ///
    /// Source: RVU §3.4; docs/design.md §6.5.
    pub fn score(&self, terms: &RiskTerms) -> Score {
        let always = self.contaminated.value() * terms.contaminated.value()
            + self.share.value() * terms.share.value();
        let score = match terms.influence.term() {
            Some(influence) => always + self.influence.value() * influence.value(),
            None => always / (self.contaminated.value() + self.share.value()),
        };
        Score::at_most_one(score)
    }

    /// R(e) as published: an entry without an adapter, or with one that nobody measured, has influence 0.
    pub(crate) fn published_score(&self, terms: &RiskTerms) -> Score {
        let influence = match terms.influence {
            AdapterInfluence::NoAdapter | AdapterInfluence::Unknown => Score::ZERO,
            AdapterInfluence::Measured(influence) => influence,
        };
        self.score(&RiskTerms { influence: AdapterInfluence::Measured(influence), ..*terms })
    }

    /// The tier of a score: the highest whose lower bound it reaches.
    pub fn tier(&self, score: Score) -> RecoveryAction {
        let reached = self.tiers().into_iter().rev().find(|(_, bound)| score >= *bound);
        reached.map_or(RecoveryAction::None, |(action, _)| action)
    }

    fn tiers(&self) -> [(RecoveryAction, Score); 4] {
        [
            (RecoveryAction::Flag, self.flag),
            (RecoveryAction::Quarantine, self.quarantine),
            (RecoveryAction::Purge, self.purge),
            (RecoveryAction::Evict, self.evict),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphNode;

    fn score(value: f64) -> Score {
        Score::new(value).unwrap()
    }

    fn terms(contaminated: f64, influence: AdapterInfluence, share: f64) -> RiskTerms {
        RiskTerms { contaminated: score(contaminated), influence, share: score(share) }
    }

    #[test]
    fn a_tier_begins_at_its_bound() {
        let config = RiskConfig::default();
        let cases = [
            (0.0, RecoveryAction::None),
            (0.299_999_999, RecoveryAction::None),
            (0.3, RecoveryAction::Flag),
            (0.599_999_999, RecoveryAction::Flag),
            (0.6, RecoveryAction::Quarantine),
            (0.799_999_999, RecoveryAction::Quarantine),
            (0.8, RecoveryAction::Purge),
            (0.899_999_999, RecoveryAction::Purge),
            (0.9, RecoveryAction::Evict),
            (1.0, RecoveryAction::Evict),
        ];
        for (value, tier) in cases {
            assert_eq!(config.tier(score(value)), tier, "{value}");
        }
    }

    /// (R2)
    #[test]
    fn every_tier_can_be_reached_with_and_without_an_adapter() {
        let config = RiskConfig::default();
        let cases = [
            (terms(0.0, AdapterInfluence::NoAdapter, 0.1), RecoveryAction::None),
            (terms(1.0, AdapterInfluence::NoAdapter, 0.0), RecoveryAction::Flag),
            (terms(1.0, AdapterInfluence::NoAdapter, 0.1), RecoveryAction::Quarantine),
            (terms(1.0, AdapterInfluence::NoAdapter, 0.6), RecoveryAction::Purge),
            (terms(1.0, AdapterInfluence::NoAdapter, 0.8), RecoveryAction::Evict),
            (terms(0.0, AdapterInfluence::Measured(score(0.3)), 0.1), RecoveryAction::None),
            (terms(0.0, AdapterInfluence::Unknown, 0.0), RecoveryAction::Flag),
            (terms(1.0, AdapterInfluence::Unknown, 0.0), RecoveryAction::Quarantine),
            (terms(1.0, AdapterInfluence::Unknown, 0.4), RecoveryAction::Purge),
            (terms(1.0, AdapterInfluence::Unknown, 0.7), RecoveryAction::Evict),
        ];
        for (terms, tier) in cases {
            assert_eq!(config.tier(config.score(&terms)), tier, "{terms:?}");
        }
    }

    /// (R3)
    #[test]
    fn an_influence_that_nobody_measured_counts_as_the_strongest() {
        let (a, b) = (Digest([1; 32]), Digest([2; 32]));
        let plain = GraphNode::default();
        let both = GraphNode { weights: &[a, b], ..GraphNode::default() };
        let graph = Graph::new([plain, both]).unwrap();
        let on = |measured: &[(Digest, f64)]| {
            AdapterInfluence::on(&graph, Seq(1), &measured.iter().copied().collect())
        };
        assert_eq!(
            AdapterInfluence::on(&graph, Seq(0), &BTreeMap::new()),
            AdapterInfluence::NoAdapter
        );
        assert_eq!(on(&[]), AdapterInfluence::Unknown);
        assert_eq!(on(&[(a, 0.2)]), AdapterInfluence::Unknown);
        assert_eq!(on(&[(a, 0.2), (b, f64::NAN)]), AdapterInfluence::Unknown);
        assert_eq!(on(&[(a, 0.2), (b, -1.0)]), AdapterInfluence::Unknown);
        assert_eq!(on(&[(a, 0.2), (b, 0.26)]), AdapterInfluence::Measured(score(0.26)));
        assert_eq!(on(&[(a, 1.7), (b, 0.26)]), AdapterInfluence::Measured(Score::ONE));
        let config = RiskConfig::default();
        let unknown = config.score(&terms(1.0, AdapterInfluence::Unknown, 0.5));
        assert_eq!(unknown, config.score(&terms(1.0, AdapterInfluence::Measured(Score::ONE), 0.5)));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_one_by_one() {
        let good = RiskSettings::default();
        let cases = [
            (RiskSettings { share: f64::NAN, ..good }, "`share` is NaN"),
            (RiskSettings { evict: f64::INFINITY, ..good }, "`evict` is inf"),
            (RiskSettings { contaminated: -0.4, ..good }, "`contaminated` is -0.4"),
            (RiskSettings { purge: 1.5, ..good }, "`purge` is 1.5"),
            (RiskSettings { share: 0.2, ..good }, "add up to 0.9"),
            (
                RiskSettings { contaminated: 0.0, influence: 1.0, share: 0.0, ..good },
                "all the weight is on `influence`",
            ),
            (RiskSettings { quarantine: 0.2, ..good }, "`quarantine` must begin above tier `flag`"),
            (RiskSettings { purge: 0.6, ..good }, "`purge` must begin above tier `quarantine`"),
            (RiskSettings { evict: 0.7, ..good }, "`evict` must begin above tier `purge`"),
        ];
        for (settings, expected) in cases {
            let error = RiskConfig::try_from(settings).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn settings_are_read_from_text_only_if_they_are_valid() {
        let config: RiskConfig = serde_json::from_str("{\"purge\": 0.85}").unwrap();
        assert_eq!(config.tier(score(0.84)), RecoveryAction::Quarantine);
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<RiskConfig>(&text).unwrap(), config);
        assert!(serde_json::from_str::<RiskConfig>("{\"purge\": 0.5}").is_err());
        assert!(serde_json::from_str::<RiskConfig>("{\"purge_\": 0.85}").is_err());
    }
}
