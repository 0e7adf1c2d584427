//! Screening as advice: the result of the built-in detector, recorded with the entry that it screened.
//!
//! No decision reads advice. An incident search uses it later (docs/design.md §6.2: evidence before score).

use std::fmt;
use std::str::FromStr;

use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use custody_kernel::label::Channel;
use custody_runtime::advice::Advisor;

/// The first word of screening advice, which distinguishes it from other advice.
const WORD: &str = "screened";

/// The screening of one entry.
///
/// Its text form is `screened by default: score 0.9731, flagged, by rules: override.ignore_prior`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreeningAdvice {
    /// The detector's configuration: `default` or `full`.
    pub detector: String,
    /// In `[0, 1]`, with four decimals.
    pub score: f64,
    /// Whether the score reached the detector's threshold.
    pub is_flagged: bool,
    /// The stage that decided.
    pub stage: String,
    /// The rules that matched, without duplicates.
    pub rules: Vec<String>,
}

/// Advises on observations with the compiled-in detector.
#[derive(Debug, Clone, Copy, Default)]
pub struct DetectorAdvice;

impl Advisor for DetectorAdvice {
    /// Texts of the system and of the model are not screened.
    fn advise(&self, text: &str, channel: Channel) -> Option<String> {
        let is_screened = !matches!(channel, Channel::System | Channel::Model);
        is_screened.then(|| ScreeningAdvice::of(text, channel))
    }
}

impl ScreeningAdvice {
    /// The advice of the compiled-in detector on a text that entered on `channel`: a screening, or `not screened` with
    /// the reason.
    pub fn of(text: &str, channel: Channel) -> String {
        match Screener::built_in().screen(text, kind(channel)) {
            Ok(verdict) => {
                let mut rules: Vec<String> =
                    verdict.findings.into_iter().map(|finding| finding.rule).collect();
                rules.sort();
                rules.dedup();
                let screening = Self {
                    detector: "default".to_owned(),
                    score: (verdict.score * 10_000.0).round() / 10_000.0,
                    is_flagged: verdict.is_flagged,
                    stage: verdict.stage.name().to_owned(),
                    rules,
                };
                screening.to_string()
            }
            Err(error) => format!("not screened: {error}"),
        }
    }
}

/// The kind of text that a channel carries.
fn kind(channel: Channel) -> TextKind {
    match channel {
        Channel::System | Channel::User => TextKind::Prompt,
        Channel::Web
        | Channel::Tool
        | Channel::Skill
        | Channel::Retrieval
        | Channel::Memory
        | Channel::Model
        | Channel::File
        | Channel::PeerAgent => TextKind::Content,
    }
}

impl fmt::Display for ScreeningAdvice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flagged = if self.is_flagged { "flagged" } else { "not flagged" };
        write!(
            formatter,
            "{WORD} by {}: score {:.4}, {flagged}, by {}",
            self.detector, self.score, self.stage
        )?;
        if !self.rules.is_empty() {
            write!(formatter, ": {}", self.rules.join(", "))?;
        }
        Ok(())
    }
}

/// A text that is not screening advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not screening advice")]
pub struct ParseScreeningError;

impl FromStr for ScreeningAdvice {
    type Err = ParseScreeningError;

    fn from_str(advice: &str) -> Result<Self, ParseScreeningError> {
        parse(advice).ok_or(ParseScreeningError)
    }
}

fn parse(advice: &str) -> Option<ScreeningAdvice> {
    let rest = advice.strip_prefix(WORD)?.strip_prefix(" by ")?;
    let (detector, rest) = rest.split_once(": score ")?;
    let (score, rest) = rest.split_once(", ")?;
    let (flagged, rest) = rest.split_once(", by ")?;
    let (stage, rules) = rest.split_once(": ").unwrap_or((rest, ""));
    Some(ScreeningAdvice {
        detector: detector.to_owned(),
        score: score.parse().ok().filter(|score| (0.0..=1.0).contains(score))?,
        is_flagged: match flagged {
            "flagged" => true,
            "not flagged" => false,
            _ => return None,
        },
        stage: stage.to_owned(),
        rules: rules.split(", ").filter(|rule| !rule.is_empty()).map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_of_a_screening_parses_back() {
        for (flagged, rules) in
            [(true, vec!["a.b".to_owned(), "c".to_owned()]), (false, Vec::new())]
        {
            let screening = ScreeningAdvice {
                detector: "default".to_owned(),
                score: 0.9731,
                is_flagged: flagged,
                stage: "rules".to_owned(),
                rules,
            };
            assert_eq!(screening.to_string().parse(), Ok(screening));
        }
        for other in
            ["", "override phrase: `x`", "screened by x: score 2, flagged, by y", "screened by"]
        {
            assert_eq!(other.parse::<ScreeningAdvice>(), Err(ParseScreeningError), "{other}");
        }
    }
}
