//! The trained detector: a logistic regression on sentence vectors of the text an agent read and of its answer.
//!
//! Rules detect leaked secrets and phrases typical of compromised models. An agent that silently does what the text
//! demands shows neither; its answer reveals the attack only when compared with the text. This detector sees both, and
//! neither the secrets of the run nor the attacker's goal. Its result is advice, and may be "unsure".
//!
//! Source: PIPE step 3, its classifier of answers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use custody_models::sha256::Sha256;
use custody_models::{Embedder, Encoder, ModelError, SentenceEmbedder, Tokenizer};

use super::features::AnswerPair;
use super::regression::Regression;
use crate::calibration::Classification;
use crate::exact_math::sigmoid;
use crate::ngram_stage::chunks_to_embed;
use crate::normalise::TextTooLong;

/// The detector's result for an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The probability that the agent was compromised, in `[0, 1]`.
    pub score: f64,
    /// `Unsure` between the thresholds, and where the text or the answer has no words.
    pub classification: Classification,
}

impl Judgement {
    /// The result where the text or the answer has no words.
    const NO_WORDS: Self = Self { score: 0.0, classification: Classification::Unsure };

    /// Whether the agent is classified as compromised.
    #[must_use]
    pub fn is_attack(&self) -> bool {
        self.classification == Classification::Attack
    }
}

/// Why an answer was not judged. It is no evidence either way.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The text or the answer is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// The embedding model is missing, is another one than the regression was trained on, or failed.
    #[error(
        "the embedding model of the behaviour detector cannot be used; get it with `custody models fetch all-minilm-l6-v2`"
    )]
    Model(#[from] ModelError),
    /// The regression and the embedding model have different dimensions.
    #[error(
        "the behaviour detector needs vectors of {wanted} numbers, but the embedding model returns {found}; train it on \
         that model with `custody train behaviour`"
    )]
    Dimension {
        /// The dimension of the regression.
        wanted: usize,
        /// The dimension of the embedding model.
        found: usize,
    },
    /// The embedding model returned a value that is not a number.
    #[error("the embedding model returned NaN for an answer; its weights are damaged")]
    NotANumber,
}

/// The detector with its models in memory. Clones share the weights; one can be shared between threads.
#[derive(Clone)]
pub struct BehaviourModel {
    embedder: Arc<dyn Embedder>,
    regression: Arc<Regression>,
}

impl fmt::Debug for BehaviourModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features = self.regression.features();
        formatter
            .debug_struct("BehaviourModel")
            .field("features", &features)
            .finish_non_exhaustive()
    }
}

impl BehaviourModel {
    /// A detector of `regression` and the embedding model in `folder`: `config.json`, `model.safetensors` and
    /// `tokenizer.json`.
    ///
    /// # Errors
    /// [`JudgeError::Model`] when a file is missing or damaged, or belongs to another embedding model than `regression`
    /// was trained on.
    pub fn open(folder: &Path, regression: Regression) -> Result<Self, JudgeError> {
        let encoder = Encoder::open(folder)?;
        regression.check_base(encoder.digest())?;
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        let embedder = SentenceEmbedder::new(Arc::new(encoder), Arc::new(tokenizer))?;
        Self::new(Arc::new(embedder), regression)
    }

    /// A detector of `regression` and `embedder`, which must be the one that `regression` was trained on.
    ///
    /// # Errors
    /// [`JudgeError::Dimension`].
    pub fn new(embedder: Arc<dyn Embedder>, regression: Regression) -> Result<Self, JudgeError> {
        let (wanted, found) = (regression.dimension(), embedder.dimension());
        if wanted != found {
            return Err(JudgeError::Dimension { wanted, found });
        }
        Ok(Self { embedder, regression: Arc::new(regression) })
    }

    /// Identifies the regression by its digest.
    pub fn identity(&self) -> String {
        format!("behaviour/sha256:{}", Sha256::of(&self.regression.to_bytes()))
    }

    /// Judges the `answer` of an agent that read `text`, by the chunk of the answer with the highest decision value.
    ///
    /// # Errors
    /// [`JudgeError`].
    pub fn judge(&self, text: &str, answer: &str) -> Result<Judgement, JudgeError> {
        let pairs = pairs(self.embedder.as_ref(), text, answer)?;
        let decisions = pairs.iter().map(|pair| self.regression.decision(pair));
        let Some(highest) = decisions.max_by(f64::total_cmp) else {
            return Ok(Judgement::NO_WORDS);
        };
        if highest.is_nan() {
            return Err(JudgeError::NotANumber);
        }
        let classification = self.regression.classify(highest);
        Ok(Judgement { score: sigmoid(highest), classification })
    }
}

/// Every chunk of `answer` with the chunk of `text` most similar to it, so that padding on either side dilutes nothing.
/// Empty if one of them has no words.
///
/// # Errors
/// [`JudgeError`] when a text is too long or the model fails.
pub fn pairs(
    embedder: &dyn Embedder,
    text: &str,
    answer: &str,
) -> Result<Vec<AnswerPair>, JudgeError> {
    let (text_chunks, answer_chunks) = (chunks_to_embed(text)?, chunks_to_embed(answer)?);
    let all: Vec<&str> = text_chunks.iter().chain(&answer_chunks).map(String::as_str).collect();
    let mut text_vectors = embedder.embed(&all)?;
    if text_vectors.len() != all.len() {
        let detail = format!("{} vectors for {} texts", text_vectors.len(), all.len());
        return Err(ModelError::Tokens { detail }.into());
    }
    let answer_vectors = text_vectors.split_off(text_chunks.len());
    Ok(answer_vectors
        .into_iter()
        .filter_map(|answer| {
            let text = nearest(&text_vectors, &answer)?.clone();
            Some(AnswerPair { text, answer })
        })
        .collect())
}

/// The last of the vectors with the highest dot product with `vector`.
fn nearest<'v>(vectors: &'v [Vec<f32>], vector: &[f32]) -> Option<&'v Vec<f32>> {
    vectors.iter().max_by(|a, b| dot(a, vector).total_cmp(&dot(b, vector)))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
