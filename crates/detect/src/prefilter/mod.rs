//! PIPE's prefilter: rules, and a logistic regression on a sentence vector.
//!
//! The order and the arithmetic are the paper's where they are sound:
//!
//! 1. Strong rules: suspicious with a score of 0.95, and the model is not run.
//! 2. Else the model's probability `p`, of the most suspicious stretch of the text.
//! 3. The score: with a strong rule `max(p, 0.95)`, with a medium one `max(p, min(1.3·p, 0.85))`, with a weak
//!    one `max(p, min(1.15·p, 0.7))`, else `p`.
//! 4. Suspicious with a strong rule or from the threshold on. Above 0.85 a sandbox would only confirm it.
//!
//! It departs from the published code where that has holes (P1–P18). The text is normalised before
//! anything reads it (P5). What the text says of its own purpose is reported and changes nothing (P8). A weak
//! rule can fire, and lifts a score instead of setting it to 0.7, which lies above the threshold: any rule at
//! all would decide (P7, P13). A harmful topic is reported and decides nothing: it is no injection (P7). A
//! model that is not there or fails is an error, never an answer (P14). The whole text is read, not its first
//! 256 tokens.
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

use crate::behaviour::intents;
use crate::finding::{Finding, Severity, View};
use crate::normalise::{Normalised, TextTooLong, normalise};
use crate::rules::{Rules, Scan, THRESHOLD};
use crate::segments::pieces;

/// The score of a text in which a strong rule fired.
const STRONG: f32 = 0.95;
/// How far a medium rule lifts a probability, and to where at most.
const MEDIUM: (f64, f64) = (1.3, 0.85);
/// The same for a weak rule.
const WEAK: (f64, f64) = (1.15, 0.7);
/// The rules' own score from which they are medium; strong is where they decide alone.
const MEDIUM_FROM: f64 = 0.3;
/// Above this score the sandbox is skipped.
const SKIP_ABOVE: f64 = 0.85;
/// The most stretches of one text that are embedded, some 70 kB. Of a longer text the n-gram model of the
/// cascade chooses the most suspicious: padding pushes an attack out of no window.
const MAX_STRETCHES: usize = 64;
/// The family of what a text says about itself.
const REMARK: &str = "remark";

/// Which short cuts are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A strong rule answers without the model.
    pub fast_reject: bool,
    /// What is suspicious beyond doubt goes on to repair without a run in the sandbox. Nothing skips the
    /// verification after it.
    pub skip_sandbox: bool,
}

impl Default for Options {
    /// Both, as in the paper.
    fn default() -> Self {
        Self { fast_reject: true, skip_sandbox: true }
    }
}

/// What the prefilter says of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Whether the text goes to the sandbox instead of production.
    pub suspicious: bool,
    /// In `[0, 1]`.
    pub score: f64,
    /// Codes as in the paper: how the score came about, then `harmful_intent:TOPIC` for every harmful topic
    /// that is asked for, which changed nothing. Each ends in `_legitimate_context` where the text says that it
    /// is about security work or study, which changed nothing either.
    pub reasons: Vec<String>,
    /// Whether a run in the sandbox would only confirm it.
    pub skip_sandbox: bool,
    /// What was found, in the order of the text.
    pub findings: Vec<Finding>,
}

/// A text that was not judged. It is not clear for that.
#[derive(Debug, thiserror::Error)]
pub enum PrefilterError {
    /// It is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// The embedding model is not there, is another, or failed.
    #[error(
        "the prefilter's embedding model cannot be used; get it with `custody models fetch all-minilm-l6-v2`"
    )]
    Model(#[from] ModelError),
    /// The regression does not fit the embedding model.
    #[error(
        "the prefilter's regression reads vectors of {wanted} numbers, and the embedding model makes {found}; \
         train it on that model with `custody train embedding`"
    )]
    Dimension {
        /// Weights.
        wanted: usize,
        /// Numbers in a vector.
        found: usize,
    },
}

/// The prefilter, ready to run. Sharing one between threads is fine.
#[derive(Clone)]
pub struct Prefilter {
    embedder: Arc<dyn Embedder>,
    model: Arc<PrefilterModel>,
    options: Options,
}

impl fmt::Debug for Prefilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, options) = (&self.model, &self.options);
        formatter.debug_struct("Prefilter").field("model", model).field("options", options).finish()
    }
}

impl Prefilter {
    /// Judges by `model` on the embedding model in `folder`: `config.json`, `model.safetensors` and
    /// `tokenizer.json`.
    ///
    /// # Errors
    /// [`PrefilterError::Model`] when a file is missing, is damaged, or is of another embedding model than
    /// `model` was trained on.
    pub fn open(folder: &Path, model: PrefilterModel) -> Result<Self, PrefilterError> {
        let encoder = Encoder::open(folder)?;
        model.check_base(encoder.digest())?;
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        let embedder = SentenceEmbedder::new(Arc::new(encoder), Arc::new(tokenizer))?;
        Self::new(Arc::new(embedder), model)
    }

    /// Judges by `model` on the vectors of `embedder`, which must be those that it was trained on.
    ///
    /// # Errors
    /// [`PrefilterError::Dimension`].
    pub fn new(embedder: Arc<dyn Embedder>, model: PrefilterModel) -> Result<Self, PrefilterError> {
        let (wanted, found) = (model.dimension(), embedder.dimension());
        if wanted != found {
            return Err(PrefilterError::Dimension { wanted, found });
        }
        Ok(Self { embedder, model: Arc::new(model), options: Options::default() })
    }

