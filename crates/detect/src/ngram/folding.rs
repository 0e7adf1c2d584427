//! A text as the vectoriser reads it: lower case, without accents, words parted by single spaces.
//!
//! The same steps in the same order as scikit-learn's `strip_accents="unicode"`, `lowercase=True` and `char_wb`:
//! Python's `str.lower()`, NFKD, characters with a combining class dropped, then words parted by what Python calls
//! white space. NFKD may bring capitals and spaces back (`™` becomes `TM`); they stay, as they do there. Characters
//! younger than Unicode 14 may fold differently from the Python 3.11 of the reference.

use std::ops::Range;

use unicode_normalization::char::{canonical_combining_class, decompose_compatible};

use super::gram::{Gram, MAX_LENGTH};

/// A folded text: a space, then every word followed by one space. A text without words is one space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folded {
    characters: Vec<char>,
    /// For each character the bytes it came from, if they were asked for.
    origins: Vec<Range<usize>>,
}

/// Where n-grams begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// Characters of the shortest n-gram, from 1.
    pub min: usize,
    /// Characters of the longest, at most 6.
    pub max: usize,
}

impl Lengths {
    /// Whether an n-gram of this range can be packed.
    pub(super) fn is_valid(self) -> bool {
        1 <= self.min && self.min <= self.max && self.max <= MAX_LENGTH
    }
}

impl Folded {
    /// Folds `text`.
    pub(super) fn new(text: &str) -> Self {
        let mut characters = Vec::with_capacity(text.len() + 2);
        characters.push(' ');
        if text.is_ascii() {
            // Most text; nothing below 128 decomposes.
            text.bytes()
                .for_each(|byte| push(&mut characters, char::from(byte.to_ascii_lowercase())));
        } else {
            fold(text, |_, character| push(&mut characters, character));
        }
        finish(&mut characters);
        Self { characters, origins: Vec::new() }
    }

    /// Folds `text` and keeps where each character came from.
    pub(super) fn with_origins(text: &str) -> Self {
        let (mut characters, mut origins) = (vec![' '], vec![Range::default()]);
        fold(text, |bytes, character| {
            let before = characters.len();
            push(&mut characters, character);
            if characters.len() > before {
                origins.push(bytes);
            }
        });
        if finish(&mut characters) {
            origins.push(text.len()..text.len());
        }
        Self { characters, origins }
    }

    /// The bytes of the original text that the characters `from..to` came from, without the spaces around words.
    pub(super) fn span(&self, from: usize, to: usize) -> Range<usize> {
        let within =
            |at: &usize| self.characters.get(*at).is_some_and(|character| *character != ' ');
        let first = (from..to).find(within).and_then(|at| self.origins.get(at));
        let last = (from..to).rev().find(within).and_then(|at| self.origins.get(at));
        match (first, last) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => {
                let at = self.origins.get(from).map_or(0, |origin| origin.start);
                at..at
            }
        }
    }

    /// Calls `each` with the place, the length and the value of every n-gram, repeated ones too.
    ///
    /// A word is read with the space on either side. Every window of `min` to `max` characters counts; a word that is
    /// shorter than `min` counts once, whole.
    pub(super) fn each_gram(&self, lengths: Lengths, mut each: impl FnMut(usize, usize, Gram)) {
        let characters = self.characters.as_slice();
        let mut start = 0;
        while let Some(length) =
            characters[start + 1..].iter().position(|character| *character == ' ')
        {
            let end = start + 1 + length;
            let min = lengths.min.min(end + 1 - start);
            for from in start..=end {
                let mut gram = Gram::default();
                let window = &characters[from..(from + lengths.max).min(end + 1)];
                for (position, &character) in window.iter().enumerate() {
                    gram = gram.with(position, character);
                    if position + 1 >= min {
                        each(from, position + 1, gram);
                    }
                }
            }
            start = end;
        }
    }
}

