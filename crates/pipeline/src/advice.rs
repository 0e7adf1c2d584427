//! Screening as advice: what the built-in detector says of a text, as it stands beside the entry in the record.
//!
//! Screening is advice: it is written with the entry and no decision reads it. An incident later looks for
//! it (docs/design.md §6.2: evidence before score).

use std::fmt;
use std::str::FromStr;

use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use custody_kernel::label::Channel;
use custody_runtime::advice::Advisor;

/// The word every piece of evidence begins with, among other advice.
const WORD: &str = "screened";

/// The screening of one entry.
///
/// Written as `screened by default: score 0.9731, flagged, by rules: override.ignore_prior`, and read back
/// from that.
#[derive(Debug, Clone, PartialEq)]
pub struct Screening {
    /// Which configuration: `default` or `full`.
    pub detector: String,
    /// In `[0, 1]`, with four decimals.
    pub score: f64,
    /// Whether the score reached the detector's threshold.
    pub flagged: bool,
    /// Which stage had the last word.
    pub stage: String,
    /// The rules that matched, each once.
    pub rules: Vec<String>,
}

/// Screens what enters with the detector that is compiled in.
#[derive(Debug, Clone, Copy, Default)]
pub struct DetectorAdvice;

impl Advisor for DetectorAdvice {
    /// Our own words and the model's are not screened.
    fn advise(&self, text: &str, channel: Channel) -> Option<String> {
        let is_screened = !matches!(channel, Channel::System | Channel::Model);
        is_screened.then(|| Screening::of(text, channel))
    }
}

impl Screening {
    /// What the compiled-in detector says of a text that entered on `channel`; none when the text is too
    /// long to be screened, which is said as advice too.
    pub fn of(text: &str, channel: Channel) -> String {
        match Screener::built_in().screen(text, kind(channel)) {
            Ok(verdict) => {
                let mut rules: Vec<String> =
                    verdict.findings.into_iter().map(|finding| finding.rule).collect();
                rules.sort();
                rules.dedup();
                let evidence = Self {
                    detector: "default".to_owned(),
                    score: (verdict.score * 10_000.0).round() / 10_000.0,
                    flagged: verdict.flagged,
                    stage: verdict.stage.name().to_owned(),
                    rules,
                };
                evidence.to_string()
            }
            Err(why) => format!("not screened: {why}"),
        }
    }
}

/// What a text of the channel is to the model that reads it.
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

impl fmt::Display for Screening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flagged = if self.flagged { "flagged" } else { "not flagged" };
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

/// Advice that is no evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the screening of an entry")]
pub struct NotScreening;

impl FromStr for Screening {
    type Err = NotScreening;

    fn from_str(advice: &str) -> Result<Self, NotScreening> {
        let parse = || {
            let rest = advice.strip_prefix(WORD)?.strip_prefix(" by ")?;
            let (detector, rest) = rest.split_once(": score ")?;
            let (score, rest) = rest.split_once(", ")?;
            let (flagged, rest) = rest.split_once(", by ")?;
            let (stage, rules) = rest.split_once(": ").unwrap_or((rest, ""));
            Some(Self {
                detector: detector.to_owned(),
                score: score.parse().ok().filter(|score| (0.0..=1.0).contains(score))?,
                flagged: match flagged {
                    "flagged" => true,
                    "not flagged" => false,
                    _ => return None,
                },
                stage: stage.to_owned(),
                rules: rules
                    .split(", ")
                    .filter(|rule| !rule.is_empty())
                    .map(str::to_owned)
                    .collect(),
            })
        };
        parse().ok_or(NotScreening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_read_back_as_it_was_written() {
        for (flagged, rules) in
            [(true, vec!["a.b".to_owned(), "c".to_owned()]), (false, Vec::new())]
        {
            let evidence = Screening {
                detector: "default".to_owned(),
                score: 0.9731,
                flagged,
                stage: "rules".to_owned(),
                rules,
            };
            assert_eq!(evidence.to_string().parse(), Ok(evidence));
        }
        for other in
            ["", "override phrase: `x`", "screened by x: score 2, flagged, by y", "screened by"]
        {
            assert_eq!(other.parse::<Screening>(), Err(NotScreening), "{other}");
        }
    }
}
