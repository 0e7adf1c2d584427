//! Runs the stages that the kernel's route machine requests. The router makes no decision of its own.
//!
//! An error of a stage is passed to the kernel as *undecided*; an undecided text never goes to production.

use std::sync::Arc;
use std::time::Duration;

use custody_detect::MAX_TEXT_BYTES;
use custody_detect::behaviour::{BehaviourModel, JudgeError, Regression};
use custody_detect::screen::{ScreenResult, Screener};
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
use crate::cache::{Key, StageCache};
use crate::repair::{RepairedText, repair};
use crate::sandbox::{Sandbox, SandboxOptions};

/// The score from which the prefilter counts as certain.
///
/// Source: PIPE's confidence gate.
const CERTAIN_FROM: f64 = 0.85;

/// The stages, ready to run. It can be shared between threads; clones share the cache of results.
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
    cache: Arc<StageCache>,
}

/// The route of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteResult {
    /// The outcome.
    pub outcome: RouteOutcome,
    /// The policy that applied.
    pub policy: RoutePolicy,
    /// The identity of the detectors, beginning with [`Screener::identity`].
    pub detector: String,
    /// The identity of the language model, if there was one.
    pub model: Option<String>,
    /// The repaired text, if repair produced one.
    pub repaired: Option<RepairedText>,
    /// The stages that ran, in order. [`RouteResult::stage_results`] is enough to replay the decision.
    pub stages: Vec<StageRun>,
}

/// One run of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageRun {
    /// The text that it examined.
    pub subject: Subject,
    /// Its result.
    pub result: StageResult,
    /// The reason for the result, one line for people. It may quote the text.
    pub explanation: String,
    /// The time it took.
    pub duration: Duration,
    /// The tokens that language models read and wrote.
    pub usage: Usage,
}

impl Router {
    /// A router with `screener` as its prefilter. Without a model every suspicious text stays undecided.
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
            cache: Arc::default(),
        }
    }

    /// The same router for another tenant. Tenants never share cached results.
    #[must_use]
    pub fn with_tenant(self, tenant: Tenant) -> Self {
        Self { tenant, ..self }
    }

    /// Adds an embedder. It measures how far a repair changed the meaning of a text, and enables the trained behaviour
    /// detector in the sandbox.
    ///
    /// # Errors
    /// [`JudgeError`] if the embedder's vectors do not have the dimension that the detector was trained on.
    pub fn with_embedder(self, embedder: Arc<dyn Embedder>) -> Result<Self, JudgeError> {
        let judge = BehaviourModel::new(Arc::clone(&embedder), Regression::built_in())?;
        let detector = format!("{}+{}", self.detector, judge.identity()).into();
        Ok(Self { detector, embedder: Some(embedder), judge: Some(judge), ..self })
    }

    /// Sets the largest length of a text, in bytes. Longer texts are undecided; no text is truncated.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(MAX_TEXT_BYTES), ..self }
    }

    /// Sets the policy.
    #[must_use]
    pub fn with_policy(self, policy: RoutePolicy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the options of the sandbox.
    #[must_use]
    pub fn with_sandbox(self, sandbox: SandboxOptions) -> Self {
        Self { sandbox, ..self }
    }

    /// A digest of the detectors, the model and all settings. Routers of equal identity send equal requests.
    pub fn identity(&self) -> String {
        let Self { tenant, policy, detector, model, sandbox, max_bytes, .. } = self;
        let model = model.as_ref().map(|model| model.identity());
        let parts = format!("{tenant} {policy:?} {detector} {model:?} {sandbox:?} {max_bytes}");
        format!("sha256:{}", Sha256::of(parts.as_bytes()))
    }

    /// Routes `text`, which is of kind `kind`: a message to an assistant, or content that it reads.
    pub fn route(&self, text: &str, kind: TextKind) -> RouteResult {
        self.route_after(&[], text, kind)
    }

    /// Routes `text` as the turn after `before`, oldest first. A turn that is harmless by itself may complete an attack
    /// that an earlier one began. Only the last turn is released or refused.
    pub fn route_after(&self, before: &[ChatMessage], text: &str, kind: TextKind) -> RouteResult {
        let (repaired, stages) = (None, Vec::new());
        let mut route = Route { router: self, before, original: text, kind, repaired, stages };
        let mut step = start(self.policy);
        let outcome = loop {
            step = match step {
                RouteStep::Prefilter(asked) => {
                    let subject = asked.subject();
                    asked.answer(route.run_stage(subject, StageResult::Prefilter, Route::prefilter))
                }
                RouteStep::Sandbox(asked) => {
                    let subject = asked.subject();
                    asked.answer(route.run_stage(subject, StageResult::Sandbox, Route::sandbox))
                }
                RouteStep::Repair(asked) => asked.answer(route.run_stage(
                    Subject::Original,
                    StageResult::Repair,
                    Route::repair,
                )),
                RouteStep::Compare(asked) => asked.answer(route.run_stage(
                    Subject::Repaired,
                    StageResult::Compare,
                    Route::compare,
                )),
                RouteStep::Done(outcome) => break outcome,
            };
        };
        RouteResult {
            outcome,
            policy: self.policy,
            detector: self.detector.to_string(),
            model: self.model.as_ref().map(|model| model.identity().to_owned()),
            repaired: route.repaired,
            stages: route.stages,
        }
    }
}

/// A route in progress.
struct Route<'a> {
    router: &'a Router,
    before: &'a [ChatMessage],
    original: &'a str,
    kind: TextKind,
    repaired: Option<RepairedText>,
    stages: Vec<StageRun>,
}

