//! All patterns over one text, in linear time.
//!
//! One Aho-Corasick automaton finds the words that patterns begin with. Where one begins, that
//! pattern's own automaton reads on, anchored, until it matches or can match no more, at most
//! [`MAX_MATCH_BYTES`]. No step backtracks. Automata are built when first needed, so a text
//! without trigger words pays for none.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind as DfaMatchKind};
use regex_syntax::hir::literal::Extractor;

use super::pattern::{Expression, PatternProblem};

/// The longest match, in bytes of normalised text.
pub const MAX_MATCH_BYTES: usize = 1024;

/// Memory of one pattern's automaton while it is used. When it is full it starts anew.
const CACHE_BYTES: usize = 1 << 18;
/// Memory of one pattern before it is an automaton.
const NFA_BYTES: usize = 1 << 20;
/// Words that one pattern may begin with.
const MAX_BEGINNINGS: usize = 400;

type Caches = Vec<Option<Cache>>;
type MakeCaches = Box<dyn Fn() -> Caches + Send + Sync>;

/// The patterns of a rule file.
pub(super) struct Engine {
    beginnings: AhoCorasick,
    /// For each beginning, the patterns that have it.
    begun_by: Vec<Vec<usize>>,
    patterns: Vec<Pattern>,
    scratch: Pool<Caches, MakeCaches>,
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
        let mut by_beginning: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (number, expression) in expressions.iter().enumerate() {
            for beginning in beginnings(expression).map_err(|problem| (number, problem))? {
                by_beginning.entry(beginning).or_default().push(number);
            }
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(by_beginning.keys());
        let too_much = |_| (0, PatternProblem::Expression("too many beginnings".to_owned()));
        let count = expressions.len();
        let pattern = |expression| Pattern { expression, automaton: OnceLock::new() };
        Ok(Engine {
            beginnings: automaton.map_err(too_much)?,
            begun_by: by_beginning.into_values().collect(),
            patterns: expressions.into_iter().map(pattern).collect(),
            scratch: Pool::new(Box::new(move || (0..count).map(|_| None).collect())),
        })
    }

    /// Builds every automaton now, to learn whether all can be built.
    ///
    /// # Errors
    /// The first pattern that cannot be used, and why.
    pub(super) fn check(&self) -> Result<(), (usize, PatternProblem)> {
        for (number, pattern) in self.patterns.iter().enumerate() {
            pattern.build().map_err(|problem| (number, problem))?;
        }
        Ok(())
    }

    /// Calls `found` with each pattern's number and the bytes it matches, by ascending position
    /// of the word it begins with. `wanted` says whether a pattern is still of interest.
    /// Returns the work done: bytes that an automaton read.
    pub(super) fn find(
        &self,
        text: &str,
        wanted: impl Fn(usize) -> bool,
        mut found: impl FnMut(usize, Range<usize>),
    ) -> u64 {
        let bytes = text.as_bytes();
        let mut caches = self.scratch.get();
        let mut work = text.len();
        for beginning in self.beginnings.find_overlapping_iter(text) {
            if continues_word(bytes, beginning.start()) {
                continue;
            }
            let begun = self.begun_by.get(beginning.pattern().as_usize());
            for number in begun.into_iter().flatten().copied().filter(|number| wanted(*number)) {
                let (Some(pattern), Some(cache)) =
                    (self.patterns.get(number), caches.get_mut(number))
                else {
                    continue;
                };
                let (end, read) = pattern.match_end(cache, bytes, beginning.start());
                work += read;
                if let Some(end) = end {
                    found(number, beginning.start()..end);
                }
            }
        }
        u64::try_from(work).unwrap_or(u64::MAX)
    }
}

/// A word cannot begin here, because one is going on.
fn continues_word(text: &[u8], at: usize) -> bool {
    let word = |index: usize| text.get(index).is_some_and(u8::is_ascii_alphanumeric);
    at > 0 && word(at - 1) && word(at)
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

    /// Where the shortest match that begins at `start` ends, and the bytes read to know it.
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
                // The automaton knows of a match when it has read the byte after it.
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
        !self.expression.whole_word || !text.get(end).is_some_and(u8::is_ascii_alphanumeric)
    }

    fn automaton(&self) -> Option<&DFA> {
        if self.automaton.get().is_none() {
            // `check` has shown that it builds.
            let _ = self.automaton.set(self.build().ok()?);
        }
        self.automaton.get()
    }
}

/// The literals that every match begins with one of; none is a beginning of another.
fn beginnings(expression: &Expression) -> Result<Vec<Vec<u8>>, PatternProblem> {
    let hir = regex_syntax::parse(&expression.regex)
        .map_err(|error| PatternProblem::Expression(error.to_string()))?;
    let sequence = Extractor::new().limit_total(MAX_BEGINNINGS).extract(&hir);
    let literals = sequence.literals().ok_or(PatternProblem::Beginning)?;
    let mut literals: Vec<Vec<u8>> =
        literals.iter().map(|literal| literal.as_bytes().to_vec()).collect();
    literals.sort();
    let mut shortest: Vec<Vec<u8>> = Vec::new();
    for literal in literals {
        if literal.len() < 2 {
            return Err(PatternProblem::Beginning);
        }
        if !shortest.last().is_some_and(|known| literal.starts_with(known)) {
            shortest.push(literal);
        }
    }
    Ok(shortest)
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
    fn a_pattern_that_may_begin_with_anything_is_refused() {
        for pattern in [r"\w+ rules", ".*ignore", "a|ignore", "(?:ignore)? all"] {
            assert_eq!(engine(&[pattern]).err(), Some((0, PatternProblem::Beginning)), "{pattern}");
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
