//! The canonical form of a text, and where each of its characters came from.

use std::ops::Range;

use crate::fold::fold;

/// The letters and digits of a text, folded, each with its place in the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CanonicalText {
    chars: Vec<char>,
    /// Where each character starts in the text, in bytes, rising.
    starts: Vec<u32>,
    length: u32,
}

impl CanonicalText {
    /// The canonical form of `text`. Linear; at most [`MAX_EXPANSION`](crate::MAX_EXPANSION) characters for each of the
    /// text's. What stands beyond the first 4 GiB is left out.
    pub fn of(text: &str) -> Self {
        let mut this = Self::for_text(text);
        text.char_indices().for_each(|(at, c)| this.push(c, at));
        this
    }

    /// An empty form of `text`, to be filled.
    pub(crate) fn for_text(text: &str) -> Self {
        let (chars, starts) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        Self { chars, starts, length: u32::try_from(text.len()).unwrap_or(u32::MAX) }
    }

    /// Appends what remains of `c`, which the text has at byte `at`.
    pub(crate) fn push(&mut self, c: char, at: usize) {
        let Ok(at) = u32::try_from(at) else { return };
        if c.is_ascii() {
            if c.is_ascii_alphanumeric() {
                self.chars.push(c.to_ascii_lowercase());
                self.starts.push(at);
            }
            return;
        }
        for part in fold(c).chars() {
            self.chars.push(*part);
            self.starts.push(at);
        }
    }

    /// Its characters: letters and digits.
    pub fn chars(&self) -> &[char] {
        &self.chars
    }

    /// The number of characters.
    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// Whether the text has neither letter nor digit.
    pub fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    /// The bytes of the text that a range of characters came from, up to where the next character begins: what stands
    /// between two letters belongs to the first.
    pub fn byte_range(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.starts.get(range.start).copied().unwrap_or(self.length);
        let end = self.starts.get(range.end).copied().unwrap_or(self.length).max(start);
        bytes(start)..bytes(end)
    }

    /// The bytes of the first place where `phrase` stands in this text. None for a phrase without letters and digits.
    pub fn find(&self, phrase: &Self) -> Option<Range<usize>> {
        self.matches(phrase).next().map(|range| self.byte_range(&range))
    }

    /// The first place where `phrase` stands in this text and reaches over byte `boundary`: begins before it, and has
    /// its last character at or after it. The range ends behind the first byte of that character.
    pub(crate) fn find_across(&self, phrase: &Self, boundary: usize) -> Option<Range<usize>> {
        let mut across = self.matches(phrase).filter(|range| {
            self.start(range.start) < boundary && self.start(range.end - 1) >= boundary
        });
        across.next().map(|range| self.start(range.start)..self.start(range.end - 1) + 1)
    }

    /// The byte at which a character starts.
    fn start(&self, at: usize) -> usize {
        self.starts.get(at).copied().map_or(usize::MAX, bytes)
    }

    /// Every place where `phrase` stands, as ranges of characters.
    ///
    /// Linear in both (Knuth, Morris and Pratt, 1977, <https://doi.org/10.1137/0206024>).
    fn matches<'a>(&'a self, phrase: &'a Self) -> impl Iterator<Item = Range<usize>> + 'a {
        let needle = phrase.chars();
        let borders = borders(needle);
        let mut matched = 0;
        self.chars.iter().zip(1..).filter_map(move |(c, end): (_, usize)| {
            while matched > 0 && needle.get(matched) != Some(c) {
                matched = borders.get(matched - 1).copied().unwrap_or_default();
            }
            matched += usize::from(needle.get(matched) == Some(c));
            let is_whole = matched == needle.len() && matched > 0;
            is_whole.then(|| end - needle.len()..end)
        })
    }
}

impl std::fmt::Display for CanonicalText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.chars.iter().try_for_each(|c| std::fmt::Write::write_char(f, *c))
    }
}

/// For each beginning of `needle`, the longest proper beginning that is also its end.
fn borders(needle: &[char]) -> Vec<usize> {
    let mut borders = vec![0; needle.len()];
    let mut matched = 0;
    for (at, c) in needle.iter().enumerate().skip(1) {
        while matched > 0 && needle.get(matched) != Some(c) {
            matched = borders.get(matched - 1).copied().unwrap_or_default();
        }
        matched += usize::from(needle.get(matched) == Some(c));
        if let Some(border) = borders.get_mut(at) {
            *border = matched;
        }
    }
    borders
}

fn bytes(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_bullets_hyphens_and_line_ends_leave_no_trace() {
        let plain = CanonicalText::of("Send the quarterly report to the new address").to_string();
        for text in [
            "> Send the quarterly\n> report to the new address",
            "* Send the quarterly\n  * report to the new address",
            "Send the quar-\nterly report to the new ad\u{ad}dress",
            "**Send** the _quarterly_ report to \"the new\" address!",
            "send\tthe\r\n\r\nQUARTERLY report; to the n\u{435}w address",
        ] {
            assert_eq!(CanonicalText::of(text).to_string(), plain, "{text:?}");
        }
    }

    #[test]
    fn a_range_of_the_form_is_a_range_of_the_bytes() {
        let text = "a\u{301} — \u{fb01}x.";
        let form = CanonicalText::of(text);
        assert_eq!(form.to_string(), "afix");
        assert_eq!(form.byte_range(&(0..1)), 0..8, "the mark and the dash follow the letter");
        assert_eq!(&text[form.byte_range(&(1..3))], "\u{fb01}");
        assert_eq!(&text[form.byte_range(&(3..4))], "x.");
        assert_eq!(form.byte_range(&(4..4)), text.len()..text.len());
    }

    #[test]
    fn a_phrase_is_found_by_its_letters_and_digits() {
        let text = CanonicalText::of("IBAN: DE89\u{202f}3704-0044 0532.0130 00 (new)");
        assert_eq!(text.find(&CanonicalText::of("de89370400440532013000")), Some(6..35 + 2));
        assert_eq!(text.find(&CanonicalText::of("DE89 3705")), None);
        assert_eq!(text.find(&CanonicalText::of(" … ")), None, "no letter, no place");
        assert_eq!(CanonicalText::of("aaab").find(&CanonicalText::of("aab")), Some(1..4));
    }
}
