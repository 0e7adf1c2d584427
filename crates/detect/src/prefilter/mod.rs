//! The prefilter of the pipeline paper: rules, and a logistic regression on a sentence vector.
//!
//! The order and the arithmetic are the paper's where they are sound:
//!
//! 1. A strong rule: suspicious with a score of 0.95, and the model is not run.
//! 2. Otherwise the model's probability `p` for the most suspicious chunk of the text.
//! 3. The score: with a strong rule `max(p, 0.95)`, with a medium one `max(p, min(1.3·p, 0.85))`, with a weak
//!    one `max(p, min(1.15·p, 0.7))`, else `p`.
//! 4. Suspicious with a strong rule or from the threshold on. Above 0.85 a sandbox run would only confirm it.
//!

//! It departs from the published code where that has weaknesses (P5 to P14). The text is normalised first (P5). What
//! the text states about its own purpose is reported and changes nothing (P8). A weak rule raises a score instead of
//! setting it to 0.7, which lies above the threshold, so that any rule at all would decide (P7, P13). A harmful topic
//! is reported and decides nothing, because it is no injection (P7). A missing or failing model is an error, never a
//! result (P14). The whole text is read, not its first 256 tokens.
//!
//! Source: PIPE step 2; docs/papers.md §4.5.

mod model;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use custody_models::{Embedder, Encoder, ModelError, SentenceEmbedder, Tokenizer};

pub use model::PrefilterModel;

use crate::behaviour::harmful_intents;
use crate::finding::{DetectorFinding, Severity, TextView};
use crate::ngram_stage::select_chunks;
use crate::normalise::{NormalisedText, TextTooLong, normalise};
use crate::rules::{RuleSet, ScanResult, THRESHOLD};
use model::STRONG;

/// The factor by which a medium rule raises a probability, and the highest result.
const MEDIUM: (f64, f64) = (1.3, 0.85);
/// The same for a weak rule.
const WEAK: (f64, f64) = (1.15, 0.7);
/// The rules' score from which they count as medium; they count as strong from [`THRESHOLD`] on.
const MEDIUM_FROM: f64 = 0.3;
/// Above this score the sandbox is skipped.
const SKIP_ABOVE: f64 = 0.85;
/// The family of remarks that a text makes about its own purpose.
const REMARK: &str = "remark";

/// Which short cuts are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefilterOptions {
    /// A strong rule decides without running the model.
    pub fast_reject: bool,
    /// A text with a score above 0.85 goes to repair without a sandbox run. The verification after it is never skipped.
    pub skip_sandbox: bool,
}

impl Default for PrefilterOptions {
    /// Both, as in the paper.
    fn default() -> Self {
        Self { fast_reject: true, skip_sandbox: true }
    }
}

/// The prefilter's result for a text.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefilterResult {
    /// Whether the text goes to the sandbox instead of production.
    pub is_suspicious: bool,
    /// In `[0, 1]`.
    pub score: f64,
    /// The paper's codes: how the score was computed, then `harmful_intent:TOPIC` for every harmful topic that the
    /// text asks for. Each code ends in `_legitimate_context` if the text claims to be security work or study. Neither
    /// topics nor claims change the score.
    pub reasons: Vec<String>,
    /// Whether the sandbox run is skipped.
    pub is_sandbox_skipped: bool,
    /// In text order.
    pub findings: Vec<DetectorFinding>,
}

/// Why a text was not checked. It counts as unchecked, not as clean.
#[derive(Debug, thiserror::Error)]
pub enum PrefilterError {
    /// The text is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// The embedding model is missing, is another one than the regression was trained on, or failed.
    #[error(
        "the prefilter's embedding model cannot be used; get it with `custody models fetch all-minilm-l6-v2`"
    )]
    Model(#[from] ModelError),
    /// The regression and the embedding model have different dimensions.
    #[error(
        "the prefilter's regression needs vectors of {wanted} numbers, but the embedding model returns {found}; \
         train it on that model with `custody train embedding`"
    )]
    Dimension {
        /// The number of weights.
        wanted: usize,
        /// The dimension of the embedding model.
        found: usize,
    },
}

/// A prefilter with its models in memory. It can be shared between threads.
#[derive(Clone)]
pub struct Prefilter {
    embedder: Arc<dyn Embedder>,
    model: Arc<PrefilterModel>,
    options: PrefilterOptions,
}

impl fmt::Debug for Prefilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, options) = (&self.model, &self.options);
        formatter.debug_struct("Prefilter").field("model", model).field("options", options).finish()
    }
}

impl Prefilter {
    /// A prefilter of `model` and the embedding model in `folder`: `config.json`, `model.safetensors` and
    /// `tokenizer.json`.
    ///
    /// # Errors
    /// [`PrefilterError::Model`] when a file is missing or damaged, or belongs to another embedding model than `model`
    /// was trained on.
    pub fn open(folder: &Path, model: PrefilterModel) -> Result<Self, PrefilterError> {
        let encoder = Encoder::open(folder)?;
        model.check_base(encoder.digest())?;
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        let embedder = SentenceEmbedder::new(Arc::new(encoder), Arc::new(tokenizer))?;
        Self::new(Arc::new(embedder), model)
    }

