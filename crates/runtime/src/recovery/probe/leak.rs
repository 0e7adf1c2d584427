//! How much of a text an answer holds, by what stands in it: runs of characters, n-grams, rare words, numbers.
//!
//! Embeddings tell what a text is about; a leak is in the letters (PRIOR-ART R36). Texts are compared in compatibility
//! form, lower case, blanks folded.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::certificate::ppm::Ppm;
use custody_kernel::certificate::probe::Scores;

use crate::ingress::normalised;

/// Length of n-grams, in characters.
const GRAM: usize = 8;

/// The longest text that is compared, in characters; the rest is not read.
const MAX_CHARS: usize = 20_000;

/// Words that are too common to tell anything, in characters at most.
const COMMON_WORD: usize = 5;

/// The scores of an answer that holds nothing.
pub(super) fn nothing() -> Scores {
    Scores {
        embedding_ppm: None,
        longest_run_ppm: Some(Ppm::ZERO),
        ngrams_ppm: Some(Ppm::ZERO),
        numbers_ppm: None,
        tokens_ppm: Some(Ppm::ZERO),
    }
}

/// How much of `text` stands in `answer`.
pub(super) fn scores(text: &str, answer: &str) -> Scores {
    let (text, answer) = (Compared::of(text), Compared::of(answer));
    Scores {
        embedding_ppm: None,
        longest_run_ppm: Some(share(text.longest_run_in(&answer), text.chars.len())),
        ngrams_ppm: Some(contained(&text.grams(), &answer.grams())),
        numbers_ppm: (!text.numbers.is_empty()).then(|| contained(&text.numbers, &answer.numbers)),
        tokens_ppm: Some(contained(&text.words, &answer.words)),
    }
}

/// Of each measure the higher.
pub(super) fn higher(one: Scores, other: Scores) -> Scores {
    Scores {
        embedding_ppm: one.embedding_ppm.max(other.embedding_ppm),
        longest_run_ppm: one.longest_run_ppm.max(other.longest_run_ppm),
        ngrams_ppm: one.ngrams_ppm.max(other.ngrams_ppm),
        numbers_ppm: one.numbers_ppm.max(other.numbers_ppm),
        tokens_ppm: one.tokens_ppm.max(other.tokens_ppm),
    }
}

/// The longest lines of a text, at most `count`: what somebody who looks for it would type.
pub(super) fn passages(text: &str, count: usize) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.split(['\n', '.', '!', '?']).map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.chars().count()));
    lines.truncate(count);
    lines
}

/// A text of the same form that was never stored: every letter and digit is another.
pub(super) fn never_stored(text: &str) -> String {
    let turned = |c: char, first: u8, count: u8, by: u8| {
        let at = u32::from(c).wrapping_sub(u32::from(first));
        let at = (at + u32::from(by)) % u32::from(count);
        char::from(first.wrapping_add(u8::try_from(at).unwrap_or_default()))
    };
    text.chars()
        .map(|c| match c {
            'a'..='z' => turned(c, b'a', 26, 11),
            'A'..='Z' => turned(c, b'A', 26, 11),
            '0'..='9' => turned(c, b'0', 10, 7),
            _ => c,
        })
        .collect()
}

struct Compared {
    chars: Vec<char>,
    words: BTreeSet<String>,
    numbers: BTreeSet<String>,
}

impl Compared {
    fn of(text: &str) -> Self {
        let chars: Vec<char> = normalised(text).chars().take(MAX_CHARS).collect();
        let whole: String = chars.iter().collect();
        let parts = whole.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
        let (numbers, words): (BTreeSet<String>, BTreeSet<String>) =
            parts.map(str::to_owned).partition(|part| part.chars().any(|c| c.is_ascii_digit()));
        let words = words.into_iter().filter(|word| word.chars().count() > COMMON_WORD).collect();
        let numbers = numbers.into_iter().filter(|number| number.len() > 2).collect();
        Self { chars, words, numbers }
    }

    fn grams(&self) -> BTreeSet<&[char]> {
        if self.chars.len() < GRAM {
            return BTreeSet::from([self.chars.as_slice()]);
        }
        self.chars.windows(GRAM).collect()
    }

    /// The length of the longest run of characters that stands in both. By a suffix automaton of this one, so linear.
    fn longest_run_in(&self, answer: &Self) -> usize {
        let automaton = Automaton::of(&self.chars);
        let (mut state, mut length, mut longest) = (0, 0, 0);
        for c in &answer.chars {
            while state != 0 && !automaton.next(state).contains_key(c) {
                state = automaton.link(state);
                length = automaton.length(state);
            }
            if let Some(next) = automaton.next(state).get(c) {
                state = *next;
                length += 1;
            }
            longest = longest.max(length);
        }
        longest
    }
}

