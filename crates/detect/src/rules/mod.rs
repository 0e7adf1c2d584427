//! D1: the rule detector. It matches all rules against every view of a text in linear time.
//!
//! In reading order:
//!
//! - this file: the rule set and its operations.
//! - `file`: the rule file format; `rules/rules.toml` is the compiled-in file.
//! - `pattern`: the pattern syntax.
//! - `engine`: matches all patterns against one text; `beginnings`: candidate match positions.
//! - `mention`: whether a phrase is used as a command or only mentioned.
//! - `scan`: all views of one text, and the score.
//! - `strip`: removes the decisive matches from a text.

mod beginnings;
mod engine;
mod file;
mod mention;
mod pattern;
mod scan;
mod strip;

use std::sync::LazyLock;

pub use engine::MAX_MATCH_BYTES;
pub use file::{MAX_FILE_BYTES, MAX_PATTERNS, RulesError};
pub use pattern::PatternProblem;
pub use scan::{MAX_FINDINGS_PER_RULE, ScanResult};
pub use strip::{StrippedText, strip_to_fixed_point};

use crate::built_in;
use crate::finding::Severity;
use crate::normalise::{TextTooLong, Vocabulary, fold_literal};
use engine::Engine;
use file::RuleEntry;

/// A text with this score or a higher one is flagged.
///
/// Source: memory integrity paper §5.2, D1.
pub const THRESHOLD: f64 = 0.5;

/// A compiled set of rules. It can be shared between threads.
pub struct RuleSet {
    rules: Vec<Rule>,
    /// The index of each pattern's rule.
    rule_of: Vec<usize>,
    engine: Engine,
    vocabulary: Vocabulary,
}

/// The fields of a rule that are copied into its findings.
struct Rule {
    name: String,
    family: String,
    severity: Severity,
    confidence: f64,
    mentioned: f64,
    explanation: String,
}

/// The number of families, rules and patterns of a rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCount {
    /// Attack families; the score counts each family once.
    pub families: usize,
    /// Named rules.
    pub rules: usize,
    /// Patterns of all rules.
    pub patterns: usize,
}

static BUILT_IN: LazyLock<RuleSet> =
    LazyLock::new(|| RuleSet::prepare(built_in::RULES).expect("a test reads the committed rules"));

