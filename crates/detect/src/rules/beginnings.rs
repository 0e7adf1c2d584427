//! Finds the positions at which patterns may begin; this pass runs over every text.
//!
//! Every match begins with one of a few words, at a word boundary. The pass hashes four bytes of
//! each word. On a hit it compares the whole word and the first letters of the next one, and only
//! then runs the pattern's automaton.

use std::collections::{BTreeMap, BTreeSet};

use regex_syntax::hir::literal::Extractor;

use super::pattern::{Expression, PatternProblem};
use crate::blocks::{BLOCK, bits, blocks, is_word_byte, ones};

/// The maximum number of literal prefixes that are extracted from one pattern.
const MAX_LITERALS: usize = 600;
/// Bytes of a word that are hashed.
const KEY: usize = 4;
/// Bytes of a literal that are compared in one step.
const HEAD: usize = 8;
/// The maximum number of separators between two words, as for a blank in a pattern.
const MAX_SEPARATORS: usize = 4;

/// An index of the words that patterns begin with.
pub(super) struct Beginnings {
    /// One bit for each hash of four bytes; small enough for the processor cache.
    known: Vec<u64>,
    /// The range of `entries` for each hash.
    ranges: Vec<(u32, u32)>,
    entries: Vec<Entry>,
    literals: Vec<Vec<u8>>,
    /// Pattern numbers with their allowed second words.
    patterns: Vec<(usize, NextWords)>,
    /// The first bytes of literals that are not an ASCII letter or digit.
    signs: [bool; 256],
}

/// One word or word prefix, and the patterns that begin with it.
#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of the literal, and the mask of the valid ones.
    head: u64,
    head_mask: u64,
    /// The index of the literal in `literals`.
    literal: u32,
    len: u32,
    /// The range of its patterns.
    patterns: (u32, u32),
    /// Whether the word ends after the literal.
    is_word: bool,
}

/// The second words that a pattern allows: one bit for each hash of a word's first three bytes.
type NextWords = u128;
const ANY_WORD: NextWords = NextWords::MAX;
/// Bytes of a second word that are hashed.
const NEXT_KEY: usize = 3;
const OTHER: u8 = 0;

