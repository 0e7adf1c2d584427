//! A map from byte ranges of a derived text to byte ranges of its original.

use std::ops::Range;

/// A monotone map from a view to its original, as runs of equal steps.
///
/// In a run, every `view_step` bytes of the view correspond to `original_step` bytes of the original. Copied text has
/// steps of 1; a three-byte letter replaced by one byte has steps of 1 and 3; a decoded part is one step. Removed text
/// is between two runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offsets {
    runs: Vec<Run>,
    view_len: u32,
}

/// Offsets have 32 bits to save memory: a hostile text needs one run per character, and the length of texts is limited
/// ([`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    view: u32,
    original: u32,
    view_step: u32,
    original_step: u32,
}

impl Offsets {
    /// Appends `len` bytes of the view that are copied from `original` onwards.
    pub(crate) fn copy(&mut self, original: usize, len: usize) {
        if len > 0 {
            self.push(1, original, 1);
            self.view_len += small(len - 1);
        }
    }

    /// Appends `view_len` bytes of the view that correspond to `original` as a whole.
    pub(crate) fn replace(&mut self, view_len: usize, original: Range<usize>) {
        if view_len == original.len() && view_len == 1 {
            self.copy(original.start, 1);
        } else if view_len > 0 {
            self.push(small(view_len), original.start, small(original.len()));
        }
    }

    fn push(&mut self, view_step: u32, original: usize, original_step: u32) {
        let original = small(original);
        let is_continued = self.runs.last().is_some_and(|run| {
            let steps = (self.view_len - run.view) / run.view_step;
            run.view_step == view_step
                && run.original_step == original_step
                && run.original + steps * run.original_step == original
        });
        if !is_continued {
            self.runs.push(Run { view: self.view_len, original, view_step, original_step });
        }
        self.view_len += view_step;
    }

    /// The bytes of the original that correspond to `view`. Empty only if `view` is.
    ///
    /// A range that begins or ends inside a step is extended to the whole step, so that it covers whole characters of
    /// the original.
    #[must_use]
    pub fn original(&self, view: Range<usize>) -> Range<usize> {
        let start = small(view.start).min(self.view_len);
        let end = small(view.end).clamp(start, self.view_len);
        let Some(run) = self.run_at(start) else { return 0..0 };
        let first = run.original + (start - run.view) / run.view_step * run.original_step;
        let Some(last) = end.checked_sub(1).filter(|_| end > start) else {
            return wide(first)..wide(first);
        };
        let Some(run) = self.run_at(last) else { return 0..0 };
        let steps = (last - run.view) / run.view_step + 1;
        wide(first)..wide(run.original + steps * run.original_step)
    }

    fn run_at(&self, view: u32) -> Option<Run> {
        let after = self.runs.partition_point(|run| run.view <= view);
        after.checked_sub(1).and_then(|index| self.runs.get(index)).copied()
    }
}

/// Texts are limited to far less than 4 GiB before they reach this module.
fn small(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Every supported platform has offsets of at least 32 bits.
fn wide(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::Offsets;

    /// TextView `abXYZc`: `ab` copied from 0, `XYZ` for bytes 5..6, `c` copied from 9.
    fn sample() -> Offsets {
        let mut offsets = Offsets::default();
        offsets.copy(0, 2);
        offsets.replace(3, 5..6);
        offsets.copy(9, 1);
        offsets
    }

    #[test]
    fn copied_bytes_map_one_to_one_and_replaced_ones_as_a_whole() {
        let cases = [
            (0..1, 0..1),
            (0..2, 0..2),
            (1..3, 1..6),
            (3..4, 5..6),
            (2..6, 5..10),
            (5..6, 9..10),
            (0..6, 0..10),
            (2..2, 5..5),
        ];
        for (view, original) in cases {
            assert_eq!(sample().original(view.clone()), original, "{view:?}");
        }
    }

    #[test]
    fn equal_steps_are_one_run() {
        let mut offsets = Offsets::default();
        for position in 0..1000 {
            offsets.replace(1, 3 * position..3 * position + 3);
        }
        assert_eq!(offsets.runs.len(), 1);
        assert_eq!(offsets.original(10..12), 30..36);
    }

    #[test]
    fn a_range_outside_the_view_is_clamped() {
        assert_eq!(sample().original(4..99), 5..10);
        assert_eq!(Offsets::default().original(3..9), 0..0);
    }
}