/// Appends a character; white space as one space, and none after another.
fn push(characters: &mut Vec<char>, character: char) {
    if !is_python_space(character) {
        characters.push(character);
    } else if characters.last() != Some(&' ') {
        characters.push(' ');
    }
}

/// Ends the last word with a space; says whether that was needed.
fn finish(characters: &mut Vec<char>) -> bool {
    let needed = characters.last() != Some(&' ');
    if needed {
        characters.push(' ');
    }
    needed
}

/// Python's `str.isspace`: Unicode's white space, and the four separators that ASCII defines.
fn is_python_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// Calls `each` with every folded character and the bytes of the one it came from.
fn fold(text: &str, mut each: impl FnMut(Range<usize>, char)) {
    // The whole text at once, because what a final sigma becomes depends on its word. Each character has as many
    // lower-case characters there as alone, which leads from the one to the other.
    let lowered = text.to_lowercase();
    let mut lowered = lowered.chars();
    for (at, character) in text.char_indices() {
        for lower in lowered.by_ref().take(character.to_lowercase().count()) {
            decompose_compatible(lower, |part| {
                // Decomposed marks are not put in canonical order: those that have an order are dropped.
                if canonical_combining_class(part) == 0 {
                    each(at..at + character.len_utf8(), part);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folded(text: &str) -> String {
        Folded::new(text).characters.into_iter().collect()
    }

    fn grams(text: &str, min: usize, max: usize) -> Vec<String> {
        let mut found = Vec::new();
        Folded::new(text)
            .each_gram(Lengths { min, max }, |_, _, gram| found.push(gram.characters().collect()));
        found.sort();
        found
    }

    #[test]
    fn folding_lowers_strips_accents_and_parts_words_as_python_does() {
        let cases = [
            ("", " "),
            (" \t\n", " "),
            ("Hello  World", " hello world "),
            ("Größe Über ÉCOLE", " große uber ecole "),
            ("a\u{1c}b\u{a0}c\u{3000}d\u{200b}e", " a b c d\u{200b}e "),
            ("ΟΔΥΣΣΕΥΣ ΣΑΣ", " οδυσσευς σας "),
            ("İstanbul", " istanbul "),
            ("ﬁ ½ ™ ´x", " fi 1\u{2044}2 TM x "),
            ("한", " \u{1112}\u{1161}\u{11ab} "),
            ("e\u{301}\u{323}", " e "),
        ];
        for (text, expected) in cases {
            assert_eq!(folded(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_short_word_counts_once_however_many_lengths_it_falls_short_of() {
        assert_eq!(grams("a", 1, 4), [" ", " ", " a", " a ", "a", "a "]);
        assert_eq!(grams("a", 5, 6), [" a "]);
        assert_eq!(grams("ab", 4, 6), [" ab "]);
        assert_eq!(grams("ab", 3, 3), [" ab", "ab "]);
        assert_eq!(grams("a b", 2, 2), [" a", " b", "a ", "b "]);
        assert!(grams("", 1, 4).is_empty());
    }

    proptest! {
        #[test]
        fn the_quick_way_and_the_way_with_origins_agree(text in "[a-z \u{e9}\u{130}\u{3a3}\u{2122}\t]{0,40}") {
            let (quick, full) = (Folded::new(&text), Folded::with_origins(&text));
            prop_assert_eq!(&quick.characters, &full.characters);
            prop_assert_eq!(full.characters.len(), full.origins.len());
            for origin in &full.origins {
                prop_assert!(text.get(origin.clone()).is_some());
            }
        }
    }

    #[test]
    fn a_span_points_at_the_words_in_the_original() {
        let text = "  Größe  ™x";
        let folded = Folded::with_origins(text);
        // " große TMx ": characters 0 to 10.
        assert_eq!(&text[folded.span(0, 4)], "Grö");
        assert_eq!(&text[folded.span(4, 7)], "ße");
        assert_eq!(&text[folded.span(8, 9)], "™");
        assert!(text[folded.span(0, 1)].is_empty());
    }
}
