//! A text split into segments that may hold an instruction (sentences and lines), and into larger passages of them.

use std::ops::Range;

/// The longest segment, in bytes; a longer run without a break is cut at white space.
const MAX_BYTES: usize = 400;
/// Shorter segments are joined with the next one: a single word cannot be classified.
const MIN_BYTES: usize = 16;

/// The longest window of several segments, in bytes: about 70 tokens.
const MAX_WINDOW_BYTES: usize = 320;

/// The longest chunk, in bytes: about 250 tokens.
const MAX_CHUNK_BYTES: usize = 1_100;

/// A model's decision value for a segment or a passage of the normalised text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SegmentScore {
    /// Bytes of the normalised text.
    pub(crate) range: Range<usize>,
    /// Higher is more suspicious.
    pub(crate) decision: f64,
}

impl SegmentScore {
    /// The score with the highest decision value; `None` for a text without words.
    pub(crate) fn highest(scores: impl IntoIterator<Item = Self>) -> Option<Self> {
        scores.into_iter().max_by(|a, b| a.decision.total_cmp(&b.decision))
    }
}

/// The segments of `text` in order, as byte ranges. They do not overlap and leave out only white space.
pub fn segments(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let here = at + c.len_utf8();
        let ends = ends_segment(before, c);
        // A sentence ends at the blank behind its mark, so that `3.5` and `example.com` are not split.
        let is_long_enough = here - start >= if c == '\n' { MIN_BYTES / 2 } else { MIN_BYTES };
        let must_end =
            here - start >= MAX_BYTES && (c.is_whitespace() || here - start >= 2 * MAX_BYTES);
        if ends && is_long_enough || must_end {
            push(text, start..here, &mut found);
            start = here;
        }
        before = c;
    }
    push(text, start..text.len(), &mut found);
    found
}

/// Overlapping runs of neighbouring segments, in order: enough context around a sentence to see whether it belongs
/// there. Each is at most 320 bytes long, or one segment.
pub fn windows(text: &str) -> Vec<Range<usize>> {
    let segments = segments(text);
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut first = 0;
    while let Some(start) = segments.get(first).map(|segment| segment.start) {
        let count = segments[first..]
            .iter()
            .take_while(|segment| segment.end - start <= MAX_WINDOW_BYTES)
            .count()
            .max(1);
        let end = segments[first + count - 1].end;
        found.push(start..end);
        if first + count == segments.len() {
            break;
        }
        // The next window begins in the middle of this one, so that no sentence is at the edge of all its windows.
        let middle = start + (end - start) / 2;
        let later =
            segments[first + 1..first + count].iter().position(|segment| segment.start >= middle);
        first += later.map_or(count, |place| place + 1);
    }
    found
}

/// Runs of segments that a transformer can read whole, in order, without overlap.
pub fn chunks(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for segment in segments(text) {
        match found.last_mut() {
            Some(chunk) if segment.end - chunk.start <= MAX_CHUNK_BYTES => chunk.end = segment.end,
            Some(_) | None => found.push(segment),
        }
    }
    found
}

fn ends_segment(before: char, c: char) -> bool {
    match c {
        '\n' | '。' | '！' | '？' => true,
        c if c.is_whitespace() => matches!(before, '.' | '!' | '?' | ':' | ';' | '…'),
        _ => false,
    }
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    let trimmed = piece.trim();
    if trimmed.is_empty() {
        return;
    }
    let start = range.start + (piece.len() - piece.trim_start().len());
    found.push(start..start + trimmed.len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        segments(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn sentences_and_lines_are_segments() {
        assert_eq!(
            cut("The price is 3.5 EUR today. Please unlock the door! Thanks\nsee example.com"),
            ["The price is 3.5 EUR today.", "Please unlock the door!", "Thanks\nsee example.com"]
        );
        assert_eq!(cut(" \n\t "), Vec::<&str>::new());
    }

    #[test]
    fn a_run_without_a_break_is_cut() {
        let text = "x".repeat(10 * MAX_BYTES);
        assert!(segments(&text).iter().all(|range| range.len() <= 2 * MAX_BYTES));
    }

    #[test]
    fn windows_overlap_and_reach_the_end() {
        let text = "This is one sentence of some length. ".repeat(40);
        let windows = windows(&text);
        assert!(
            windows
                .windows(2)
                .all(|pair| pair[1].start > pair[0].start && pair[1].start < pair[0].end)
        );
        assert!(windows.iter().all(|range| range.len() <= MAX_WINDOW_BYTES));
        assert_eq!(windows.last().map(|range| range.end), Some(text.trim_end().len()));
    }

    proptest! {
        #[test]
        fn every_segment_is_inside_a_window(text in "[a-z .\n]{0,3000}") {
            let windows = windows(&text);
            for segment in segments(&text) {
                prop_assert!(windows.iter().any(|w| w.start <= segment.start && segment.end <= w.end));
            }
        }

        #[test]
        fn only_white_space_is_left_out(text in "\\PC{0,300}|[a-z .\n]{0,600}") {
            let kept: String = cut(&text).concat();
            let kept = kept.chars().filter(|c| !c.is_whitespace());
            prop_assert!(kept.eq(text.chars().filter(|c| !c.is_whitespace())));
        }
    }
}
