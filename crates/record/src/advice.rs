//! Advice: what a detector or MON's content check noticed in a text, and what a route cost. It stands beside the entry
//! for whoever reads it later; no decision sees it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::route::Stage;
use crate::score::Score;

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// A detector looked at the text.
    Screening(Screening),
    /// A detector was to look at the text and could not. That is no clearance.
    NotScreened(NotScreened),
    /// MON's content check noticed a phrase.
    Anomaly(Anomaly),
    /// What a stage of a route cost.
    StageCost(StageCost),
    /// How much of a model's answer was decided before it went on.
    Exchange(ExchangeCoverage),
    /// What would have become of a call, on a connection that only observes.
    DryRun(DryRun),
    /// A sentence, as records of before hold it.
    #[serde(untagged)]
    Sentence(String),
}

/// The first version of each kind of advice, and so far the only one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Version1;

/// What a detector said of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Screening {
    /// How these fields are meant.
    pub v: Version1,
    /// The detector's configuration: `default` or `full`.
    pub detector: String,
    /// How suspicious the text is, on the detector's own scale.
    pub score: Score,
    /// Whether the score reached the detector's threshold.
    pub flagged: bool,
    /// The stage that decided.
    pub stage: String,
    /// The rules that matched, ascending, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// Why a text was not screened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotScreened {
    /// How these fields are meant.
    pub v: Version1,
    /// The reason, for the reader.
    pub why: String,
}

/// What a stage of a route cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageCost {
    /// How these fields are meant.
    pub v: Version1,
    /// The stage.
    pub stage: Stage,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// Tokens that a language model read.
    pub tokens_read: u64,
    /// Tokens that it wrote.
    pub tokens_written: u64,
}

/// How much of a model's answer a gateway decided before it went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeCoverage {
    /// How these fields are meant.
    pub v: Version1,
    /// How client and vendor speak, such as `anthropic-messages`.
    pub wire: String,
    /// Whether it came as a stream.
    pub streamed: bool,
    /// How much was decided.
    pub coverage: Coverage,
    /// What was not, ascending, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// What it took; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ExchangeUsage>,
}

/// What a model's answer took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeUsage {
    /// Bytes of the request, without its encoding.
    pub request_bytes: u64,
    /// Bytes of the answer, as the vendor sent it.
    pub answer_bytes: u64,
    /// What the vendor says of tokens.
    #[serde(default, skip_serializing_if = "ClaimedTokens::is_empty")]
    pub claimed: ClaimedTokens,
}

/// The tokens of an answer as its vendor counts and bills them. A claim: nobody here can count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedTokens {
    /// Tokens that the model read, those from a cache included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Of these, tokens that were read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// Tokens that it wrote, those of its thinking included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
}

impl ClaimedTokens {
    /// Whether the vendor says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Of two claims about one answer, the larger numbers. In a stream vendors count what there was so far.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            cached_input: self.cached_input.max(other.cached_input),
            output: self.output.max(other.output),
        }
    }
}

/// How much of an answer was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// Every tool call in it.
    Checked,
    /// What came before it was cut off, or all but what is named.
    Partly,
    /// Nothing: it went on as it came.
    NotChecked,
}

/// What would have become of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DryRun {
    /// How these fields are meant.
    pub v: Version1,
    /// The decision.
    pub would: WouldDecide,
    /// The reason, for the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A decision that was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WouldDecide {
    /// It would have run.
    Allow,
    /// A human would have been asked.
    Ask,
    /// It would not have run.
    Deny,
}

/// A phrase that a reviewer should look at twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anomaly {
    /// How these fields are meant.
    pub v: Version1,
    /// What it is.
    pub kind: AnomalyKind,
    /// The phrase that was looked for, in canonical text.
    pub phrase: String,
}

/// Kinds of phrases.
///
/// Source: docs/papers.md §2.7, "Anomaly".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnomalyKind {
    /// Asks that what was said before no longer count.
    OverridePhrase,
    /// Names a mode in which other rules would hold.
    ModeSwitch,
    /// Asks that data go somewhere.
    DataForwarding,
    /// Speaks of data that leaks.
    ExfiltrationWord,
    /// Opens a script in a page.
    ScriptOpener,
    /// Opens a comment that a page does not show.
    CommentOpener,
    /// Stands between the turns of a chat.
    ChatTemplateMarker,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Screening(screening) => screening.fmt(f),
            Self::NotScreened(NotScreened { why, .. }) => write!(f, "not screened: {why}"),
            Self::Anomaly(Anomaly { kind, phrase, .. }) => write!(f, "{kind}: `{phrase}`"),
            Self::StageCost(cost) => cost.fmt(f),
            Self::Exchange(exchange) => exchange.fmt(f),
            Self::DryRun(dry_run) => dry_run.fmt(f),
            Self::Sentence(sentence) => f.write_str(sentence),
        }
    }
}

/// As in `screened by default: score 0.9731, flagged, by rules: override.ignore_prior`.
impl fmt::Display for Screening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { detector, score, flagged, stage, rules, .. } = self;
        let flagged = if *flagged { "flagged" } else { "not flagged" };
        write!(f, "screened by {detector}: score {:.4}, {flagged}, by {stage}", score.value())?;
        if !rules.is_empty() {
            write!(f, ": {}", rules.join(", "))?;
        }
        Ok(())
    }
}

/// As in `partly checked (anthropic-messages, streamed): a tool that the vendor ran`.
impl fmt::Display for ExchangeCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wire, streamed, coverage, undecided, usage, .. } = self;
        let streamed = if *streamed { ", streamed" } else { "" };
        write!(f, "{coverage} ({wire}{streamed})")?;
        if !undecided.is_empty() {
            write!(f, ": {}", undecided.join(", "))?;
        }
        usage.as_ref().map_or(Ok(()), |usage| write!(f, "; {usage}"))
    }
}

