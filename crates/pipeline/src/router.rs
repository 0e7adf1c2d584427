//! The router: asks the stages that the kernel's route names, and adds no decision of its own.
//!
//! Every error of a stage is an answer to the kernel, *undecided*, which never goes to production.

use std::sync::Arc;
use std::time::Duration;

use custody_detect::MAX_TEXT_BYTES;
use custody_detect::behaviour::{BehaviourModel, JudgeError, Regression};
use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use custody_kernel::namespace::Tenant;
use custody_kernel::route::{
    ComparisonResult, RepairResult, RouteOutcome, RoutePolicy, RouteStep, SandboxResult, Screened,
    Stage, StageResult, Subject, Undecided, start,
};
use custody_models::Embedder;
use custody_models::chat::{ChatMessage, ChatModel, Usage, texts_to_assistant};
use custody_models::sha256::Sha256;
use custody_runtime::clock;

use crate::answer::StageAnswer;
use crate::repair::{Repaired, repair};
use crate::sandbox::{Sandbox, SandboxOptions};
use crate::verdicts::{Key, Verdicts};

/// A prefilter is sure from this score on.
///
/// Source: PIPE's confidence gate.
const SURE_FROM: f64 = 0.85;

/// The stages, ready to run. Sharing one between threads is fine; clones share what they were told.
#[derive(Clone)]
pub struct Router {
    tenant: Tenant,
    policy: RoutePolicy,
    screener: Screener,
    detector: Arc<str>,
    model: Option<Arc<dyn ChatModel>>,
    embedder: Option<Arc<dyn Embedder>>,
    judge: Option<BehaviourModel>,
    sandbox: SandboxOptions,
    max_bytes: usize,
    verdicts: Arc<Verdicts>,
}

/// Where a text went, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed {
    /// The end.
    pub outcome: RouteOutcome,
    /// Under which policy.
    pub policy: RoutePolicy,
    /// What screened it, as [`Screener::identity`] says.
    pub detector: String,
    /// The language model there was to ask.
    pub model: Option<String>,
    /// What repair made of the text, where it was asked.
    pub repaired: Option<Repaired>,
    /// The stages that were asked, in order. Their answers alone decide the same again: [`Routed::answers`].
    pub passed: Vec<Passed>,
}

/// A stage that was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Passed {
    /// About which text.
    pub subject: Subject,
    /// Its answer.
    pub heard: StageResult,
    /// What it rests on, in a line for people.
    pub because: String,
    /// How long it took.
    pub took: Duration,
    /// What models read and wrote for it.
    pub usage: Usage,
}

impl Router {
    /// Screens with `screener`; without a model, what it finds suspicious stays undecided.
    pub fn new(screener: Screener, model: Option<Arc<dyn ChatModel>>) -> Self {
        Self {
            tenant: Tenant::main(),
            policy: RoutePolicy::default(),
            detector: screener.identity().into(),
            screener,
            model,
            embedder: None,
            judge: None,
            sandbox: SandboxOptions::default(),
            max_bytes: MAX_TEXT_BYTES,
            verdicts: Arc::default(),
        }
    }

    /// For another tenant, who learns nothing of what was routed for the others.
    #[must_use]
    pub fn with_tenant(self, tenant: Tenant) -> Self {
        Self { tenant, ..self }
    }

    /// With an embedder, which measures how far repair led away from the meaning, and lets a trained detector look at
    /// the sandbox's answers beside the rules.
    ///
    /// # Errors
    /// [`JudgeError`] when the embedder's vectors have another length than those the detector was trained on.
    pub fn with_embedder(self, embedder: Arc<dyn Embedder>) -> Result<Self, JudgeError> {
        let judge = BehaviourModel::new(Arc::clone(&embedder), Regression::built_in())?;
        let detector = format!("{}+{}", self.detector, judge.identity()).into();
        Ok(Self { detector, embedder: Some(embedder), judge: Some(judge), ..self })
    }

