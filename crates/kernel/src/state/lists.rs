//! The lists of entries that a step of an incident may name.

use std::collections::BTreeSet;

use custody_log::{Digest, Seq};

use crate::evidence::{Evidence, Finding};
use crate::label::Label;
use crate::state::Mark;
use crate::step::EntryEffects;

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
    /// A part of a plan that is not the next one.
    #[error("this is not the next part of the plan that is being applied")]
    NotNext,
    /// A plan in parts, and nothing holds what is made meanwhile.
    #[error("a plan is applied in parts only while its incident is contained")]
    NotContained,
    /// A step that has to wait until a plan is applied.
    #[error("a plan is being applied, and `{0}` entries are left; apply it first")]
    Applying(u64),
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

/// Checks that the lists are ascending, and that no entry stands in two.
pub(crate) fn check_effects(
    effects: &EntryEffects<'_>,
    evicted: &[Digest],
) -> Result<(), ListError> {
    for list in effects.lists() {
        ascending(list)?;
    }
    if let Some(weights) = out_of_order(evicted) {
        return Err(ListError::Weights(weights));
    }
    let [flagged, quarantined, purged] = effects.lists();
    let twice = flagged
        .iter()
        .find(|entry| is_in(purged, entry) || is_in(quarantined, entry))
        .or_else(|| quarantined.iter().find(|entry| is_in(purged, entry)));
    twice.map_or(Ok(()), |entry| Err(ListError::Twice(*entry)))
}

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

/// Checks that `list` is ascending and names nothing twice.
pub(crate) fn ascending(list: &[Seq]) -> Result<(), ListError> {
    out_of_order(list).map_or(Ok(()), |entry| Err(ListError::Order(entry)))
}

/// Whether an ascending list has `entry`.
pub(crate) fn is_in(list: &[Seq], entry: &Seq) -> bool {
    list.first() <= Some(entry) && Some(entry) <= list.last() && list.binary_search(entry).is_ok()
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
            check_effects(&effects, &[])?;
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
