//! Evidence: why an entry is held for contaminated.
//!
//! Written down before anything is scored, so that what was found is also what is scored (R1).

use std::collections::BTreeSet;

use custody_log::Seq;
use serde::{Deserialize, Serialize};

use crate::label::Label;
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

/// The entries that an attacker may have quoted: trusted and clean, found by what they contain or where they came
/// from, and older than every untrusted entry with direct evidence. None without such an entry, and none that somebody
/// named by id or hash.
pub fn older_trusted<'a>(
    found: impl Iterator<Item = &'a Finding> + Clone,
    label: impl Fn(Seq) -> Option<Label>,
) -> BTreeSet<Seq> {
    let direct = found.filter(|finding| finding.by.is_direct());
    let (trusted, untrusted): (BTreeSet<Seq>, BTreeSet<Seq>) = direct
        .clone()
        .map(|finding| finding.entry)
        .partition(|entry| label(*entry).is_some_and(Label::is_good));
    let Some(first) = untrusted.first() else { return BTreeSet::new() };
    let named = direct.filter(|finding| matches!(finding.by, Evidence::Id | Evidence::Hash));
    let named: BTreeSet<Seq> = named.map(|finding| finding.entry).collect();
    trusted.range(..first).filter(|entry| !named.contains(entry)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::{Channel, Trust};

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

    #[test]
    fn g25_only_what_is_older_than_all_untrusted_evidence_may_be_a_quotation() {
        let found = |entry, by| Finding { entry: Seq(entry), indicator: 0, by };
        let label = |entry: Seq| {
            let channel = if entry == Seq(5) { Channel::Web } else { Channel::User };
            (entry != Seq(9)).then(|| Label::at_ingress(channel, Trust::Trusted))
        };
        let text = Evidence::Text;
        let all = [
            found(2, text),
            found(3, text),
            found(3, Evidence::Id),
            found(5, text),
            found(6, text),
        ];
        assert_eq!(older_trusted(all.iter(), label), BTreeSet::from([Seq(2)]));
        let trusted = [found(2, text), found(6, text)];
        assert_eq!(older_trusted(trusted.iter(), label), BTreeSet::new());
        let unknown = [found(2, text), found(9, text)];
        assert_eq!(older_trusted(unknown.iter(), label), BTreeSet::from([Seq(2)]));
    }
}
