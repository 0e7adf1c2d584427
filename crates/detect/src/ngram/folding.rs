//! Folding of a text for the vectoriser: lower case, no accents, words separated by single spaces.
//!
//! The same steps in the same order as scikit-learn's `strip_accents="unicode"`, `lowercase=True` and `char_wb`:
//! Python's `str.lower()`, NFKD, removal of characters with a combining class, then a split at Python's white space.
//! NFKD may reintroduce capitals and spaces (`™` becomes `TM`); they remain, as in scikit-learn. Characters added after
//! Unicode 14 may fold differently from Python 3.11, the reference.

use std::ops::Range;

use unicode_normalization::char::{canonical_combining_class, decompose_compatible};

use super::gram::{Gram, MAX_LENGTH};

/// A folded text: a space, then every word followed by one space. A text without words is one space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoldedText {
    characters: Vec<char>,
    /// The original bytes of each character, if requested.
    origins: Vec<Range<usize>>,
}

/// The range of lengths of n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NgramLengths {
    /// The shortest length in characters, at least 1.
    pub min: usize,
    /// The longest length in characters, at most 6.
    pub max: usize,
}

impl NgramLengths {
    /// Whether every n-gram of these lengths can be packed.
    pub(super) fn is_valid(self) -> bool {
        1 <= self.min && self.min <= self.max && self.max <= MAX_LENGTH
    }
}

impl FoldedText {
    /// Folds `text`.
    pub(super) fn new(text: &str) -> Self {
        let mut characters = Vec::with_capacity(text.len() + 2);
        characters.push(' ');
        if text.is_ascii() {
            // The common case: no ASCII character decomposes.
            text.bytes()
                .for_each(|byte| push(&mut characters, char::from(byte.to_ascii_lowercase())));
        } else {
            fold(text, |_, character| push(&mut characters, character));
        }
        finish(&mut characters);
        Self { characters, origins: Vec::new() }
    }

    /// Folds `text` and records the origin of each character.
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

    /// The bytes of the original text of the characters `from..to`, without the spaces around words.
    pub(super) fn span(&self, from: usize, to: usize) -> Range<usize> {
        let mut within = (from..to)
            .filter(|at| self.characters.get(*at).is_some_and(|character| *character != ' '));
        let first = within.next();
        let last = within.next_back().or(first).and_then(|at| self.origins.get(at));
        let first = first.and_then(|at| self.origins.get(at));
        match (first, last) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => {
                let at = self.origins.get(from).map_or(0, |origin| origin.start);
                at..at
            }
        }
    }

    /// Calls `each` with the position, the length and the value of every n-gram, including repeated ones.
    ///
    /// A word includes the space on either side. Every window of `min` to `max` characters is an n-gram; a word shorter
    /// than `min` is one n-gram.
    pub(super) fn each_gram(
        &self,
        lengths: NgramLengths,
        mut each: impl FnMut(usize, usize, Gram),
    ) {
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

/// Appends a character; consecutive white space becomes one space.
fn push(characters: &mut Vec<char>, character: char) {
    if !is_python_space(character) {
        characters.push(character);
    } else if characters.last() != Some(&' ') {
        characters.push(' ');
    }
}

/// Appends a space unless the text ends with one; returns whether it did.
fn finish(characters: &mut Vec<char>) -> bool {
    let is_missing = characters.last() != Some(&' ');
    if is_missing {
        characters.push(' ');
    }
    is_missing
}

/// Python's `str.isspace`: Unicode's white space, and the four separators that ASCII defines.
fn is_python_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// Calls `each` with every folded character and the bytes of its original.
fn fold(text: &str, mut each: impl FnMut(Range<usize>, char)) {
    // The whole text is lowered at once, because the lower case of a final sigma depends on its word. A character has
    // the same number of lower-case characters there as alone, which aligns the two.
    let lowered = text.to_lowercase();
    let mut lowered = lowered.chars();
    for (at, character) in text.char_indices() {
        for lower in lowered.by_ref().take(character.to_lowercase().count()) {
            decompose_compatible(lower, |part| {
                // Decomposed marks need no canonical order: those that have one are removed.
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
        FoldedText::new(text).characters.into_iter().collect()
    }

    fn grams(text: &str, min: usize, max: usize) -> Vec<String> {
        let mut found = Vec::new();
        FoldedText::new(text).each_gram(NgramLengths { min, max }, |_, _, gram| {
            found.push(gram.characters().collect());
        });
        found.sort();
        found
    }

    #[test]
    fn folding_lowers_strips_accents_and_splits_words_as_python_does() {
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
    fn a_word_shorter_than_every_length_is_one_n_gram() {
        assert_eq!(grams("a", 1, 4), [" ", " ", " a", " a ", "a", "a "]);
        assert_eq!(grams("a", 5, 6), [" a "]);
        assert_eq!(grams("ab", 4, 6), [" ab "]);
        assert_eq!(grams("ab", 3, 3), [" ab", "ab "]);
        assert_eq!(grams("a b", 2, 2), [" a", " b", "a ", "b "]);
        assert!(grams("", 1, 4).is_empty());
    }

    proptest! {
        #[test]
        fn folding_with_and_without_origins_agree(text in "[a-z \u{e9}\u{130}\u{3a3}\u{2122}\t]{0,40}") {
            let (quick, full) = (FoldedText::new(&text), FoldedText::with_origins(&text));
            prop_assert_eq!(&quick.characters, &full.characters);
            prop_assert_eq!(full.characters.len(), full.origins.len());
            for origin in &full.origins {
                prop_assert!(text.get(origin.clone()).is_some());
            }
        }
    }

    #[test]
    fn a_span_is_the_range_of_the_words_in_the_original() {
        let text = "  Größe  ™x";
        let folded = FoldedText::with_origins(text);
        // " große TMx ": characters 0 to 10.
        assert_eq!(&text[folded.span(0, 4)], "Grö");
        assert_eq!(&text[folded.span(4, 7)], "ße");
        assert_eq!(&text[folded.span(8, 9)], "™");
        assert!(text[folded.span(0, 1)].is_empty());
    }
}
