//! What is wrong with a text, and where: one line each.

use std::fmt;

/// Something wrong with a policy, a manifest file or a file of cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it begins, if that is known.
    pub at: Option<Position>,
    /// What it is about, such as ``policy `money` ``.
    pub about: Option<String>,
    /// What is wrong, and what to do.
    pub what: String,
}

/// A place in a text, from one, as editors count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
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

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { at: None, about: None, what: what.into() }
    }

    pub(crate) fn at(self, text: &str, offset: usize) -> Self {
        Self { at: Some(Position::of(text, offset)), ..self }
    }

    pub(crate) fn about(self, about: impl Into<String>) -> Self {
        Self { about: Some(about.into()), ..self }
    }

    /// What a TOML reader found, in one line.
    pub(crate) fn toml(text: &str, error: &toml::de::Error) -> Self {
        let problem = Self::new(one_line(error.message()));
        match error.span() {
            Some(span) => problem.at(text, span.start),
            None => problem,
        }
    }
}

impl fmt::Display for Problem {
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
pub(crate) fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// `text` without line breaks, and with whatever moves a cursor, hides or reorders text written out.
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

/// Whether a reader would not see `c`, or see something else because of it.
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