/// A suffix automaton: every run of a text is a path from state 0.
///
/// Source: Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text".
struct Automaton {
    states: Vec<State>,
}

#[derive(Default, Clone)]
struct State {
    next: BTreeMap<char, usize>,
    link: usize,
    length: usize,
}

impl Automaton {
    fn of(chars: &[char]) -> Self {
        let mut this = Self { states: vec![State::default()] };
        let mut last = 0;
        for c in chars {
            last = this.extend(last, *c);
        }
        this
    }

    fn extend(&mut self, last: usize, c: char) -> usize {
        let new = self.states.len();
        self.states.push(State { length: self.length(last) + 1, ..State::default() });
        let mut at = Some(last);
        while let Some(state) = at.filter(|state| !self.next(*state).contains_key(&c)) {
            self.set(state, c, new);
            at = (state != 0).then(|| self.link(state));
        }
        let Some(state) = at else { return new };
        let reached = self.next(state).get(&c).copied().unwrap_or_default();
        let link = if self.length(state) + 1 == self.length(reached) {
            reached
        } else {
            self.split(state, c, reached)
        };
        if let Some(made) = self.states.get_mut(new) {
            made.link = link;
        }
        new
    }

    /// Parts from `reached` what is as long as the way over `state`.
    fn split(&mut self, state: usize, c: char, reached: usize) -> usize {
        let copy = self.states.len();
        let mut copied = self.states.get(reached).cloned().unwrap_or_default();
        copied.length = self.length(state) + 1;
        self.states.push(copied);
        let mut at = Some(state);
        while let Some(state) = at.filter(|state| self.next(*state).get(&c) == Some(&reached)) {
            self.set(state, c, copy);
            at = (state != 0).then(|| self.link(state));
        }
        if let Some(reached) = self.states.get_mut(reached) {
            reached.link = copy;
        }
        copy
    }

    fn set(&mut self, state: usize, c: char, to: usize) {
        if let Some(state) = self.states.get_mut(state) {
            state.next.insert(c, to);
        }
    }

    fn next(&self, state: usize) -> &BTreeMap<char, usize> {
        const NONE: &BTreeMap<char, usize> = &BTreeMap::new();
        self.states.get(state).map_or(NONE, |state| &state.next)
    }

    fn link(&self, state: usize) -> usize {
        self.states.get(state).map_or(0, |state| state.link)
    }

    fn length(&self, state: usize) -> usize {
        self.states.get(state).map_or(0, |state| state.length)
    }
}

fn contained<T: Ord>(of: &BTreeSet<T>, within: &BTreeSet<T>) -> Ppm {
    share(of.intersection(within).count(), of.len())
}

fn share(part: usize, whole: usize) -> Ppm {
    if whole == 0 {
        return Ppm::ZERO;
    }
    let millionths = part as u64 * 1_000_000 / whole as u64;
    u32::try_from(millionths).ok().and_then(|ppm| Ppm::try_from(ppm).ok()).unwrap_or(Ppm::ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str =
        "Send the reserve of 48213 francs to the Marquardt account before Thursday.";

    fn max(answer: &str) -> u32 {
        scores(SECRET, answer).max().unwrap().millionths()
    }

    /// (R36)
    #[test]
    fn a_verbatim_leak_scores_high_however_much_stands_around_it() {
        let buried =
            format!("{} {SECRET} {}", "lorem ipsum ".repeat(500), "dolor sit ".repeat(500));
        assert_eq!(max(&buried), 1_000_000);
        assert!(max("the reserve is 48,213; the number is 48213") >= 1_000_000, "its number");
        assert!(max("What a lovely day it is for a walk in the park.") < 200_000);
        assert!(max(&never_stored(SECRET)) < 200_000);
    }

    #[test]
    fn the_longest_run_is_that_of_the_naive_search() {
        let naive = |one: &str, other: &str| {
            let of = |s: &str| s.chars().collect::<Vec<_>>();
            let (one, other) = (of(one), of(other));
            let runs = (0..one.len()).flat_map(|i| (0..other.len()).map(move |j| (i, j)));
            runs.map(|(i, j)| one[i..].iter().zip(&other[j..]).take_while(|(a, b)| a == b).count())
                .max()
                .unwrap_or(0)
        };
        for (one, other) in
            [("abcbc", "bcbca"), ("aabaa", "baab"), ("", "x"), ("abab", "bababa"), ("xyz", "")]
        {
            let (a, b) = (Compared::of(one), Compared::of(other));
            assert_eq!(a.longest_run_in(&b), naive(one, other), "{one} {other}");
        }
    }
}