impl RuleSet {
    /// The compiled-in rules, prepared on first use.
    #[must_use]
    pub fn built_in() -> &'static RuleSet {
        &BUILT_IN
    }

    /// Parses rules in the format of `crates/detect/rules/rules.toml` and checks that every
    /// pattern compiles. It does not run the examples; see [`RuleSet::failing_examples`].
    ///
    /// # Errors
    /// [`RulesError`] with the name of the invalid rule.
    pub fn parse(toml: &str) -> Result<RuleSet, RulesError> {
        let rules = RuleSet::prepare(toml)?;
        rules.engine.check().map_err(|(pattern, problem)| RulesError::Pattern {
            rule: rules.name_of(pattern),
            number: number_in_rule(&rules.rule_of, pattern),
            problem,
        })?;
        Ok(rules)
    }

    /// Same as `parse`, but builds each automaton on its first use.
    pub(crate) fn prepare(toml: &str) -> Result<RuleSet, RulesError> {
        let (file, expressions) = file::parse(toml)?;
        let mut vocabulary = Vocabulary::default();
        for example in file.rules.iter().flat_map(|rule| &rule.matches) {
            vocabulary.add_words(&fold_literal(example));
        }
        let (rule_of, expressions): (Vec<usize>, Vec<_>) = expressions.into_iter().unzip();
        let engine = Engine::new(expressions).map_err(|(pattern, problem)| {
            let rule = rule_of.get(pattern).copied().unwrap_or(0);
            RulesError::Pattern {
                rule: file.rules.get(rule).map(|rule| rule.name.clone()).unwrap_or_default(),
                number: number_in_rule(&rule_of, pattern),
                problem,
            }
        })?;
        let rules = file.rules.into_iter().map(Rule::from).collect();
        Ok(RuleSet { rules, rule_of, engine, vocabulary })
    }

    fn name_of(&self, pattern: usize) -> String {
        let rule = self.rules.get(self.rule_index(pattern));
        rule.map(|rule| rule.name.clone()).unwrap_or_default()
    }

    /// The index of a pattern's rule; out of range for an unknown pattern.
    fn rule_index(&self, pattern: usize) -> usize {
        self.rule_of.get(pattern).copied().unwrap_or(usize::MAX)
    }

    /// Matches the rules against every view of `text`.
    ///
    /// # Errors
    /// [`TextTooLong`] before any of the text is read.
    pub fn scan(&self, text: &str) -> Result<ScanResult, TextTooLong> {
        scan::scan(self, text, 0)
    }

    /// Same as `scan`, but reports only findings that end after the byte `from`.
    pub(crate) fn scan_beyond(&self, text: &str, from: usize) -> Result<ScanResult, TextTooLong> {
        scan::scan(self, text, from)
    }

    /// Counts families, rules and patterns.
    #[must_use]
    pub fn count(&self) -> RuleCount {
        let families: std::collections::BTreeSet<&str> =
            self.rules.iter().map(|rule| rule.family.as_str()).collect();
        RuleCount {
            families: families.len(),
            rules: self.rules.len(),
            patterns: self.rule_of.len(),
        }
    }

    /// Parses a rule file and runs its examples. The result has one line for each example that a
    /// rule misses, each clean text that a rule finds, and each pattern without a matched example.
    ///
    /// # Errors
    /// [`RulesError`] when the file is not a valid rule file.
    pub fn failing_examples(toml: &str) -> Result<Vec<String>, RulesError> {
        let rules = RuleSet::parse(toml)?;
        let (file, expressions) = file::parse(toml)?;
        let mut failing = Vec::new();
        for rule in &file.rules {
            let name = &rule.name;
            let missed = rule.matches.iter().filter(|text| !rules.has_finding(name, text));
            failing.extend(missed.map(|text| format!("`{name}` misses: {text}")));
            let wrong = rule.clean.iter().filter(|text| rules.has_finding(name, text));
            failing.extend(wrong.map(|text| format!("`{name}` finds: {text}")));
        }
        for (number, (rule, expression)) in expressions.into_iter().enumerate() {
            let Some(entry) = file.rules.get(rule) else { continue };
            if !matches_any(expression, &entry.matches) {
                let number = number_in_rule(&rules.rule_of, number);
                failing.push(format!("`{}` pattern {number} finds no example", entry.name));
            }
        }
        Ok(failing)
    }

    fn has_finding(&self, rule: &str, text: &str) -> bool {
        self.scan(text).is_ok_and(|scan| scan.findings.iter().any(|found| found.rule == rule))
    }
}

/// Whether a pattern matches one of the normalised `texts`.
fn matches_any(expression: pattern::Expression, texts: &[String]) -> bool {
    let Ok(engine) = Engine::new(vec![expression]) else { return false };
    let mut is_matched = false;
    for text in texts.iter().filter_map(|text| crate::normalise(text).ok()) {
        engine.find(text.text(), |_| true, |_, _| is_matched = true);
    }
    is_matched
}

/// The number of a pattern within its rule, counted from 1.
fn number_in_rule(rule_of: &[usize], pattern: usize) -> usize {
    let before = rule_of.get(..=pattern).unwrap_or_default();
    before.iter().rev().take_while(|rule| Some(*rule) == before.last()).count()
}

impl From<RuleEntry> for Rule {
    fn from(entry: RuleEntry) -> Rule {
        Rule {
            name: entry.name,
            family: entry.family,
            severity: entry.severity,
            confidence: entry.confidence,
            mentioned: entry.mentioned.unwrap_or(entry.confidence),
            explanation: entry.explanation,
        }
    }
}
