//! What a detector found, and where.

use std::fmt::Write as _;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How bad it would be if the finding is what it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth a line in a report.
    Low,
    /// Worth a look.
    Medium,
    /// An attempt to steer the model.
    High,
    /// An attempt to get secrets or data out, or proof that it worked.
    Critical,
}

impl Severity {
    /// The word in reports.
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

/// Which reading of the text the finding was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The text as a reader sees it.
    Plain,
    /// Characters that no reader sees, such as Unicode tags.
    Hidden,
    /// Percent signs, HTML entities and backslash escapes decoded.
    Unescaped,
    /// A base64 part decoded.
    Base64,
    /// A run of hexadecimal digits decoded.
    Hex,
    /// Digits and signs read as the letters they stand for.
    Leet,
    /// Letters written apart, read together.
    Spaced,
    /// Read from the end to the start.
    Reversed,
}

/// One finding: advice for whoever decides, never a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the rule or detector, such as `override.ignore_prior`.
    pub rule: String,
    /// The family of attacks it belongs to. A score counts each family once.
    pub family: String,
    /// How bad it would be.
    pub severity: Severity,
    /// How sure the rule is when it stands alone, in `[0, 1]`.
    pub confidence: f64,
    /// Bytes of the original text, on character boundaries.
    pub span: Range<usize>,
    /// The reading in which the rule matched.
    pub view: View,
    /// One sentence for a person.
    pub explanation: String,
}

/// Characters of a text that [`Finding::excerpt`] shows.
const EXCERPT_CHARS: usize = 80;

impl Finding {
    /// The first 80 characters of what was found, fit for a one-line message: whatever could
    /// steer a terminal or hide is written as an escape. Empty when `original` is another text.
    #[must_use]
    pub fn excerpt(&self, original: &str) -> String {
        let found = original.get(self.span.clone()).unwrap_or_default();
        let mut shown = String::new();
        for character in found.chars().take(EXCERPT_CHARS) {
            if steers_display(character) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "{}", character.escape_default());
            } else {
                shown.push(character);
            }
        }
        if found.chars().nth(EXCERPT_CHARS).is_some() {
            shown.push('…');
        }
        shown
    }
}

/// Control characters and the invisible ones that hide or reorder text.
fn steers_display(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::{Finding, Severity, View};

    fn finding(span: std::ops::Range<usize>) -> Finding {
        Finding {
            rule: "rule".to_owned(),
            family: "family".to_owned(),
            severity: Severity::Low,
            confidence: 0.5,
            span,
            view: View::Plain,
            explanation: String::new(),
        }
    }

    #[test]
    fn an_excerpt_is_short_and_cannot_steer_a_terminal() {
        let long = "x".repeat(81);
        let cut = format!("{}…", "x".repeat(80));
        let cases = [
            ("plain ü", "plain ü"),
            ("two\nlines\0", "two\\nlines\\u{0}"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{202e}\u{e0041}", "\\u{202e}\\u{e0041}"),
            (long.as_str(), cut.as_str()),
        ];
        for (text, shown) in cases {
            assert_eq!(finding(0..text.len()).excerpt(text), shown);
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
        assert_eq!(serde_json::to_string(&View::Base64).unwrap(), "\"base64\"");
    }
}
