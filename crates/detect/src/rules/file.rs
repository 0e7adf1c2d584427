//! The file that rules are written in.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::pattern::{Expression, PatternProblem, translate};
use crate::finding::Severity;

/// The longest rule file.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// The most patterns in one file.
pub const MAX_PATTERNS: usize = 2_000;

/// Why a rule file is refused.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It is too long.
    #[error("the rules take {len} bytes and may take {MAX_FILE_BYTES}; split them")]
    TooLong {
        /// Bytes of the file.
        len: usize,
    },
    /// It has too many patterns to look for at once.
    #[error("there are {count} patterns and may be {MAX_PATTERNS}; join some with `|`")]
    TooManyPatterns {
        /// Patterns in the file.
        count: usize,
    },
    /// It is not TOML, or not of this form.
    #[error("the rules are not in the form of a rule file")]
    Syntax(#[source] Box<toml::de::Error>),
    /// A rule says something that cannot be.
    #[error("rule `{rule}`: {problem}")]
    Rule {
        /// Its name, or its number if it has none.
        rule: String,
        /// What is wrong, and what to write.
        problem: &'static str,
    },
    /// A pattern of a rule cannot be used.
    #[error("rule `{rule}`, pattern {number}: {problem}")]
    Pattern {
        /// Its name.
        rule: String,
        /// Which pattern of the rule, from 1.
        number: usize,
        /// What is wrong with it.
        problem: PatternProblem,
    },
}

/// A rule file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// Lists of words that patterns name, each `a|b|c`.
    #[serde(default)]
    pub(super) words: BTreeMap<String, String>,
    #[serde(rename = "rule")]
    pub(super) rules: Vec<RuleEntry>,
}

/// One rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    pub(super) name: String,
    pub(super) family: String,
    pub(super) severity: Severity,
    /// How sure the rule is alone. From 0.5 on it decides; 0 makes it a remark.
    pub(super) confidence: f64,
    /// As `confidence`, where the words are spoken of rather than used as a command.
    pub(super) mentioned: Option<f64>,
    /// ISO 639-1 codes, or `any`. For the reader: every rule is tried on every text.
    pub(super) language: String,
    pub(super) explanation: String,
    pub(super) patterns: Vec<String>,
    /// Texts that the rule must find. Each pattern must find one of them.
    pub(super) matches: Vec<String>,
    /// Texts that the rule must not find.
    #[serde(default)]
    pub(super) clean: Vec<String>,
}

/// Reads a file and translates its patterns, in order; each with the number of its rule.
pub(super) fn parse(text: &str) -> Result<(RuleFile, Vec<(usize, Expression)>), RulesError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(RulesError::TooLong { len: text.len() });
    }
    let file: RuleFile =
        toml::from_str(text).map_err(|error| RulesError::Syntax(Box::new(error)))?;
    let count = file.rules.iter().map(|rule| rule.patterns.len()).sum();
    if count > MAX_PATTERNS {
        return Err(RulesError::TooManyPatterns { count });
    }
    let mut names = BTreeSet::new();
    let mut expressions = Vec::with_capacity(count);
    for (number, rule) in file.rules.iter().enumerate() {
        let problem =
            if names.insert(&rule.name) { problem_of(rule) } else { Some("the name stands twice") };
        if let Some(problem) = problem {
            let name =
                if rule.name.is_empty() { format!("{}", number + 1) } else { rule.name.clone() };
            return Err(RulesError::Rule { rule: name, problem });
        }
        for (place, pattern) in rule.patterns.iter().enumerate() {
            let expression = translate(pattern, &file.words).map_err(|problem| {
                RulesError::Pattern { rule: rule.name.clone(), number: place + 1, problem }
            })?;
            expressions.push((number, expression));
        }
    }
    Ok((file, expressions))
}

fn problem_of(rule: &RuleEntry) -> Option<&'static str> {
    let plain = |name: &str| {
        !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.'))
    };
    if !plain(&rule.name) || !plain(&rule.family) {
        return Some("name and family are 1 to 64 of `a-z`, `0-9`, `_` and `.`");
    }
    let confidences = [rule.confidence, rule.mentioned.unwrap_or(rule.confidence)];
    if !confidences.iter().all(|confidence| (0.0..=1.0).contains(confidence)) {
        return Some("a confidence is a number from 0 to 1");
    }
    if rule.patterns.is_empty() {
        return Some("it has no pattern and could never fire");
    }
    if rule.matches.is_empty() {
        return Some("give at least one text that it must find, under `matches`");
    }
    if rule.explanation.is_empty() || rule.language.is_empty() {
        return Some("say in which language it is and what it looks for");
    }
    None
}
