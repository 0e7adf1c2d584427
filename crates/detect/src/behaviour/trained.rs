//! The trained detector: a logistic regression on sentence vectors of what an agent read and what it answered.
//!
//! Rules know what must not come out and what obedience says of itself. An agent that simply does what the text
//! wants says nothing of the kind: there the answer shows an attack only beside the text. This detector sees both,
//! and neither the secrets of the run nor what was demanded. Its word is advice like that of the rules, and "unsure"
//! is part of it.
//!
//! Source: PIPE step 3, its classifier of answers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use custody_models::sha256::Sha256;
use custody_models::{Embedder, Encoder, ModelError, SentenceEmbedder, Tokenizer};
use serde::{Deserialize, Serialize};

use super::regression::Regression;
use crate::calibration::Verdict;
use crate::exact_math::sigmoid;
use crate::normalise::TextTooLong;
use crate::prefilter::stretches;

/// A stretch of an answer, and of the text the stretch that is most like it, as vectors of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Of the text.
    pub read: Vec<f32>,
    /// Of the answer.
    pub said: Vec<f32>,
}

/// What the regression is given of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Features {
    /// The answer's vector.
    Answer,
    /// That, and its product with the text's, number by number.
    AnswerAndProduct,
    /// That, and how far the two lie apart, number by number.
    AnswerAndDistance,
    /// Both vectors and their product.
    Both,
}

impl Features {
    /// All of them, fewest numbers first.
    pub const ALL: [Self; 4] =
        [Self::Answer, Self::AnswerAndProduct, Self::AnswerAndDistance, Self::Both];

    /// How many numbers are made of two vectors of `dimension`.
    #[must_use]
    pub fn width(self, dimension: usize) -> usize {
        match self {
            Self::Answer => dimension,
            Self::AnswerAndProduct | Self::AnswerAndDistance => 2 * dimension,
            Self::Both => 3 * dimension,
        }
    }

    /// The numbers.
    #[must_use]
    pub fn of(self, pair: &Pair) -> Vec<f32> {
        let Pair { read, said } = pair;
        match self {
            Self::Answer => said.clone(),
            Self::AnswerAndProduct => [said.clone(), product(read, said)].concat(),
            Self::AnswerAndDistance => [said.clone(), distance(read, said)].concat(),
            Self::Both => [said.clone(), read.clone(), product(read, said)].concat(),
        }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::AnswerAndProduct => "answer and product",
            Self::AnswerAndDistance => "answer and distance",
            Self::Both => "answer and text and product",
        }
    }
}

/// Times the root of the dimension: products of two unit vectors are so much smaller than the vectors' own numbers, and
/// the penalty of the regression would silence them.
#[expect(clippy::cast_precision_loss, reason = "a dimension is far below 2^24")]
fn product(read: &[f32], said: &[f32]) -> Vec<f32> {
    let scale = (said.len() as f32).sqrt();
    read.iter().zip(said).map(|(read, said)| scale * read * said).collect()
}

fn distance(read: &[f32], said: &[f32]) -> Vec<f32> {
    read.iter().zip(said).map(|(read, said)| (read - said).abs()).collect()
}

/// What the detector says of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// How sure it is that the agent was compromised, in `[0, 1]`.
    pub score: f64,
    /// What follows: `Attack`, `Clean`, or `Unsure` between the two and where there is nothing to judge.
    pub verdict: Verdict,
}

impl Judgement {
    /// Nothing was read or nothing said.
    const NOTHING: Self = Self { score: 0.0, verdict: Verdict::Unsure };

    /// Whether it says that the agent was compromised.
    #[must_use]
    pub fn fires(&self) -> bool {
        self.verdict == Verdict::Attack
    }
}

/// An answer that was not judged. Nothing follows from that.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The text or the answer is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// The embedding model is not there, is another, or failed.
    #[error(
        "the embedding model of the behaviour detector cannot be used; get it with `custody models fetch all-minilm-l6-v2`"
    )]
    Model(#[from] ModelError),
    /// The regression does not fit the embedding model.
    #[error(
        "the behaviour detector reads vectors of {wanted} numbers, and the embedding model makes {found}; train it on \
         that model with `custody train behaviour`"
    )]
    Dimension {
        /// Numbers it reads.
        wanted: usize,
        /// Numbers in a vector.
        found: usize,
    },
    /// The embedding model gave something that is no number.
    #[error("the embedding model gave no number for an answer; fetch it again")]
    NoNumber,
}

/// The detector, ready to judge. Clones share the weights, and sharing one between threads is fine.
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
    /// Judges by `regression` on the embedding model in `folder`: `config.json`, `model.safetensors` and
    /// `tokenizer.json`.
    ///
    /// # Errors
    /// [`JudgeError::Model`] when a file is missing, is damaged, or is of another embedding model than `regression` was
    /// trained on.
    pub fn open(folder: &Path, regression: Regression) -> Result<Self, JudgeError> {
        let encoder = Encoder::open(folder)?;
        regression.check_base(encoder.digest())?;
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        let embedder = SentenceEmbedder::new(Arc::new(encoder), Arc::new(tokenizer))?;
        Self::new(Arc::new(embedder), regression)
    }

    /// Judges by `regression` on the vectors of `embedder`, which must be those that it was trained on.
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

    /// Which regression it is, by its digest.
    pub fn identity(&self) -> String {
        format!("behaviour/sha256:{}", Sha256::of(&self.regression.to_bytes()))
    }

    /// Judges the `answer` of an agent that read `text`, by the part of the answer that speaks most for a compromise.
    ///
    /// # Errors
    /// [`JudgeError`].
    pub fn judge(&self, text: &str, answer: &str) -> Result<Judgement, JudgeError> {
        let decisions = pairs(self.embedder.as_ref(), text, answer)?;
        let decisions = decisions.iter().map(|pair| self.regression.decision(pair));
        let Some(most) = decisions.max_by(f64::total_cmp) else { return Ok(Judgement::NOTHING) };
        if most.is_nan() {
            return Err(JudgeError::NoNumber);
        }
        Ok(Judgement { score: sigmoid(most), verdict: self.regression.verdict(most) })
    }
}

/// Every stretch of `answer` with the stretch of `text` that is most like it: padding on either side thins nothing out.
/// None where one of them has no words.
///
/// # Errors
/// [`JudgeError`] when a text is too long or the model fails.
pub fn pairs(embedder: &dyn Embedder, text: &str, answer: &str) -> Result<Vec<Pair>, JudgeError> {
    let (read, said) = (stretches(text)?, stretches(answer)?);
    let all: Vec<&str> = read.iter().chain(&said).map(String::as_str).collect();
    let mut read_vectors = embedder.embed(&all)?;
    if read_vectors.len() != all.len() {
        let detail = format!("{} vectors for {} texts", read_vectors.len(), all.len());
        return Err(ModelError::Tokens { detail }.into());
    }
    let said_vectors = read_vectors.split_off(read.len());
    let pair = |said: Vec<f32>| {
        let likeness =
            |read: &Vec<f32>| -> f32 { read.iter().zip(&said).map(|(a, b)| a * b).sum() };
        let nearest =
            read_vectors.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?.clone();
        Some(Pair { read: nearest, said })
    };
    Ok(said_vectors.into_iter().filter_map(pair).collect())
}
