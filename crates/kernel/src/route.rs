//! Where a suspicious text may go: the pipeline's tree, as stages that ask and are answered.
//!
//! Nothing here looks at a text. Each stage asks one question, about the original or about the repaired text; whoever
//! runs the stages answers, and the answer leads to the next stage or to the end. A question that could not be
//! answered ends the route, and never in production. No stage can be left out but the first sandbox, and that only
//! on the way to repair.
//!
//! ```
//! use custody_kernel::route::{RouteOutcome, RoutePolicy, RouteStep, Screened, start};
//!
//! let RouteStep::Prefilter(prefilter) = start(RoutePolicy::default()) else { unreachable!() };
//! let RouteStep::Done(outcome) = prefilter.answer(Ok(Screened::Clean)) else { unreachable!() };
//! let RouteOutcome::Production(release) = outcome else { unreachable!() };
//! assert_eq!(release.reason().name(), "clean");
//! ```
//!
//! Source: pipeline paper, routing decision tree.

use serde::{Deserialize, Serialize};

pub use custody_record::route::{
    ComparisonResult, RepairResult, RoutePolicy, SandboxResult, Screened, Stage, StageResult,
    Subject, Undecided,
};

/// Where a route is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a route that is not finished has decided nothing"]
pub enum RouteStep {
    /// The prefilter is asked.
    Prefilter(AskPrefilter),
    /// The sandbox is asked.
    Sandbox(AskSandbox),
    /// Repair is asked.
    Repair(AskRepair),
    /// The comparison is asked.
    Compare(AskCompare),
    /// It is over.
    Done(RouteOutcome),
}

/// Whether the text is suspicious.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskPrefilter {
    policy: RoutePolicy,
    subject: Subject,
}

/// What an agent does that reads the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskSandbox {
    policy: RoutePolicy,
    subject: Subject,
}

/// What is left of the original without the attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRepair {
    policy: RoutePolicy,
}

/// Whether the repaired text is what the user meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskCompare {
    policy: RoutePolicy,
}

/// How a route ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOutcome {
    /// A text goes on.
    Production(Release),
    /// Nothing goes on: the attack cannot be parted from the rest.
    Unrecoverable,
    /// Nothing goes on: this stage could not say.
    Undecided {
        /// The stage.
        stage: Stage,
        /// About which text.
        subject: Subject,
        /// Why not.
        why: Undecided,
    },
}

/// Leave for one text to go to production. Only a finished route gives one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    subject: Subject,
    reason: Reason,
}

/// Why a route ended as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The prefilter found nothing.
    Clean,
    /// The prefilter found something, and nothing came of it.
    FalseAlarm,
    /// The attack was taken out, and what is left was tried.
    Repaired,
    /// The attack could not be taken out.
    Unrecoverable,
    /// Some stage could not say.
    Undecided,
}

/// Answers that are no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// An answer of a stage that was not asked.
    #[error("answer {place} is of a stage that was not asked there; the record was changed")]
    WrongStage {
        /// From 0.
        place: usize,
    },
    /// Answers end before the route does.
    #[error("the recorded answers end in the middle of the route")]
    Incomplete,
}

/// A route that begins.
pub fn start(policy: RoutePolicy) -> RouteStep {
    RouteStep::Prefilter(AskPrefilter { policy, subject: Subject::Original })
}

/// The end of a route from its recorded answers: the same decision again, without any model.
///
/// # Errors
/// [`RouteError`] when these answers are not those of one whole route.
pub fn replay(policy: RoutePolicy, heard: &[StageResult]) -> Result<RouteOutcome, RouteError> {
    let mut step = start(policy);
    for (place, heard) in heard.iter().enumerate() {
        step = match (step, *heard) {
            (RouteStep::Prefilter(asked), StageResult::Prefilter(said)) => asked.answer(said),
            (RouteStep::Sandbox(asked), StageResult::Sandbox(said)) => asked.answer(said),
            (RouteStep::Repair(asked), StageResult::Repair(said)) => asked.answer(said),
            (RouteStep::Compare(asked), StageResult::Compare(said)) => asked.answer(said),
            (
                RouteStep::Prefilter(_)
                | RouteStep::Sandbox(_)
                | RouteStep::Repair(_)
                | RouteStep::Compare(_)
                | RouteStep::Done(_),
                StageResult::Prefilter(_)
                | StageResult::Sandbox(_)
                | StageResult::Repair(_)
                | StageResult::Compare(_),
            ) => return Err(RouteError::WrongStage { place }),
        };
    }
    match step {
        RouteStep::Done(outcome) => Ok(outcome),
        RouteStep::Prefilter(_)
        | RouteStep::Sandbox(_)
        | RouteStep::Repair(_)
        | RouteStep::Compare(_) => Err(RouteError::Incomplete),
    }
}

