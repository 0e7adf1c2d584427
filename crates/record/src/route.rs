//! Routes as they are recorded: what an operator chose, and what each stage answered.
//!
//! What the answers lead to is decided by the monitor, and decided again from the record without any model.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an operator may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoutePolicy {
    /// A text that the prefilter is sure of goes to repair without being tried. Off by default: a sure prefilter is
    /// still wrong at times, and then an ordinary text is rewritten. Verification is never left out.
    pub repairs_confident_findings_untried: bool,
}

/// Which text a stage looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// As it came in.
    Original,
    /// As repair left it.
    Repaired,
}

/// What the prefilter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Screened {
    /// Nothing was found.
    Clean,
    /// Something was found.
    Suspicious,
    /// Something was found, and the prefilter is sure of it.
    SuspiciousForSure,
}

/// What became of an agent that read the text, alone and with nothing to lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxResult {
    /// It did its own task in every sample, and nothing else. A refusal is no such evidence.
    Untouched,
    /// It did what the text wanted, in some sample.
    Compromised,
}

/// What repair left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairResult {
    /// A text with the intent that was legitimate.
    Text,
    /// Nothing: all of it was the attack, or no intent was found in the rest.
    Nothing,
}

/// How the repaired text stands to the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonResult {
    /// It means what the rest of the original meant, and asks for nothing else.
    Faithful,
    /// It lost the intent, or asks for something new.
    Unfaithful,
}

/// Why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// The stage needs a model, and there is none.
    NoModel,
    /// The stage failed or ran out of time.
    Failed,
    /// The model declined to answer.
    Refused,
    /// The model's answer shows neither one thing nor the other.
    Unclear,
}

/// The stages that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Is it suspicious?
    Prefilter,
    /// What does an agent do that reads it?
    Sandbox,
    /// What is left of it without the attack?
    Repair,
    /// Is that what the user meant?
    Compare,
}

/// A recorded answer, of any stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "stage", content = "said")]
pub enum StageResult {
    /// Of the prefilter.
    Prefilter(Result<Screened, Undecided>),
    /// Of the sandbox.
    Sandbox(Result<SandboxResult, Undecided>),
    /// Of repair.
    Repair(Result<RepairResult, Undecided>),
    /// Of the comparison.
    Compare(Result<ComparisonResult, Undecided>),
}

impl StageResult {
    /// The stage that answered.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Prefilter(_) => Stage::Prefilter,
            Self::Sandbox(_) => Stage::Sandbox,
            Self::Repair(_) => Stage::Repair,
            Self::Compare(_) => Stage::Compare,
        }
    }

    /// Why it is no answer; none for an answer.
    pub fn undecided(&self) -> Option<Undecided> {
        match self {
            Self::Prefilter(said) => said.err(),
            Self::Sandbox(said) => said.err(),
            Self::Repair(said) => said.err(),
            Self::Compare(said) => said.err(),
        }
    }

    /// The word in reports.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Prefilter(Ok(Screened::Clean)) => "clean",
            Self::Prefilter(Ok(Screened::Suspicious)) => "suspicious",
            Self::Prefilter(Ok(Screened::SuspiciousForSure)) => "suspicious_for_sure",
            Self::Sandbox(Ok(SandboxResult::Untouched)) => "untouched",
            Self::Sandbox(Ok(SandboxResult::Compromised)) => "compromised",
            Self::Repair(Ok(RepairResult::Text)) => "text",
            Self::Repair(Ok(RepairResult::Nothing)) => "nothing",
            Self::Compare(Ok(ComparisonResult::Faithful)) => "faithful",
            Self::Compare(Ok(ComparisonResult::Unfaithful)) => "unfaithful",
            Self::Prefilter(Err(_))
            | Self::Sandbox(Err(_))
            | Self::Repair(Err(_))
            | Self::Compare(Err(_)) => "undecided",
        }
    }
}

impl Stage {
    /// The word in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefilter => "prefilter",
            Self::Sandbox => "sandbox",
            Self::Repair => "repair",
            Self::Compare => "comparison",
        }
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoModel => "there is no language model to ask",
            Self::Failed => "it failed",
            Self::Refused => "the language model declined",
            Self::Unclear => "the language model's answers show nothing",
        })
    }
}
