//! The lists of entries that a step of an incident may name.

use std::collections::BTreeSet;

use custody_log::{Digest, Seq};

use crate::evidence::{Evidence, Finding};
use crate::label::Label;
use crate::step::PlanEffects;

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

/// Checks the lists, and that nothing in `found` is spared the purge. Those in `older_trusted` may be quarantined.
pub(crate) fn check_effects<'a>(
    effects: &PlanEffects,
    found: impl IntoIterator<Item = &'a Finding>,
    older_trusted: &BTreeSet<Seq>,
) -> Result<(), ListError> {
    for list in effects.lists() {
        ascending(list)?;
    }
    if let Some(weights) = out_of_order(&effects.evicted) {
        return Err(ListError::Weights(weights));
    }
    let [flagged, quarantined, purged] = effects.lists();
    let twice = flagged
        .iter()
        .find(|entry| is_in(purged, entry) || is_in(quarantined, entry))
        .or_else(|| quarantined.iter().find(|entry| is_in(purged, entry)));
    if let Some(entry) = twice {
        return Err(ListError::Twice(*entry));
    }
    let direct = found.into_iter().filter(|finding| finding.by.is_direct());
    let below_floor = direct.map(|finding| finding.entry).find(|entry| {
        let is_held = older_trusted.contains(entry) && is_in(quarantined, entry);
        !is_in(purged, entry) && !is_held
    });
    match below_floor {
        Some(entry) => Err(ListError::BelowFloor(entry)),
        None => Ok(()),
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
    use crate::label::{Channel, Trust};
    use crate::memory::item::Value;

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
        let none = BTreeSet::new();
        let check = |effects: PlanEffects| check_effects(&effects, &found, &none);
        assert_eq!(check(applied(&[3], &[4])), Ok(()));
        assert_eq!(check(applied(&[2], &[3])), Err(ListError::BelowFloor(Seq(3))));
        assert_eq!(check(applied(&[3], &[3])), Err(ListError::Twice(Seq(3))));
        assert_eq!(check(applied(&[3], &[5, 4])), Err(ListError::Order(Seq(4))));
        let older = BTreeSet::from([Seq(3)]);
        assert_eq!(check_effects(&applied(&[2], &[3]), &found, &older), Ok(()));
        let left = check_effects(&applied(&[2], &[4]), &found, &older);
        assert_eq!(left, Err(ListError::BelowFloor(Seq(3))), "quarantined or purged, not left");
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
