//! Problems of a policy, a manifest file or a file of cases, one line each, with their place.

use std::fmt;

/// A problem of a policy, a manifest file or a file of cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The place where it begins, if known.
    pub at: Option<Position>,
    /// The part of the text, such as ``policy `money` ``.
    pub about: Option<String>,
    /// The condition and the remedy.
    pub what: String,
}

/// A place in a text, counted from 1 as editors do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character within the line, from 1.
    pub column: usize,
}

impl Position {
    /// The position of the byte `offset` of `text`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }
}

impl PolicyProblem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { at: None, about: None, what: what.into() }
    }

    pub(crate) fn at(self, text: &str, offset: usize) -> Self {
        Self { at: Some(Position::of(text, offset)), ..self }
    }

    pub(crate) fn about(self, about: impl Into<String>) -> Self {
        Self { about: Some(about.into()), ..self }
    }

    /// An error of the TOML parser, in one line.
    pub(crate) fn toml(text: &str, error: &toml::de::Error) -> Self {
        let problem = Self::new(one_line(error.message()));
        match error.span() {
            Some(span) => problem.at(text, span.start),
            None => problem,
        }
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.at {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(about) = &self.about {
            write!(f, "{about}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// One line per problem.
pub(crate) fn listed(problems: &[PolicyProblem]) -> String {
    problems.iter().map(PolicyProblem::to_string).collect::<Vec<_>>().join("\n")
}

/// `text` without line breaks, and with characters that move a cursor, hide or reorder text escaped.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if misleads(c) {
                line.extend(c.escape_unicode());
            } else {
                line.push(c);
            }
        }
    }
    line
}

/// Whether `c` is invisible, or changes how the text around it is shown.
pub(crate) fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_characters_from_one() {
        let text = "ä b\nc d";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, 3), Position { line: 1, column: 3 });
        assert_eq!(Position::of(text, 7), Position { line: 2, column: 3 });
        assert_eq!(Position::of(text, 999), Position { line: 2, column: 4 });
    }

    #[test]
    fn a_problem_is_one_line() {
        assert_eq!(one_line("a\n  b\u{1b}[2J\tc\u{202E}"), "a b\\u{1b}[2J c\\u{202e}");
    }
}