    /// A prefilter of `model` and `embedder`, which must be the one that `model` was trained on.
    ///
    /// # Errors
    /// [`PrefilterError::Dimension`].
    pub fn new(embedder: Arc<dyn Embedder>, model: PrefilterModel) -> Result<Self, PrefilterError> {
        let (wanted, found) = (model.dimension(), embedder.dimension());
        if wanted != found {
            return Err(PrefilterError::Dimension { wanted, found });
        }
        Ok(Self { embedder, model: Arc::new(model), options: PrefilterOptions::default() })
    }

    /// The same prefilter with other options.
    #[must_use]
    pub fn with_options(self, options: PrefilterOptions) -> Self {
        Self { options, ..self }
    }

    /// The regression and its threshold.
    #[must_use]
    pub fn model(&self) -> &PrefilterModel {
        &self.model
    }

    /// Checks `text`.
    ///
    /// # Errors
    /// [`PrefilterError`].
    pub fn check(&self, text: &str) -> Result<PrefilterResult, PrefilterError> {
        let scan = RuleSet::built_in().scan(text)?;
        let strength = Strength::of(&scan);
        let model_runs = strength != Strength::Strong || !self.options.fast_reject;
        let highest = if model_runs { self.highest_chunk(&normalise(text)?)? } else { None };
        let probability = highest.as_ref().map_or(0.0, |chunk| chunk.probability);
        let score = strength.score(probability);
        let suspicious = strength == Strength::Strong || score >= self.model.threshold();
        let intents = harmful_intents(text)?;
        let mut reasons = vec![strength.code(model_runs).to_owned()];
        let topics: BTreeSet<&str> = intents.iter().map(|found| found.family.as_str()).collect();
        reasons.extend(topics.into_iter().map(|topic| format!("harmful_intent:{topic}")));
        let mut findings = scan.findings;
        if findings.iter().any(|finding| finding.family == REMARK) {
            reasons.iter_mut().for_each(|reason| reason.push_str("_legitimate_context"));
        }
        findings.extend(intents);
        // Beside a strong rule the model decides nothing, so it has no finding either.
        let model_decides = suspicious && strength != Strength::Strong;
        findings.extend(highest.filter(|_| model_decides).map(ChunkScore::into_finding));
        findings.sort_by_key(|finding| (finding.span.start, finding.span.end));
        Ok(PrefilterResult {
            is_suspicious: suspicious,
            score,
            reasons,
            is_sandbox_skipped: self.options.skip_sandbox && suspicious && score > SKIP_ABOVE,
            findings,
        })
    }

    /// The chunk with the highest probability; `None` for a text without words.
    fn highest_chunk(&self, text: &NormalisedText) -> Result<Option<ChunkScore>, PrefilterError> {
        let chunks = select_chunks(text.text());
        let texts: Vec<&str> = chunks.iter().map(|range| &text.text()[range.clone()]).collect();
        let vectors = self.embedder.embed(&texts)?;
        if vectors.len() != texts.len() {
            let detail = format!("{} vectors for {} texts", vectors.len(), texts.len());
            return Err(ModelError::Tokens { detail }.into());
        }
        let scores = chunks.into_iter().zip(&vectors).map(|(range, vector)| ChunkScore {
            probability: self.model.probability(vector),
            span: text.original(range),
        });
        Ok(scores.max_by(|a, b| a.probability.total_cmp(&b.probability)))
    }
}

/// The model's probability for one chunk.
struct ChunkScore {
    probability: f64,
    /// Bytes of the original text.
    span: Range<usize>,
}

impl ChunkScore {
    fn into_finding(self) -> DetectorFinding {
        DetectorFinding {
            rule: "prefilter.model".to_owned(),
            family: "model".to_owned(),
            severity: if self.probability >= 0.9 { Severity::High } else { Severity::Medium },
            confidence: self.probability,
            span: self.span,
            view: TextView::Plain,
            explanation: "reads like an attempt to change what the assistant does".to_owned(),
        }
    }
}

/// How strong the rules are together: by their score, so that weak rules of several families add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strength {
    None,
    Weak,
    Medium,
    Strong,
}

impl Strength {
    fn of(scan: &ScanResult) -> Self {
        match scan.score {
            score if score >= THRESHOLD => Self::Strong,
            score if score >= MEDIUM_FROM => Self::Medium,
            score if score > 0.0 => Self::Weak,
            _ => Self::None,
        }
    }

    fn score(self, probability: f64) -> f64 {
        match self {
            Self::Strong => probability.max(f64::from(STRONG)),
            Self::Medium => raise(probability, MEDIUM),
            Self::Weak => raise(probability, WEAK),
            Self::None => probability,
        }
    }

    /// The paper's code for how the score was computed.
    fn code(self, model_was_run: bool) -> &'static str {
        match self {
            Self::Strong if !model_was_run => "strong_rule_fast_reject",
            Self::Strong => "strong_rule",
            Self::Medium => "medium_rule_boost",
            Self::Weak => "rule_boost",
            Self::None => "model",
        }
    }
}

/// `probability` times `factor`, at most `ceiling`, and never less than `probability`.
fn raise(probability: f64, (factor, ceiling): (f64, f64)) -> f64 {
    probability.max((factor * probability).min(ceiling))
}
