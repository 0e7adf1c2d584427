//! Evidence: why an entry is held for contaminated.
//!
//! Written down before anything is scored, so that what was found is also what is scored (R1).

use custody_log::Seq;
use serde::{Deserialize, Serialize};

use crate::score::Score;

/// In which way an indicator pointed to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// It names the entry.
    Id,
    /// It is the hash of its content, or of the weights it loaded.
    Hash,
    /// Its text stands in the content.
    Text,
    /// It is a regular expression that matches the content.
    Pattern,
    /// It is where the entry came from: an address, a tool, a file.
    Origin,
    /// Its vector is near that of the content. The strength is the similarity.
    Similarity(Score),
}

impl Evidence {
    /// P(contaminated | e).
    ///
    /// 1 for everything but vectors: an operator who writes down a pattern or an origin states what is bad, and the
    /// entry either is of that kind or is not. A similarity is a model's guess and counts as much as it is strong.
    ///
    /// Source: docs/design.md §6.2.
    pub const fn strength(self) -> Score {
        match self {
            Self::Id | Self::Hash | Self::Text | Self::Pattern | Self::Origin => Score::ONE,
            Self::Similarity(strength) => strength,
        }
    }

    /// Whether a person stated it. Not so of a similarity, however strong.
    pub const fn is_direct(self) -> bool {
        match self {
            Self::Id | Self::Hash | Self::Text | Self::Pattern | Self::Origin => true,
            Self::Similarity(_) => false,
        }
    }
}

/// One indicator found one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The entry.
    pub entry: Seq,
    /// Which of the incident's indicators, counted from 0. What it says stays out of the plan: it may quote the very
    /// text that is to be destroyed.
    pub indicator: u32,
    /// How the indicator matched.
    pub by: Evidence,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_a_similarity_is_direct_and_certain() {
        let direct =
            [Evidence::Id, Evidence::Hash, Evidence::Text, Evidence::Pattern, Evidence::Origin];
        for evidence in direct {
            assert!(evidence.is_direct() && evidence.strength() == Score::ONE, "{evidence:?}");
        }
        let certain = Evidence::Similarity(Score::ONE);
        assert!(!certain.is_direct() && certain.strength() == Score::ONE);
    }
}