    /// With another limit on the length of a text, in bytes. Longer ones are undecided; no text is cut.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(MAX_TEXT_BYTES), ..self }
    }

    /// With another policy.
    #[must_use]
    pub fn with_policy(self, policy: RoutePolicy) -> Self {
        Self { policy, ..self }
    }

    /// With another sandbox.
    #[must_use]
    pub fn with_sandbox(self, sandbox: SandboxOptions) -> Self {
        Self { sandbox, ..self }
    }

    /// What decides here: the digest of the detectors, the model and all settings. Two routers of one identity ask the
    /// same of the same.
    pub fn identity(&self) -> String {
        let Self { tenant, policy, detector, model, sandbox, max_bytes, .. } = self;
        let model = model.as_ref().map(|model| model.identity());
        let parts = format!("{tenant} {policy:?} {detector} {model:?} {sandbox:?} {max_bytes}");
        format!("sha256:{}", Sha256::of(parts.as_bytes()))
    }

    /// Routes `text`, which is for an assistant what `kind` says: a user's words, or what it reads for somebody.
    pub fn route(&self, text: &str, kind: TextKind) -> Routed {
        self.route_after(&[], text, kind)
    }

    /// Routes `text` as what comes after the turns `before`, oldest first. A turn that is harmless by itself may finish
    /// what an earlier one began; it is the last one that goes on or does not.
    pub fn route_after(&self, before: &[ChatMessage], text: &str, kind: TextKind) -> Routed {
        let (repaired, passed) = (None, Vec::new());
        let mut route = Route { router: self, before, original: text, kind, repaired, passed };
        let mut step = start(self.policy);
        let outcome = loop {
            step = match step {
                RouteStep::Prefilter(asked) => {
                    let subject = asked.subject();
                    asked.answer(route.ask(subject, StageResult::Prefilter, Route::prefilter))
                }
                RouteStep::Sandbox(asked) => {
                    let subject = asked.subject();
                    asked.answer(route.ask(subject, StageResult::Sandbox, Route::sandbox))
                }
                RouteStep::Repair(asked) => {
                    asked.answer(route.ask(Subject::Original, StageResult::Repair, Route::repair))
                }
                RouteStep::Compare(asked) => {
                    asked.answer(route.ask(Subject::Repaired, StageResult::Compare, Route::compare))
                }
                RouteStep::Done(outcome) => break outcome,
            };
        };
        Routed {
            outcome,
            policy: self.policy,
            detector: self.detector.to_string(),
            model: self.model.as_ref().map(|model| model.identity().to_owned()),
            repaired: route.repaired,
            passed: route.passed,
        }
    }
}

/// A route under way.
struct Route<'a> {
    router: &'a Router,
    before: &'a [ChatMessage],
    original: &'a str,
    kind: TextKind,
    repaired: Option<Repaired>,
    passed: Vec<Passed>,
}

