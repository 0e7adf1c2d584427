//! What a detector reports, and where.

use std::fmt::Write as _;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The harm if the finding is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For information.
    Low,
    /// Should be reviewed.
    Medium,
    /// An attempt to steer the model.
    High,
    /// An attempt to exfiltrate secrets or data, or evidence that it succeeded.
    Critical,
}

impl Severity {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// The view of a text in which a rule matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextView {
    /// The visible text.
    Plain,
    /// Invisible characters, such as Unicode tags.
    Hidden,
    /// Percent encoding, HTML entities and backslash escapes decoded.
    Unescaped,
    /// A decoded base64 part.
    Base64,
    /// A decoded run of hexadecimal digits.
    Hex,
    /// Digits and signs replaced by the letters they imitate.
    Leet,
    /// Letters written with separators, joined.
    Spaced,
    /// The text reversed.
    Reversed,
}

/// A finding of a detector: advice, never a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectorFinding {
    /// The name of the rule or detector, such as `override.ignore_prior`.
    pub rule: String,
    /// The family of attacks. A score counts each family once.
    pub family: String,
    /// The severity.
    pub severity: Severity,
    /// The probability that the finding alone shows an attack, in `[0, 1]`.
    pub confidence: f64,
    /// The bytes of the original text, on character boundaries.
    pub span: Range<usize>,
    /// The view in which the rule matched.
    pub view: TextView,
    /// One sentence for people.
    pub explanation: String,
}

/// The length of [`DetectorFinding::excerpt`], in characters.
const EXCERPT_CHARS: usize = 80;

impl DetectorFinding {
    /// The first 80 characters of the matched text on one line; control and invisible characters are escaped. Empty if
    /// `original` is not the text that was searched.
    #[must_use]
    pub fn excerpt(&self, original: &str) -> String {
        let found = original.get(self.span.clone()).unwrap_or_default();
        let mut excerpt = String::new();
        for character in found.chars().take(EXCERPT_CHARS) {
            if is_unprintable(character) {
                // Writing to a string cannot fail.
                let _ = write!(excerpt, "{}", character.escape_default());
            } else {
                excerpt.push(character);
            }
        }
        if found.chars().nth(EXCERPT_CHARS).is_some() {
            excerpt.push('…');
        }
        excerpt
    }
}

/// Control characters, and invisible characters that hide or reorder text.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::{DetectorFinding, Severity, TextView};

    fn finding(span: std::ops::Range<usize>) -> DetectorFinding {
        DetectorFinding {
            rule: "rule".to_owned(),
            family: "family".to_owned(),
            severity: Severity::Low,
            confidence: 0.5,
            span,
            view: TextView::Plain,
            explanation: String::new(),
        }
    }

    #[test]
    fn an_excerpt_is_short_and_has_no_control_characters() {
        let long = "x".repeat(81);
        let cut = format!("{}…", "x".repeat(80));
        let cases = [
            ("plain ü", "plain ü"),
            ("two\nlines\0", "two\\nlines\\u{0}"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{202e}\u{e0041}", "\\u{202e}\\u{e0041}"),
            (long.as_str(), cut.as_str()),
        ];
        for (text, expected) in cases {
            assert_eq!(finding(0..text.len()).excerpt(text), expected);
        }
    }

    #[test]
    fn an_excerpt_of_another_text_is_empty() {
        assert_eq!(finding(1..2).excerpt("ü"), "");
        assert_eq!(finding(5..9).excerpt("short"), "");
    }

    #[test]
    fn severities_are_ordered_and_written_in_lower_case() {
        assert!(Severity::Low < Severity::Medium && Severity::High < Severity::Critical);
        assert_eq!(serde_json::to_string(&Severity::Critical).unwrap(), "\"critical\"");
        assert_eq!(serde_json::to_string(&TextView::Base64).unwrap(), "\"base64\"");
    }
}
