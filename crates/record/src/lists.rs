//! Lists of entries in a record: each is ascending, and no entry stands in two.

use custody_log::{Digest, Seq};

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

impl EntryEffects<'_> {
    /// Checks that the lists are ascending, `evicted` among them, and that no entry stands in two.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self, evicted: &[Digest]) -> Result<(), ListError> {
        for list in self.lists() {
            ascending(list)?;
        }
        if let Some(weights) = out_of_order(evicted) {
            return Err(ListError::Weights(weights));
        }
        let [flagged, quarantined, purged] = self.lists();
        let twice = flagged
            .iter()
            .find(|entry| is_in(purged, entry) || is_in(quarantined, entry))
            .or_else(|| quarantined.iter().find(|entry| is_in(purged, entry)));
        twice.map_or(Ok(()), |entry| Err(ListError::Twice(*entry)))
    }
}

/// Checks that `list` is ascending and names nothing twice.
///
/// # Errors
/// [`ListError::Order`] with the first entry that does not stand behind the one before it.
pub fn ascending(list: &[Seq]) -> Result<(), ListError> {
    out_of_order(list).map_or(Ok(()), |entry| Err(ListError::Order(entry)))
}

/// Whether an ascending list has `entry`.
pub fn is_in(list: &[Seq], entry: &Seq) -> bool {
    list.first() <= Some(entry) && Some(entry) <= list.last() && list.binary_search(entry).is_ok()
}

fn out_of_order<T: PartialOrd + Copy>(list: &[T]) -> Option<T> {
    list.windows(2).find_map(|pair| match pair {
        [one, next] if one >= next => Some(*next),
        _ => None,
    })
}