impl Route<'_> {
    /// Asks a stage and writes down what it said.
    fn ask<T: Copy>(
        &mut self,
        subject: Subject,
        heard: fn(Result<T, Undecided>) -> StageResult,
        stage: fn(&mut Self, Subject) -> StageAnswer<T>,
    ) -> Result<T, Undecided> {
        let began = clock::moment();
        let StageAnswer { answer, because, usage } = stage(self, subject);
        self.passed.push(Passed {
            subject,
            heard: heard(answer),
            because,
            took: clock::moment().saturating_duration_since(began),
            usage,
        });
        answer
    }

    fn text(&self, subject: Subject) -> &str {
        match (subject, &self.repaired) {
            (Subject::Repaired, Some(repaired)) => &repaired.text,
            (Subject::Original, _) | (Subject::Repaired, None) => self.original,
        }
    }

    fn prefilter(&mut self, subject: Subject) -> StageAnswer<Screened> {
        let turns = self.before.iter().map(|turn| turn.content.as_str());
        let bytes = turns.chain([self.text(subject)]).map(str::len).sum::<usize>();
        let limit = self.router.max_bytes;
        if bytes > limit {
            return StageAnswer::failed(&format!("it has {bytes} bytes and the limit is {limit}"));
        }
        let before = texts_to_assistant(self.before);
        match self.router.screener.screen_turn(&before, self.text(subject), self.kind) {
            Ok(verdict) => {
                // Every stage takes the text for what the first one took it for.
                self.kind = verdict.kind;
                let answer = match (verdict.flagged, verdict.score >= SURE_FROM) {
                    (false, _) => Screened::Clean,
                    (true, false) => Screened::Suspicious,
                    (true, true) => Screened::SuspiciousForSure,
                };
                let rules: Vec<&str> =
                    verdict.findings.iter().map(|found| found.rule.as_str()).collect();
                let because = format!("score {:.2}, {}", verdict.score, verdict.stage.name());
                let because = if rules.is_empty() {
                    because
                } else {
                    format!("{because}: {}", rules.join(", "))
                };
                StageAnswer { answer: Ok(answer), because, usage: Usage::default() }
            }
            Err(why) => StageAnswer::failed(&why),
        }
    }

    fn sandbox(&mut self, subject: Subject) -> StageAnswer<SandboxResult> {
        let Some(model) = &self.router.model else { return StageAnswer::no_model() };
        let key = self.key(Stage::Sandbox, subject);
        if let Some(StageResult::Sandbox(answer)) = self.router.verdicts.find(key) {
            return StageAnswer::before(answer);
        }
        let sandbox = Sandbox::new(model.as_ref(), &self.router.sandbox)
            .with_judge(self.router.judge.as_ref());
        let said = sandbox.try_out(self.before, self.text(subject), self.kind);
        self.router.verdicts.keep(key, StageResult::Sandbox(said.answer));
        said
    }

    fn repair(&mut self, _: Subject) -> StageAnswer<RepairResult> {
        let key = self.key(Stage::Repair, Subject::Original);
        if let Some(StageResult::Repair(answer)) = self.router.verdicts.find(key) {
            return StageAnswer::before(answer);
        }
        let (said, repaired) = repair(self.original, self.kind, self.router.model.as_deref());
        self.router.verdicts.keep(key, StageResult::Repair(said.answer));
        self.repaired = repaired;
        said
    }

    /// All that a stage's answer may depend on, and whose it is.
    fn key(&self, stage: Stage, subject: Subject) -> Key {
        let Router { tenant, policy, detector, model, sandbox, verdicts, .. } = self.router;
        let mut heard = self.passed.iter().rev().map(|passed| passed.heard);
        let severity = heard.find(|heard| heard.stage() == Stage::Prefilter);
        let asked = format!("{stage:?} {severity:?} {:?} {policy:?} {sandbox:?}", self.kind);
        let model = model.as_ref().map_or("", |model| model.identity());
        let mut parts = vec![tenant.as_str(), detector, model, &asked, self.text(subject)];
        parts.extend(self.before.iter().flat_map(|turn| [turn.role.name(), &turn.content]));
        verdicts.key(&parts)
    }

    fn compare(&mut self, _: Subject) -> StageAnswer<ComparisonResult> {
        match &self.repaired {
            Some(repaired) => {
                crate::compare::compare(self.original, repaired, self.router.embedder.as_deref())
            }
            None => StageAnswer::failed(&"there is no repaired text"),
        }
    }
}

impl Routed {
    /// The text that may go to production; none when nothing may.
    pub fn production<'a>(&'a self, original: &'a str) -> Option<&'a str> {
        let RouteOutcome::Production(release) = &self.outcome else { return None };
        match release.subject() {
            Subject::Original => Some(original),
            Subject::Repaired => self.repaired.as_ref().map(|repaired| repaired.text.as_str()),
        }
    }

    /// How long it took.
    pub fn took(&self) -> Duration {
        self.passed.iter().map(|passed| passed.took).sum()
    }

    /// What models read and wrote for it.
    pub fn usage(&self) -> Usage {
        self.passed.iter().map(|passed| passed.usage).sum()
    }

    /// What the stages said: enough for [`custody_kernel::route::replay`].
    pub fn answers(&self) -> Vec<StageResult> {
        self.passed.iter().map(|passed| passed.heard).collect()
    }

    /// What to do about an undecided route, in a sentence; none for others.
    pub fn advice(&self) -> Option<&'static str> {
        match self.outcome {
            RouteOutcome::Undecided { why: Undecided::NoModel, .. } => Some(
                "it looks suspicious and there is no language model to try it with; name one with `--model`, for \
                 instance smollm2-135m-instruct after `custody models fetch smollm2-135m-instruct`",
            ),
            RouteOutcome::Undecided { stage: Stage::Prefilter, .. } => {
                Some("it could not be screened; shorten it, or look at it yourself")
            }
            RouteOutcome::Undecided { why: Undecided::Failed, .. } => {
                Some("the model failed; try again when it answers")
            }
            RouteOutcome::Undecided { why: Undecided::Refused | Undecided::Unclear, .. } => Some(
                "the model's answers show nothing; look at it yourself, or take a stronger model",
            ),
            RouteOutcome::Production(_) | RouteOutcome::Unrecoverable => None,
        }
    }
}