    /// With other short cuts.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// The regression and its threshold.
    pub fn model(&self) -> &PrefilterModel {
        &self.model
    }

    /// Judges `text`.
    ///
    /// # Errors
    /// [`PrefilterError`].
    pub fn check(&self, text: &str) -> Result<Outcome, PrefilterError> {
        let scan = Rules::builtin().scan(text)?;
        let strength = Strength::of(&scan);
        let asks = strength != Strength::Strong || !self.options.fast_reject;
        let heard = if asks { self.most_suspicious(&normalise(text)?)? } else { None };
        let probability = heard.as_ref().map_or(0.0, |heard| heard.probability);
        let score = strength.score(probability);
        let suspicious = strength == Strength::Strong || score >= self.model.threshold();
        let asked_for = intents(text)?;
        let mut reasons = vec![strength.code(asks).to_owned()];
        let topics: BTreeSet<&str> = asked_for.iter().map(|found| found.family.as_str()).collect();
        reasons.extend(topics.into_iter().map(|topic| format!("harmful_intent:{topic}")));
        let mut findings = scan.findings;
        if findings.iter().any(|finding| finding.family == REMARK) {
            reasons.iter_mut().for_each(|reason| reason.push_str("_legitimate_context"));
        }
        findings.extend(asked_for);
        // Beside a strong rule the model decides nothing, so it has found nothing either.
        let decides = suspicious && strength != Strength::Strong;
        findings.extend(heard.filter(|_| decides).map(Heard::finding));
        findings.sort_by_key(|finding| (finding.span.start, finding.span.end));
        Ok(Outcome {
            suspicious,
            score,
            reasons,
            skip_sandbox: self.options.skip_sandbox && suspicious && score > SKIP_ABOVE,
            findings,
        })
    }

    /// The stretch that looks most like an attack; none in a text without words.
    fn most_suspicious(&self, text: &Normalised) -> Result<Option<Heard>, PrefilterError> {
        let stretches = chosen(text.text());
        let texts: Vec<&str> = stretches.iter().map(|range| &text.text()[range.clone()]).collect();
        let vectors = self.embedder.embed(&texts)?;
        if vectors.len() != texts.len() {
            let detail = format!("{} vectors for {} texts", vectors.len(), texts.len());
            return Err(ModelError::Tokens { detail }.into());
        }
        let heard = stretches.into_iter().zip(&vectors).map(|(range, vector)| Heard {
            probability: self.model.probability(vector),
            span: text.original(range),
        });
        Ok(heard.max_by(|a, b| a.probability.total_cmp(&b.probability)))
    }
}

/// What is embedded of `text`, in its order: stretches of the normalised text that the model reads whole, 64 at
/// most.
///
/// # Errors
/// [`TextTooLong`].
pub fn stretches(text: &str) -> Result<Vec<String>, TextTooLong> {
    let text = normalise(text)?;
    let text = text.text();
    Ok(chosen(text).into_iter().map(|range| text[range].to_owned()).collect())
}

fn chosen(text: &str) -> Vec<Range<usize>> {
    let mut stretches = pieces(text);
    if stretches.len() > MAX_STRETCHES {
        let ngrams = crate::weights::ngrams();
        let decision = |range: &Range<usize>| ngrams.models.prompts.decision(&text[range.clone()]);
        let mut ranked: Vec<(f64, Range<usize>)> =
            stretches.into_iter().map(|range| (decision(&range), range)).collect();
        ranked
            .sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.start.cmp(&second.start)));
        ranked.truncate(MAX_STRETCHES);
        stretches = ranked.into_iter().map(|(_, range)| range).collect();
        stretches.sort_by_key(|range| range.start);
    }
    stretches
}

/// What the model says of one stretch.
struct Heard {
    probability: f64,
    /// In the original.
    span: Range<usize>,
}

impl Heard {
    fn finding(self) -> Finding {
        Finding {
            rule: "prefilter.model".to_owned(),
            family: "model".to_owned(),
            severity: if self.probability >= 0.9 { Severity::High } else { Severity::Medium },
            confidence: self.probability,
            span: self.span,
            view: View::Plain,
            explanation: "reads like an attempt to change what the assistant does".to_owned(),
        }
    }
}

/// How much the rules say. By their own score, so that weak rules of several families add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strength {
    None,
    Weak,
    Medium,
    Strong,
}

impl Strength {
    fn of(scan: &Scan) -> Self {
        match scan.score {
            score if score >= THRESHOLD => Self::Strong,
            score if score >= MEDIUM_FROM => Self::Medium,
            score if score > 0.0 => Self::Weak,
            _ => Self::None,
        }
    }

    fn score(self, probability: f64) -> f64 {
        let lifted =
            |(factor, ceiling): (f64, f64)| probability.max((factor * probability).min(ceiling));
        match self {
            Self::Strong => probability.max(f64::from(STRONG)),
            Self::Medium => lifted(MEDIUM),
            Self::Weak => lifted(WEAK),
            Self::None => probability,
        }
    }

    /// The paper's code for how the score came about.
    fn code(self, model_was_asked: bool) -> &'static str {
        match self {
            Self::Strong if !model_was_asked => "strong_rule_fast_reject",
            Self::Strong => "strong_rule",
            Self::Medium => "medium_rule_boost",
            Self::Weak => "rule_boost",
            Self::None => "model",
        }
    }
}
