//! The lists of entries that a step of an incident may name.

use custody_log::{Digest, Seq};

use crate::evidence::Finding;
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

/// Checks the lists, and that nothing in `found` is spared the purge.
pub(crate) fn check_effects<'a>(
    effects: &PlanEffects,
    found: impl IntoIterator<Item = &'a Finding>,
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
    match direct.map(|finding| finding.entry).find(|entry| !is_in(purged, entry)) {
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
    use crate::evidence::Evidence;
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
        assert_eq!(check_effects(&applied(&[3], &[4]), &found), Ok(()));
        assert_eq!(check_effects(&applied(&[2], &[3]), &found), Err(ListError::BelowFloor(Seq(3))));
        assert_eq!(check_effects(&applied(&[3], &[3]), &found), Err(ListError::Twice(Seq(3))));
        assert_eq!(check_effects(&applied(&[3], &[5, 4]), &found), Err(ListError::Order(Seq(4))));
    }
}