/// As in `812 bytes asked, 4096 answered; by the vendor's count 210 tokens read, 38 written`.
impl fmt::Display for ExchangeUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_bytes, answer_bytes, claimed } = self;
        write!(f, "{request_bytes} bytes asked, {answer_bytes} answered")?;
        if claimed.is_empty() {
            return Ok(());
        }
        let [read, written] =
            [claimed.input, claimed.output].map(|n| n.map_or("?".to_owned(), |n| n.to_string()));
        write!(f, "; by the vendor's count {read} tokens read, {written} written")
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checked => "checked",
            Self::Partly => "partly checked",
            Self::NotChecked => "not checked",
        })
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { would, why, .. } = self;
        let would = match would {
            WouldDecide::Allow => "allowed",
            WouldDecide::Ask => "put to a human",
            WouldDecide::Deny => "denied",
        };
        write!(f, "only observed, would have been {would}")?;
        why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

impl fmt::Display for StageCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, micros, tokens_read, tokens_written, .. } = self;
        let stage = stage.name();
        write!(f, "{stage}: {micros} µs, {tokens_read} tokens read, {tokens_written} written")
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OverridePhrase => "override phrase",
            Self::ModeSwitch => "mode switch",
            Self::DataForwarding => "data forwarding",
            Self::ExfiltrationWord => "exfiltration word",
            Self::ScriptOpener => "script opener",
            Self::CommentOpener => "comment opener",
            Self::ChatTemplateMarker => "chat template marker",
        })
    }
}

/// A version of advice that this program does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("advice of version {0} is not known here")]
pub struct UnknownAdvice(u8);

impl TryFrom<u8> for Version1 {
    type Error = UnknownAdvice;

    fn try_from(version: u8) -> Result<Self, UnknownAdvice> {
        if version == 1 { Ok(Self) } else { Err(UnknownAdvice(version)) }
    }
}

impl From<Version1> for u8 {
    fn from(Version1: Version1) -> Self {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_data_of_a_known_version_and_reads_as_a_sentence() {
        let screening = Screening {
            v: Version1,
            detector: "default".to_owned(),
            score: Score::new(0.9731).unwrap(),
            flagged: true,
            stage: "rules".to_owned(),
            rules: vec!["override.ignore_prior".to_owned()],
        };
        let anomaly = Anomaly {
            v: Version1,
            kind: AnomalyKind::OverridePhrase,
            phrase: "ignore all".to_owned(),
        };
        let why = "it is longer than 1 MB".to_owned();
        let cases = [
            (
                Advice::Screening(screening),
                r#"{"screening":{"v":1,"detector":"default","score":0.9731,"flagged":true,"stage":"rules","rules":["override.ignore_prior"]}}"#,
                "screened by default: score 0.9731, flagged, by rules: override.ignore_prior",
            ),
            (
                Advice::NotScreened(NotScreened { v: Version1, why }),
                r#"{"not_screened":{"v":1,"why":"it is longer than 1 MB"}}"#,
                "not screened: it is longer than 1 MB",
            ),
            (
                Advice::Anomaly(anomaly),
                r#"{"anomaly":{"v":1,"kind":"override_phrase","phrase":"ignore all"}}"#,
                "override phrase: `ignore all`",
            ),
            (
                Advice::Exchange(ExchangeCoverage {
                    v: Version1,
                    wire: "openai-chat".to_owned(),
                    streamed: true,
                    coverage: Coverage::Partly,
                    undecided: vec!["it was cut off".to_owned()],
                    usage: None,
                }),
                r#"{"exchange":{"v":1,"wire":"openai-chat","streamed":true,"coverage":"partly","undecided":["it was cut off"]}}"#,
                "partly checked (openai-chat, streamed): it was cut off",
            ),
            (
                Advice::Exchange(ExchangeCoverage {
                    v: Version1,
                    wire: "gemini".to_owned(),
                    streamed: false,
                    coverage: Coverage::Checked,
                    undecided: Vec::new(),
                    usage: Some(ExchangeUsage {
                        request_bytes: 812,
                        answer_bytes: 4096,
                        claimed: ClaimedTokens { input: Some(210), ..Default::default() },
                    }),
                }),
                r#"{"exchange":{"v":1,"wire":"gemini","streamed":false,"coverage":"checked","usage":{"request_bytes":812,"answer_bytes":4096,"claimed":{"input":210}}}}"#,
                "checked (gemini); 812 bytes asked, 4096 answered; by the vendor's count 210 tokens read, ? written",
            ),
            (
                Advice::DryRun(DryRun { v: Version1, would: WouldDecide::Ask, why: None }),
                r#"{"dry_run":{"v":1,"would":"ask"}}"#,
                "only observed, would have been put to a human",
            ),
            (
                Advice::Sentence("mode switch: `admin mode`".to_owned()),
                r#""mode switch: `admin mode`""#,
                "mode switch: `admin mode`",
            ),
        ];
        for (advice, written, says) in cases {
            assert_eq!(serde_json::to_string(&advice).unwrap(), written);
            assert_eq!(serde_json::from_str::<Advice>(written).unwrap(), advice);
            assert_eq!(advice.to_string(), says);
        }
        for unknown in [
            r#"{"anomaly":{"v":2,"kind":"override_phrase","phrase":"ignore all"}}"#,
            r#"{"anomaly":{"v":1,"kind":"override_phrase","phrase":"x","more":1}}"#,
            r#"{"clearance":{"v":1}}"#,
            "7",
        ] {
            assert!(serde_json::from_str::<Advice>(unknown).is_err(), "{unknown}");
        }
    }
}
