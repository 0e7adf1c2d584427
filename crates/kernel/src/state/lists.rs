//! What direct evidence asks of the lists of entries that a step of an incident names.

use std::collections::BTreeSet;

use custody_log::Seq;

use crate::evidence::Finding;
use crate::lists::{ListError, is_in};
use crate::state::Mark;
use crate::step::EntryEffects;

/// Checks that nothing in `found` is spared the purge. Those in `older_trusted` may be quarantined. `before` is the
/// mark that an entry has already.
pub(crate) fn check_floor<'a>(
    effects: &EntryEffects<'_>,
    found: impl IntoIterator<Item = &'a Finding>,
    older_trusted: &BTreeSet<Seq>,
    before: impl Fn(Seq) -> Option<Mark>,
) -> Result<(), ListError> {
    let direct = found.into_iter().filter(|finding| finding.by.is_direct());
    let below_floor = direct.map(|finding| finding.entry).find(|entry| {
        let mark = match effects.lists().map(|list| is_in(list, entry)) {
            [_, _, true] => Some(Mark::Purged),
            [_, true, _] => Some(Mark::Quarantined),
            [true, _, _] => Some(Mark::Flagged),
            [false, false, false] => before(*entry),
        };
        let is_held = mark == Some(Mark::Quarantined) && older_trusted.contains(entry);
        mark != Some(Mark::Purged) && !is_held
    });
    below_floor.map_or(Ok(()), |entry| Err(ListError::BelowFloor(entry)))
}

#[cfg(test)]
mod tests {
    use custody_log::Digest;

    use super::*;
    use crate::evidence::Evidence;

    #[test]
    fn what_direct_evidence_points_to_is_purged_or_nothing_is_applied() {
        let found = [Finding { entry: Seq(3), indicator: 0, by: Evidence::Text }];
        let (none, older) = (BTreeSet::new(), BTreeSet::from([Seq(3)]));
        let check = |purged: &[u64], quarantined: &[u64], older, before: Option<Mark>| {
            let [purged, quarantined] =
                [purged, quarantined].map(|list| list.iter().copied().map(Seq).collect::<Vec<_>>());
            let effects = EntryEffects {
                plan: Digest([0; 32]),
                flagged: &[],
                quarantined: &quarantined,
                purged: &purged,
                remaining: 0,
            };
            effects.check(&[])?;
            check_floor(&effects, &found, older, |_| before)
        };
        let below = Err(ListError::BelowFloor(Seq(3)));
        assert_eq!(check(&[3], &[4], &none, None), Ok(()));
        assert_eq!(check(&[2], &[3], &none, None), below);
        assert_eq!(check(&[3], &[3], &none, None), Err(ListError::Twice(Seq(3))));
        assert_eq!(check(&[3], &[5, 4], &none, None), Err(ListError::Order(Seq(4))));
        assert_eq!(check(&[2], &[3], &older, None), Ok(()));
        assert_eq!(check(&[2], &[4], &older, None), below, "quarantined or purged, not left");
        // What an earlier part of the plan did counts.
        assert_eq!(check(&[2], &[4], &none, Some(Mark::Purged)), Ok(()));
        assert_eq!(check(&[2], &[4], &older, Some(Mark::Quarantined)), Ok(()));
        assert_eq!(check(&[2], &[4], &none, Some(Mark::Quarantined)), below);
        assert_eq!(check(&[2], &[4], &older, Some(Mark::Flagged)), below);
    }
}