impl Route<'_> {
    /// Runs a stage and records its result.
    fn run_stage<T: Copy>(
        &mut self,
        subject: Subject,
        to_result: fn(Result<T, Undecided>) -> StageResult,
        stage: fn(&mut Self, Subject) -> StageAnswer<T>,
    ) -> Result<T, Undecided> {
        let start = clock::moment();
        let StageAnswer { answer, explanation, usage } = stage(self, subject);
        self.stages.push(StageRun {
            subject,
            result: to_result(answer),
            explanation,
            duration: clock::moment().saturating_duration_since(start),
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
            return StageAnswer::failed(&format!(
                "the text is {bytes} bytes; the limit is {limit}"
            ));
        }
        let before = texts_to_assistant(self.before);
        match self.router.screener.screen_turn(&before, self.text(subject), self.kind) {
            Ok(screened) => {
                // Later stages treat the text as the kind that the prefilter resolved.
                self.kind = screened.kind;
                let answer = match (screened.is_flagged, screened.score >= CERTAIN_FROM) {
                    (false, _) => Screened::Clean,
                    (true, false) => Screened::Suspicious,
                    (true, true) => Screened::SuspiciousForSure,
                };
                StageAnswer::without_model(answer, screening_explanation(&screened))
            }
            Err(error) => StageAnswer::failed(&error),
        }
    }

    fn sandbox(&mut self, subject: Subject) -> StageAnswer<SandboxResult> {
        let Some(model) = &self.router.model else { return StageAnswer::no_model() };
        let key = self.key(Stage::Sandbox, subject);
        if let Some(StageResult::Sandbox(answer)) = self.router.cache.find(key) {
            return StageAnswer::cached(answer);
        }
        let sandbox = Sandbox::new(model.as_ref(), &self.router.sandbox)
            .with_judge(self.router.judge.as_ref());
        let result = sandbox.run(self.before, self.text(subject), self.kind);
        self.router.cache.insert(key, StageResult::Sandbox(result.answer));
        result
    }

    fn repair(&mut self, _: Subject) -> StageAnswer<RepairResult> {
        let key = self.key(Stage::Repair, Subject::Original);
        if let Some(StageResult::Repair(answer)) = self.router.cache.find(key) {
            return StageAnswer::cached(answer);
        }
        let (result, repaired) = repair(self.original, self.kind, self.router.model.as_deref());
        self.router.cache.insert(key, StageResult::Repair(result.answer));
        self.repaired = repaired;
        result
    }

    /// The cache key: everything that a stage's result may depend on, and the tenant.
    fn key(&self, stage: Stage, subject: Subject) -> Key {
        let Router { tenant, policy, detector, model, sandbox, cache, .. } = self.router;
        let mut results = self.stages.iter().rev().map(|stage| stage.result);
        let severity = results.find(|result| result.stage() == Stage::Prefilter);
        let settings = format!("{stage:?} {severity:?} {:?} {policy:?} {sandbox:?}", self.kind);
        let model = model.as_ref().map_or("", |model| model.identity());
        let mut parts = vec![tenant.as_str(), detector, model, &settings, self.text(subject)];
        parts.extend(self.before.iter().flat_map(|turn| [turn.role.name(), &turn.content]));
        cache.key(&parts)
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

fn screening_explanation(screened: &ScreenResult) -> String {
    let summary = format!("score {:.2}, {}", screened.score, screened.stage.name());
    if screened.findings.is_empty() {
        return summary;
    }
    let rules: Vec<&str> = screened.findings.iter().map(|found| found.rule.as_str()).collect();
    format!("{summary}: {}", rules.join(", "))
}

impl RouteResult {
    /// The text that is released to production, if any; `original` is the routed text.
    pub fn production_text<'a>(&'a self, original: &'a str) -> Option<&'a str> {
        let RouteOutcome::Production(release) = &self.outcome else { return None };
        match release.subject() {
            Subject::Original => Some(original),
            Subject::Repaired => self.repaired.as_ref().map(|repaired| repaired.text.as_str()),
        }
    }

    /// The time that all stages took.
    pub fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }

    /// The tokens that language models read and wrote.
    pub fn usage(&self) -> Usage {
        self.stages.iter().map(|stage| stage.usage).sum()
    }

    /// The results of the stages, in order: the input of [`custody_kernel::route::replay`].
    pub fn stage_results(&self) -> Vec<StageResult> {
        self.stages.iter().map(|stage| stage.result).collect()
    }

    /// The remedy for an undecided route, in one sentence; `None` for other outcomes.
    pub fn advice(&self) -> Option<&'static str> {
        match self.outcome {
            RouteOutcome::Undecided { why: Undecided::NoModel, .. } => Some(
                "the text is suspicious and the sandbox needs a language model; name one with `--model`, for \
                 instance smollm2-135m-instruct after `custody models fetch smollm2-135m-instruct`",
            ),
            RouteOutcome::Undecided { stage: Stage::Prefilter, .. } => {
                Some("the text was not screened; shorten it or review it")
            }
            RouteOutcome::Undecided { why: Undecided::Failed, .. } => {
                Some("the language model failed; try again later")
            }
            RouteOutcome::Undecided { why: Undecided::Refused | Undecided::Unclear, .. } => Some(
                "the language model's answers are inconclusive; review the text or use a stronger model",
            ),
            RouteOutcome::Production(_) | RouteOutcome::Unrecoverable => None,
        }
    }
}
