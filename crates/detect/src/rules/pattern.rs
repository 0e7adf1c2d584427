//! The pattern syntax and its translation to regular expressions.
//!
//! A pattern is a regular expression over normalised text with four extensions:
//!
//! - a blank matches any word separator: blanks, line ends, light punctuation;
//! - ` ~3 ` matches up to three further words;
//! - `{name}` matches one word of that list in the file's `[words]`;
//! - letters are folded like the text, so `überschreib` and `contraseña` need no special form.
//!
//! A match begins at a word boundary and, if the pattern's last character is a letter, a digit or
//! one of `)}?*+`, also ends at one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::normalise::fold_literal;

/// The maximum number of characters of one pattern.
pub(super) const MAX_PATTERN_CHARS: usize = 2_000;
/// The size limit of a translated pattern.
const MAX_EXPANDED: usize = 40_000;
/// The maximum number of words in a gap.
const MAX_GAP: u32 = 12;

/// Matches a word separator.
const SEPARATOR: &str = r#"(?:[ \n,;:'"*_()\[\]<>+=/|#~-]{1,4})"#;
/// Matches a letter or digit; every non-ASCII character counts as one.
const WORD: &str = r"[0-9a-z\x{80}-\x{10ffff}]";

/// Why a pattern is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// The pattern is empty or too long.
    #[error(
        "it must have 1 to {MAX_PATTERN_CHARS} characters, and at most {MAX_EXPANDED} bytes with its word lists"
    )]
    Length,
    /// `{name}` is not a word list of the file.
    #[error("`{{{0}}}` is not in the file's `[words]`")]
    UnknownWords(String),
    /// A gap is not ` ~1 ` to ` ~12 `.
    #[error("a gap must be ` ~1 ` to ` ~{MAX_GAP} `, with a blank on either side")]
    Gap,
    /// The engine rejects the regular expression.
    #[error("not a regular expression that runs in linear time: {0}")]
    Expression(String),
    /// The pattern has no literal first word.
    #[error("it can begin with any word; begin it with words of two letters or more")]
    Beginning,
}

/// A translated pattern.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    /// In the syntax of `regex-syntax`.
    pub(super) regex: String,
    /// The same with a single blank for each separator; the first words are extracted from it.
    pub(super) skeleton: String,
    /// Whether a match must not be followed by a letter or digit.
    pub(super) is_whole_word: bool,
}

/// Translates one pattern.
pub(super) fn translate(
    pattern: &str,
    words: &BTreeMap<String, String>,
) -> Result<Expression, PatternProblem> {
    if pattern.is_empty() || pattern.chars().count() > MAX_PATTERN_CHARS {
        return Err(PatternProblem::Length);
    }
    let mut expanded = String::new();
    let mut rest = pattern;
    while let Some((name, position)) = next_name(rest) {
        let listed =
            words.get(name).ok_or_else(|| PatternProblem::UnknownWords(name.to_owned()))?;
        // Writing to a string cannot fail.
        let _ = write!(expanded, "{}(?:{listed})", &rest[..position]);
        rest = &rest[position + name.len() + 2..];
    }
    expanded.push_str(rest);
    let regex = to_regex(&expanded, SEPARATOR)?;
    let skeleton = to_regex(&expanded, " ")?;
    let is_whole_word = pattern
        .chars()
        .next_back()
        .is_some_and(|last| last.is_alphanumeric() || matches!(last, ')' | '}' | '?' | '*' | '+'));
    Ok(Expression { regex, skeleton, is_whole_word })
}

/// The next `{name}`. A repetition such as `{2,3}` begins with a digit.
fn next_name(pattern: &str) -> Option<(&str, usize)> {
    pattern.match_indices('{').find_map(|(position, _)| {
        let name = pattern[position + 1..].split_once('}')?.0;
        let escaped = pattern[..position].ends_with('\\') || pattern[..position].ends_with("\\x");
        (name.starts_with(|first: char| first.is_ascii_lowercase()) && !escaped)
            .then_some((name, position))
    })
}

fn to_regex(pattern: &str, separator: &str) -> Result<String, PatternProblem> {
    let mut regex = String::with_capacity(4 * pattern.len());
    let mut in_class = false;
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => match rest.next() {
                Some('w') if !in_class => regex.push_str(WORD),
                Some('s') if !in_class => regex.push_str(r"[ \n]"),
                Some('d') if !in_class => regex.push_str("[0-9]"),
                Some('b') if !in_class => regex.push_str(r"(?-u:\b)"),
                Some(other) => regex.extend(['\\', other]),
                None => regex.push('\\'),
            },
            '[' => {
                in_class = true;
                regex.push('[');
            }
            ']' => {
                in_class = false;
                regex.push(']');
            }
            ' ' if !in_class => {
                regex.push_str(separator);
                if let Some(after) = rest.as_str().strip_prefix('~') {
                    let (count, after) = after.split_once(' ').ok_or(PatternProblem::Gap)?;
                    let count =
                        count.parse::<u32>().ok().filter(|count| (1..=MAX_GAP).contains(count));
                    let count = count.ok_or(PatternProblem::Gap)?;
                    let _ = write!(regex, "(?:{WORD}+{separator}){{0,{count}}}");
                    rest = after.chars();
                }
            }
            letter if letter.is_alphabetic() => {
                regex.push_str(&fold_literal(letter.encode_utf8(&mut [0; 4])));
            }
            other => regex.push(other),
        }
        if regex.len() > MAX_EXPANDED {
            return Err(PatternProblem::Length);
        }
    }
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{PatternProblem, SEPARATOR, WORD, translate};

    fn regex(pattern: &str) -> Result<String, PatternProblem> {
        let words = BTreeMap::from([("prior".to_owned(), "above|previous".to_owned())]);
        translate(pattern, &words).map(|expression| expression.regex)
    }

    #[test]
    fn patterns_are_translated_to_regular_expressions() {
        let cases = [
            ("ignore {prior}", format!("ignore{SEPARATOR}(?:above|previous)")),
            ("a ~2 b", format!("a{SEPARATOR}(?:{WORD}+{SEPARATOR}){{0,2}}b")),
            ("Übertrag|ß", "ubertrag|ss".to_owned()),
            (r"\w{2,3}[a b]\.", format!(r"{WORD}{{2,3}}[a b]\.")),
            (r"\{prior}", r"\{prior}".to_owned()),
        ];
        for (pattern, expected) in cases {
            assert_eq!(regex(pattern).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn invalid_patterns_are_errors() {
        let cases = [
            ("", PatternProblem::Length),
            ("ignore {later}", PatternProblem::UnknownWords("later".to_owned())),
            ("ignore ~99 all", PatternProblem::Gap),
            ("ignore ~x all", PatternProblem::Gap),
        ];
        for (pattern, problem) in cases {
            assert_eq!(regex(pattern), Err(problem), "{pattern}");
        }
    }
}