/// Byte classes: letters, digits and groups of non-ASCII bytes. All separators and other ASCII
/// characters are one class.
static CLASS: [u8; 256] = {
    let mut table = [OTHER; 256];
    let mut byte: u8 = 0;
    loop {
        table[byte as usize] = match byte {
            b'a'..=b'z' => byte - b'a' + 1,
            b'0'..=b'9' => byte - b'0' + 27,
            0x80..=0xff => 37 + (byte & 15),
            _ => OTHER,
        };
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};
const CLASSES: u8 = 53;

fn class(byte: u8) -> u8 {
    CLASS[usize::from(byte)]
}

/// The class of a literal's first byte. A punctuation character is its own class there; within a
/// literal it can match any separator.
fn first_class(byte: u8) -> u8 {
    if class(byte) == OTHER { byte | 0x80 } else { class(byte) }
}

/// The bit of a second word with the prefix `key`.
fn word_bit([a, b, c]: [u8; NEXT_KEY]) -> NextWords {
    1 << (hash(cut([a, b, c, OTHER])) % 128)
}

/// A first word or a prefix of one, and whether the word ends there.
type FirstWord = (Vec<u8>, bool);
/// The first words of one pattern, each with the allowed second words.
type Words = BTreeMap<FirstWord, NextWords>;

impl Beginnings {
    /// Builds the index of the first words of all `expressions`.
    ///
    /// # Errors
    /// The first pattern without a literal first word, and the reason.
    pub(super) fn new(expressions: &[Expression]) -> Result<Beginnings, (usize, PatternProblem)> {
        let mut patterns_of: BTreeMap<FirstWord, Vec<_>> = BTreeMap::new();
        for (number, expression) in expressions.iter().enumerate() {
            for (word, next) in first_words(expression).map_err(|problem| (number, problem))? {
                patterns_of.entry(word).or_default().push((number, next));
            }
        }
        let mut beginnings = Beginnings {
            known: vec![0; HASHES / 64],
            ranges: vec![(0, 0); HASHES],
            entries: Vec::new(),
            literals: Vec::new(),
            patterns: Vec::new(),
            signs: [false; 256],
        };
        let mut by_hash: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
        for ((literal, is_word), patterns) in patterns_of {
            let hashes: BTreeSet<usize> = keys(&literal, is_word).into_iter().map(hash).collect();
            let entry = beginnings.entry(literal, is_word, patterns);
            for hash in hashes {
                by_hash.entry(hash).or_default().push(entry);
            }
        }
        for (hash, entries) in by_hash {
            let start = small(beginnings.entries.len());
            beginnings.entries.extend(entries);
            beginnings.known[hash / 64] |= 1 << (hash % 64);
            beginnings.ranges[hash] = (start, small(beginnings.entries.len()));
        }
        Ok(beginnings)
    }

    fn entry(
        &mut self,
        literal: Vec<u8>,
        is_word: bool,
        patterns: Vec<(usize, NextWords)>,
    ) -> Entry {
        let first = literal.first().copied().unwrap_or_default();
        self.signs[usize::from(first)] |= !first.is_ascii_alphanumeric();
        let start = small(self.patterns.len());
        self.patterns.extend(patterns);
        let head_mask = u64::MAX >> (8 * (HEAD - literal.len().min(HEAD)));
        let entry = Entry {
            head: head(&literal, 0) & head_mask,
            head_mask,
            literal: small(self.literals.len()),
            len: small(literal.len()),
            patterns: (start, small(self.patterns.len())),
            is_word,
        };
        self.literals.push(literal);
        entry
    }

    /// Calls `may_begin` with each candidate pattern and position, by ascending position.
    pub(super) fn find(&self, text: &[u8], mut may_begin: impl FnMut(usize, usize)) {
        let mut in_word = 0;
        for (number, block) in blocks(text).enumerate() {
            let words = bits(&block, is_word_byte);
            // No pattern begins with a separator; zero bytes pad the last block.
            let signs = bits(&block, |byte| {
                !(is_word_byte(byte)
                    | (byte == b' ')
                    | (byte == b'\n')
                    | (byte == b',')
                    | (byte == 0))
            });
            let starts = (words & !(words << 1 | in_word)) | signs;
            in_word = words >> (BLOCK - 1);
            for place in ones(starts) {
                self.look_up(text, number * BLOCK + place, &mut may_begin);
            }
        }
    }

    fn look_up(&self, text: &[u8], start: usize, may_begin: &mut impl FnMut(usize, usize)) {
        let (Some(first), bytes) = (text.get(start), head(text, start)) else { return };
        let [a, b, c, d, ..] = bytes.to_le_bytes();
        let hash = hash(cut([first_class(a), class(b), class(c), class(d)]));
        if self.known[hash / 64] >> (hash % 64) & 1 == 0
            || !(first.is_ascii_alphanumeric() || self.signs[usize::from(*first)])
        {
            return;
        }
        for entry in slice(&self.entries, self.ranges[hash]) {
            if bytes & entry.head_mask == entry.head {
                self.compare(entry, text, start, may_begin);
            }
        }
    }

    fn compare(
        &self,
        entry: &Entry,
        text: &[u8],
        start: usize,
        may_begin: &mut impl FnMut(usize, usize),
    ) {
        let len = usize::try_from(entry.len).unwrap_or(usize::MAX);
        let after = start + len;
        if len > HEAD {
            let literal =
                usize::try_from(entry.literal).ok().and_then(|place| self.literals.get(place));
            if literal.map(Vec::as_slice) != text.get(start..after) {
                return;
            }
        }
        if entry.is_word && text.get(after).is_some_and(|byte| class(*byte) != OTHER) {
            return;
        }
        let next = if entry.is_word { next_word(text, after) } else { ANY_WORD };
        for (pattern, allowed) in slice(&self.patterns, entry.patterns) {
            if allowed & next != 0 {
                may_begin(*pattern, start);
            }
        }
    }
}

/// Eight bytes from `start`, padded with blanks.
fn head(text: &[u8], start: usize) -> u64 {
    let mut bytes = [b' '; HEAD];
    match text.get(start..start + HEAD).and_then(|found| <&[u8; HEAD]>::try_from(found).ok()) {
        Some(found) => bytes = *found,
        None => {
            let rest = text.get(start..).unwrap_or_default();
            bytes.iter_mut().zip(rest).for_each(|(slot, byte)| *slot = *byte);
        }
    }
    u64::from_le_bytes(bytes)
}

fn slice<T>(all: &[T], (start, end): (u32, u32)) -> &[T] {
    let [start, end] = [start, end].map(|index| usize::try_from(index).unwrap_or(usize::MAX));
    all.get(start..end).unwrap_or_default()
}

/// The limit on a rule file keeps every index below `u32::MAX`.
fn small(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// The bit of the word after the separators, or all bits if the separators do not end.
fn next_word(text: &[u8], after: usize) -> NextWords {
    let rest = text.get(after..).unwrap_or_default();
    match rest.iter().take(MAX_SEPARATORS + 1).position(|byte| class(*byte) != OTHER) {
        Some(place) => {
            let [a, b, c, ..] = head(rest, place).to_le_bytes();
            word_bit([class(a), class(b), class(c)])
        }
        None => ANY_WORD,
    }
}

/// The bit of a literal's second word, or all bits if too few of its bytes are known.
fn second_word(literal: &[u8]) -> NextWords {
    let mut key = [OTHER; NEXT_KEY];
    for (place, slot) in key.iter_mut().enumerate() {
        match literal.get(place).map(|byte| class(*byte)) {
            // The word ends here, so the following bytes do not matter.
            Some(OTHER) if place > 0 => return word_bit(key),
            Some(known) if known != OTHER => *slot = known,
            _ => return ANY_WORD,
        }
    }
    word_bit(key)
}

/// Clears the bytes after the end of a short word. Without branches, because the lengths of words
/// are unpredictable.
fn cut([a, b, c, d]: [u8; KEY]) -> [u8; KEY] {
    let two = u8::from(b != OTHER);
    let three = two & u8::from(c != OTHER);
    [a, b, c * two, d * three]
}

/// The number of hash values.
const HASHES: usize = 1 << 16;

fn hash(key: [u8; KEY]) -> usize {
    let [_, _, low, high] = u32::from_le_bytes(key).wrapping_mul(0x9e37_79b1).to_le_bytes();
    usize::from(u16::from_le_bytes([low, high]))
}

/// The keys of all texts that begin with `literal`: one, unless it is shorter than a key and the
/// word can continue.
fn keys(literal: &[u8], is_word: bool) -> Vec<[u8; KEY]> {
    let mut keys = vec![Vec::new()];
    for place in 0..KEY {
        let known = match literal.get(place) {
            Some(byte) if place == 0 => Some(first_class(*byte)),
            Some(byte) => Some(class(*byte)),
            None if is_word && place == literal.len() => Some(OTHER),
            None => None,
        };
        let choices = known.map_or(OTHER..CLASSES, |known| known..known + 1);
        keys = keys
            .iter()
            .flat_map(|key| choices.clone().map(move |next| [key.as_slice(), &[next]].concat()))
            .collect();
        // After the end of a short word, `cut` makes all keys equal.
        keys.iter_mut().for_each(|key: &mut Vec<u8>| {
            let mut padded = [OTHER; KEY];
            padded.iter_mut().zip(key.iter()).for_each(|(slot, class)| *slot = *class);
            key.clear();
            key.extend(&cut(padded)[..=place]);
        });
        keys.dedup();
    }
    keys.iter().filter_map(|key| key.as_slice().try_into().ok()).map(cut).collect()
}

/// The words one of which begins every match.
fn first_words(expression: &Expression) -> Result<Words, PatternProblem> {
    let hir = regex_syntax::parse(&expression.skeleton)
        .map_err(|error| PatternProblem::Expression(error.to_string()))?;
    let sequence = Extractor::new().limit_total(MAX_LITERALS).extract(&hir);
    let literals = sequence.literals().ok_or(PatternProblem::Beginning)?;
    let mut words = Words::new();
    for literal in literals {
        let bytes = literal.as_bytes();
        let end = bytes.iter().position(|byte| *byte == b' ');
        let word = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let second = end.and_then(|end| bytes.get(end + 1..)).map_or(ANY_WORD, second_word);
        // The pattern decides whether a word at its very end is complete, so it is a prefix here.
        let is_word = end.is_some() && word.last().is_some_and(|last| class(*last) != OTHER);
        let separator = bytes.first().is_none_or(|first| matches!(first, b' ' | b'\n' | b','));
        if word.len() < 2 || separator {
            return Err(PatternProblem::Beginning);
        }
        let allowed = if is_word { second } else { ANY_WORD };
        *words.entry((word.to_vec(), is_word)).or_default() |= allowed;
    }
    Ok(without_repeats(words))
}

/// Drops words of which a shorter prefix is listed.
fn without_repeats(words: Words) -> Words {
    let mut kept = Words::new();
    let mut shortest: Option<Vec<u8>> = None;
    for ((word, is_word), next) in words {
        if shortest.as_ref().is_some_and(|shortest| word.starts_with(shortest)) {
            // `false` sorts before `true`, so a prefix comes before the word of the same letters.
            continue;
        }
        if !is_word {
            shortest = Some(word.clone());
        }
        kept.insert((word, is_word), next);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Beginnings;
    use crate::rules::pattern::{PatternProblem, translate};

    fn beginnings(patterns: &[&str]) -> Result<Beginnings, (usize, PatternProblem)> {
        let words = BTreeMap::new();
        let translated: Vec<_> =
            patterns.iter().map(|pattern| translate(pattern, &words).unwrap()).collect();
        Beginnings::new(&translated)
    }

    fn found(patterns: &[&str], text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        beginnings(patterns)
            .unwrap()
            .find(text.as_bytes(), |pattern, at| found.push((pattern, at)));
        found
    }

    #[test]
    fn candidates_match_the_first_word_and_the_next_letters() {
        let patterns = ["ignor(?:e|ing) (?:all|the)", "act as", "<!--", "in \\w+", "забудь", "to"];
        let cases: [(&str, &[(usize, usize)]); 10] = [
            ("ignore all", &[(0, 0)]),
            ("now ignoring, the", &[(0, 4)]),
            ("ignore me", &[]),
            ("ignores all", &[]),
            ("xact as, act as", &[(1, 9)]),
            ("a<!-- x", &[(2, 1)]),
            ("in it, inn in", &[(3, 0), (3, 11)]),
            ("и забудь", &[(4, 3)]),
            ("to", &[(5, 0)]),
            ("tomorrow top", &[(5, 0), (5, 9)]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(&patterns, text), expected, "{text}");
        }
    }

    #[test]
    fn candidates_are_found_across_block_boundaries() {
        for shift in 0..600 {
            let text = format!("{}act as", " ".repeat(shift));
            assert_eq!(found(&["act as"], &text), [(0, shift)], "{shift}");
        }
    }

    #[test]
    fn a_pattern_without_a_literal_first_word_is_rejected() {
        for pattern in [r"\w+ rules", ".*ignore", "a|ignore", "(?:ignore)? all"] {
            assert_eq!(
                beginnings(&[pattern]).err(),
                Some((0, PatternProblem::Beginning)),
                "{pattern}"
            );
        }
    }
}
