//! D1: rules, all of them over every reading of a text, in linear time.
//!
//! In reading order:
//!
//! - this file: the rules and what can be asked of them.
//! - `file`: the file they are written in; `rules/rules.toml` is the one compiled in.
//! - `pattern`: how a pattern is written.
//! - `engine`: all patterns over one text; `beginnings`: where one of them may begin.
//! - `mention`: whether a phrase is a command or is spoken of.
//! - `scan`: all readings of one text, and the score.
//! - `strip`: taking out what is certain.

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
pub use scan::{MAX_FINDINGS_PER_RULE, Scan};
pub use strip::{Stripped, strip_to_fixed_point};

use crate::built_in;
use crate::finding::Severity;
use crate::normalise::{TextTooLong, Vocabulary, fold_literal};
use engine::Engine;
use file::RuleEntry;

/// From this score on, a text is flagged.
///
/// Source: memory integrity paper §5.2, D1.
pub const THRESHOLD: f64 = 0.5;

/// A set of rules, ready to run. Sharing one between threads is fine.
pub struct Rules {
    rules: Vec<Rule>,
    /// For each pattern, the number of its rule.
    rule_of: Vec<usize>,
    engine: Engine,
    vocabulary: Vocabulary,
}

/// What a finding repeats of its rule.
struct Rule {
    name: String,
    family: String,
    severity: Severity,
    confidence: f64,
    mentioned: f64,
    explanation: String,
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCount {
    /// Families of attacks; a score counts each once.
    pub families: usize,
    /// Rules, each with a name.
    pub rules: usize,
    /// Patterns, each of which can fire.
    pub patterns: usize,
}

static BUILT_IN: LazyLock<Rules> =
    LazyLock::new(|| Rules::prepare(built_in::RULES).expect("a test reads the committed rules"));

impl Rules {
    /// The rules that are compiled in, prepared on first use.
    #[must_use]
    pub fn builtin() -> &'static Rules {
        &BUILT_IN
    }

    /// Reads rules in the form of `crates/detect/rules/rules.toml` and checks that every pattern
    /// can run. Examples are not tried: [`Rules::failing_examples`] does that.
    ///
    /// # Errors
    /// [`RulesError`], naming the rule.
    pub fn parse(toml: &str) -> Result<Rules, RulesError> {
        let rules = Rules::prepare(toml)?;
        rules.engine.check().map_err(|(pattern, problem)| RulesError::Pattern {
            rule: rules.name_of(pattern),
            number: rules.place_of(pattern),
            problem,
        })?;
        Ok(rules)
    }

    /// As `parse`, but leaves the automata to their first use.
    pub(crate) fn prepare(toml: &str) -> Result<Rules, RulesError> {
        let (file, expressions) = file::parse(toml)?;
        let mut vocabulary = Vocabulary::default();
        for example in file.rules.iter().flat_map(|rule| &rule.matches) {
            vocabulary.learn(&fold_literal(example));
        }
        let (rule_of, expressions): (Vec<usize>, Vec<_>) = expressions.into_iter().unzip();
        let engine = Engine::new(expressions).map_err(|(pattern, problem)| {
            let rule = rule_of.get(pattern).copied().unwrap_or(0);
            RulesError::Pattern {
                rule: file.rules.get(rule).map(|rule| rule.name.clone()).unwrap_or_default(),
                number: place(&rule_of, pattern),
                problem,
            }
        })?;
        let rules = file.rules.into_iter().map(Rule::from).collect();
        Ok(Rules { rules, rule_of, engine, vocabulary })
    }

    fn name_of(&self, pattern: usize) -> String {
        let rule = self.rule_of.get(pattern).and_then(|rule| self.rules.get(*rule));
        rule.map(|rule| rule.name.clone()).unwrap_or_default()
    }

    fn place_of(&self, pattern: usize) -> usize {
        place(&self.rule_of, pattern)
    }

    /// Everything suspicious in `text`, in every reading of it.
    ///
    /// # Errors
    /// [`TextTooLong`]; nothing was read then.
    pub fn scan(&self, text: &str) -> Result<Scan, TextTooLong> {
        scan::scan(self, text, 0)
    }

    /// What is suspicious in `text` and reaches beyond the byte `from`.
    pub(crate) fn scan_beyond(&self, text: &str, from: usize) -> Result<Scan, TextTooLong> {
        scan::scan(self, text, from)
    }

    /// How many families, rules and patterns there are.
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

    /// Reads a rule file and tries its own examples: what a rule must find and does not, or finds
    /// and must not, and patterns that find none of their rule's examples. One line each.
    ///
    /// # Errors
    /// [`RulesError`] when the file cannot be read at all.
    pub fn failing_examples(toml: &str) -> Result<Vec<String>, RulesError> {
        let rules = Rules::parse(toml)?;
        let (file, expressions) = file::parse(toml)?;
        let mut failing = Vec::new();
        for rule in &file.rules {
            let finds = |text: &String| {
                let scan = rules.scan(text);
                scan.is_ok_and(|scan| scan.findings.iter().any(|found| found.rule == rule.name))
            };
            let missed = rule.matches.iter().filter(|text| !finds(text));
            failing.extend(missed.map(|text| format!("`{}` misses: {text}", rule.name)));
            let wrong = rule.clean.iter().filter(|text| finds(text));
            failing.extend(wrong.map(|text| format!("`{}` finds: {text}", rule.name)));
        }
        for (number, (rule, expression)) in expressions.into_iter().enumerate() {
            let Some(entry) = file.rules.get(rule) else { continue };
            if !fires_alone(expression, &entry.matches) {
                let place = place(&rules.rule_of, number);
                failing.push(format!("`{}` pattern {place} finds no example", entry.name));
            }
        }
        Ok(failing)
    }
}

/// Whether a pattern finds one of `texts` as they stand.
fn fires_alone(expression: pattern::Expression, texts: &[String]) -> bool {
    let Ok(engine) = Engine::new(vec![expression]) else { return false };
    let mut fired = false;
    for text in texts.iter().filter_map(|text| crate::normalise(text).ok()) {
        engine.find(text.text(), |_| true, |_, _| fired = true);
    }
    fired
}

/// Which pattern of its rule a pattern is, from 1.
fn place(rule_of: &[usize], pattern: usize) -> usize {
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
