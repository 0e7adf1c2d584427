//! The rule file format.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::pattern::{Expression, PatternProblem, translate};
use crate::finding::Severity;

/// The size limit of a rule file.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// The maximum number of patterns in one file.
pub const MAX_PATTERNS: usize = 2_000;

/// Why a rule file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file exceeds [`MAX_FILE_BYTES`].
    #[error("the rule file has {len} bytes; the limit is {MAX_FILE_BYTES}; split it")]
    TooLong {
        /// Bytes of the file.
        len: usize,
    },
    /// The file exceeds [`MAX_PATTERNS`].
    #[error("the rule file has {count} patterns; the limit is {MAX_PATTERNS}; join some with `|`")]
    TooManyPatterns {
        /// Patterns in the file.
        count: usize,
    },
    /// The file is not TOML, or has unknown or missing fields.
    #[error("the rule file is not valid")]
    Syntax(#[source] Box<toml::de::Error>),
    /// A field of a rule is invalid.
    #[error("rule `{rule}`: {problem}")]
    Rule {
        /// The rule's name, or its number if the name is empty.
        rule: String,
        /// The problem and how to fix it.
        problem: &'static str,
    },
    /// A pattern of a rule is invalid.
    #[error("rule `{rule}`, pattern {number}: {problem}")]
    Pattern {
        /// The rule's name.
        rule: String,
        /// The number of the pattern within the rule, from 1.
        number: usize,
        /// The problem.
        problem: PatternProblem,
    },
}

/// The contents of a rule file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// Word lists that patterns refer to by name, each `a|b|c`.
    #[serde(default)]
    pub(super) words: BTreeMap<String, String>,
    #[serde(rename = "rule")]
    pub(super) rules: Vec<RuleEntry>,
}

/// One rule of a rule file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    pub(super) name: String,
    pub(super) family: String,
    pub(super) severity: Severity,
    /// The confidence of the rule alone. From 0.5 it flags a text; 0 only adds a finding.
    pub(super) confidence: f64,
    /// The confidence if the phrase is only mentioned, not used as a command.
    pub(super) mentioned: Option<f64>,
    /// ISO 639-1 codes, or `any`. Documentation only: every rule runs on every text.
    pub(super) language: String,
    pub(super) explanation: String,
    pub(super) patterns: Vec<String>,
    /// Texts that the rule must match. Each pattern must match at least one of them.
    pub(super) matches: Vec<String>,
    /// Texts that the rule must not match.
    #[serde(default)]
    pub(super) clean: Vec<String>,
}

/// Parses a file and translates its patterns in order, each with the index of its rule.
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
        let problem = if names.insert(&rule.name) {
            problem_of(rule)
        } else {
            Some("the name is not unique")
        };
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
    if !is_valid_name(&rule.name) || !is_valid_name(&rule.family) {
        return Some("name and family must be 1 to 64 characters of `a-z`, `0-9`, `_` and `.`");
    }
    let confidences = [rule.confidence, rule.mentioned.unwrap_or(rule.confidence)];
    if !confidences.iter().all(|confidence| (0.0..=1.0).contains(confidence)) {
        return Some("a confidence must be a number from 0 to 1");
    }
    if rule.patterns.is_empty() {
        return Some("it has no pattern, so it can never match");
    }
    if rule.matches.is_empty() {
        return Some("`matches` must have at least one example text");
    }
    if rule.explanation.is_empty() || rule.language.is_empty() {
        return Some("`language` and `explanation` must not be empty");
    }
    None
}

fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.'))
}
