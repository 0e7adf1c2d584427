//! Matches all patterns against one text in linear time.
//!
//! [`Beginnings`] finds the words that patterns begin with. At each candidate position, the
//! pattern's own automaton runs anchored until it matches or cannot match any more, for at most
//! [`MAX_MATCH_BYTES`]. No step backtracks. Each automaton is built on first use, so a text
//! without trigger words builds none.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind as DfaMatchKind};

use super::beginnings::Beginnings;
use super::pattern::{Expression, PatternProblem};

/// The longest match, in bytes of normalised text.
pub const MAX_MATCH_BYTES: usize = 1024;

/// Cache size of one pattern's lazy DFA; a full cache is cleared.
const CACHE_BYTES: usize = 1 << 18;
/// Size limit of one pattern's NFA.
const NFA_BYTES: usize = 1 << 20;

/// The patterns of a rule file.
pub(super) struct Engine {
    beginnings: Beginnings,
    patterns: Vec<Pattern>,
    /// The DFA caches by pattern; one set for each thread.
    scratch: Pool<Vec<Option<Cache>>>,
}

struct Pattern {
    expression: Expression,
    automaton: OnceLock<DFA>,
}

impl Engine {
    /// Prepares `expressions`; a pattern's number is its place in the list.
    ///
    /// # Errors
    /// The first pattern that cannot be used, and why.
    pub(super) fn new(expressions: Vec<Expression>) -> Result<Engine, (usize, PatternProblem)> {
        Ok(Engine {
            beginnings: Beginnings::new(&expressions)?,
            patterns: expressions
                .into_iter()
                .map(|expression| Pattern { expression, automaton: OnceLock::new() })
                .collect(),
            scratch: Pool::new(Vec::new),
        })
    }

    /// Builds every automaton once, to check that all of them can be built.
    ///
    /// # Errors
    /// The first pattern that cannot be used, and why.
    pub(super) fn check(&self) -> Result<(), (usize, PatternProblem)> {
        for (number, pattern) in self.patterns.iter().enumerate() {
            pattern.build().map_err(|problem| (number, problem))?;
        }
        Ok(())
    }

    /// Calls `on_match` with each pattern's number and matched range, by ascending start.
    /// Patterns for which `is_wanted` returns `false` are skipped. Returns the bytes read.
    pub(super) fn find(
        &self,
        text: &str,
        is_wanted: impl Fn(usize) -> bool,
        mut on_match: impl FnMut(usize, Range<usize>),
    ) -> u64 {
        let bytes = text.as_bytes();
        let mut caches = self.scratch.get();
        caches.resize_with(self.patterns.len(), || None);
        let mut work = text.len();
        self.beginnings.find(bytes, |number, start| {
            let (Some(pattern), Some(cache)) = (self.patterns.get(number), caches.get_mut(number))
            else {
                return;
            };
            if !is_wanted(number) {
                return;
            }
            let (end, read) = pattern.match_end(cache, bytes, start);
            work += read;
            if let Some(end) = end {
                on_match(number, start..end);
            }
        });
        u64::try_from(work).unwrap_or(u64::MAX)
    }
}

impl Pattern {
    fn build(&self) -> Result<DFA, PatternProblem> {
        DFA::builder()
            .configure(
                DFA::config()
                    .match_kind(DfaMatchKind::All)
                    .cache_capacity(CACHE_BYTES)
                    .skip_cache_capacity_check(true),
            )
            .thompson(thompson::Config::new().nfa_size_limit(Some(NFA_BYTES)))
            .syntax(syntax::Config::new())
            .build(&self.expression.regex)
            .map_err(|error| PatternProblem::Expression(error.to_string()))
    }

    /// The end of the shortest match from `start`, and the number of bytes read.
    fn match_end(
        &self,
        cache: &mut Option<Cache>,
        text: &[u8],
        start: usize,
    ) -> (Option<usize>, usize) {
        let Some(automaton) = self.automaton() else { return (None, 0) };
        let cache = cache.get_or_insert_with(|| automaton.create_cache());
        let limit = text.len().min(start + MAX_MATCH_BYTES);
        let input = Input::new(text).span(start..limit).anchored(Anchored::Yes);
        let Ok(mut state) = automaton.start_state_forward(cache, &input) else { return (None, 0) };
        for at in start..limit {
            let Ok(next) = automaton.next_state(cache, state, text[at]) else {
                return (None, at - start);
            };
            state = next;
            if state.is_tagged() {
                // The automaton reports a match one byte late.
                if state.is_match() && self.may_end(text, at) {
                    return (Some(at), at - start);
                }
                if state.is_dead() || state.is_quit() {
                    return (None, at - start);
                }
            }
        }
        let last = automaton.next_eoi_state(cache, state);
        let matched = limit == text.len() && last.is_ok_and(|state| state.is_match());
        (matched.then_some(limit), limit - start)
    }

    fn may_end(&self, text: &[u8], end: usize) -> bool {
        !self.expression.is_whole_word || !text.get(end).is_some_and(u8::is_ascii_alphanumeric)
    }

    fn automaton(&self) -> Option<&DFA> {
        if self.automaton.get().is_none() {
            // `check` built it before.
            let _ = self.automaton.set(self.build().ok()?);
        }
        self.automaton.get()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Engine, PatternProblem};
    use crate::rules::pattern::translate;

    fn engine(patterns: &[&str]) -> Result<Engine, (usize, PatternProblem)> {
        let words = BTreeMap::new();
        Engine::new(patterns.iter().map(|pattern| translate(pattern, &words).unwrap()).collect())
    }

    fn matches<'t>(engine: &Engine, text: &'t str) -> Vec<(usize, &'t str)> {
        let mut found = Vec::new();
        engine.find(text, |_| true, |pattern, span| found.push((pattern, &text[span])));
        found
    }

    #[test]
    fn patterns_match_whole_words_with_gaps_between_them() {
        let engine = engine(&["ignore ~2 rules?", "act as", "<!--"]).unwrap();
        let cases: [(&str, &[(usize, &str)]); 8] = [
            ("ignore the rules now", &[(0, "ignore the rules")]),
            ("ignore, *all* the rule", &[(0, "ignore, *all* the rule")]),
            ("ignore one two three rules", &[]),
            ("ignore the ruler", &[]),
            ("signore rules", &[]),
            ("ignore the ignore rules", &[(0, "ignore the ignore rules"), (0, "ignore rules")]),
            ("act\nas <!--x", &[(1, "act\nas"), (2, "<!--")]),
            ("ignore. rules", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(matches(&engine, text), expected, "{text}");
        }
    }

    #[test]
    fn a_match_reads_a_bounded_part_of_the_text() {
        let engine = engine(&["ignore.*never"]).unwrap();
        let text = format!("ignore {}", "x".repeat(1_000_000));
        let work = engine.find(&text, |_| true, |_, _| ());
        assert!(work < 1_002_000, "{work}");
    }
}