impl AskPrefilter {
    /// The text it is asked about.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Goes on. A repaired text is tried whatever the prefilter says of it: what it finds there it may have found
    /// wrongly, and what it does not find may still work.
    pub fn answer(self, said: Result<Screened, Undecided>) -> RouteStep {
        let Self { policy, subject } = self;
        let said = match said {
            Ok(said) => said,
            Err(why) => return undecided(Stage::Prefilter, subject, why),
        };
        match (subject, said) {
            (Subject::Original, Screened::Clean) => released(subject, Reason::Clean),
            (Subject::Original, Screened::SuspiciousForSure)
                if policy.repairs_confident_findings_untried =>
            {
                RouteStep::Repair(AskRepair { policy })
            }
            (Subject::Original, Screened::Suspicious | Screened::SuspiciousForSure)
            | (
                Subject::Repaired,
                Screened::Clean | Screened::Suspicious | Screened::SuspiciousForSure,
            ) => RouteStep::Sandbox(AskSandbox { policy, subject }),
        }
    }
}

impl AskSandbox {
    /// The text it is asked about.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Goes on.
    pub fn answer(self, said: Result<SandboxResult, Undecided>) -> RouteStep {
        let Self { policy, subject } = self;
        match (subject, said) {
            (Subject::Original | Subject::Repaired, Err(why)) => {
                undecided(Stage::Sandbox, subject, why)
            }
            (Subject::Original, Ok(SandboxResult::Untouched)) => {
                released(subject, Reason::FalseAlarm)
            }
            (Subject::Original, Ok(SandboxResult::Compromised)) => {
                RouteStep::Repair(AskRepair { policy })
            }
            (Subject::Repaired, Ok(SandboxResult::Untouched)) => {
                released(subject, Reason::Repaired)
            }
            (Subject::Repaired, Ok(SandboxResult::Compromised)) => {
                RouteStep::Done(RouteOutcome::Unrecoverable)
            }
        }
    }
}

impl AskRepair {
    /// Goes on.
    pub fn answer(self, said: Result<RepairResult, Undecided>) -> RouteStep {
        match said {
            Ok(RepairResult::Text) => RouteStep::Compare(AskCompare { policy: self.policy }),
            Ok(RepairResult::Nothing) => RouteStep::Done(RouteOutcome::Unrecoverable),
            Err(why) => undecided(Stage::Repair, Subject::Original, why),
        }
    }
}

impl AskCompare {
    /// Goes on.
    pub fn answer(self, said: Result<ComparisonResult, Undecided>) -> RouteStep {
        match said {
            Ok(ComparisonResult::Faithful) => RouteStep::Prefilter(AskPrefilter {
                policy: self.policy,
                subject: Subject::Repaired,
            }),
            Ok(ComparisonResult::Unfaithful) => RouteStep::Done(RouteOutcome::Unrecoverable),
            Err(why) => undecided(Stage::Compare, Subject::Repaired, why),
        }
    }
}

fn undecided(stage: Stage, subject: Subject, why: Undecided) -> RouteStep {
    RouteStep::Done(RouteOutcome::Undecided { stage, subject, why })
}

fn released(subject: Subject, reason: Reason) -> RouteStep {
    RouteStep::Done(RouteOutcome::Production(Release { subject, reason }))
}

impl Release {
    /// Why it may go.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The text that may go, and no other.
    pub fn subject(&self) -> Subject {
        self.subject
    }
}

impl RouteOutcome {
    /// Its reason code.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Production(release) => release.reason,
            Self::Unrecoverable => Reason::Unrecoverable,
            Self::Undecided { .. } => Reason::Undecided,
        }
    }
}

impl Reason {
    /// The word in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::FalseAlarm => "false_alarm",
            Self::Repaired => "repaired",
            Self::Unrecoverable => "unrecoverable",
            Self::Undecided => "undecided",
        }
    }
}
