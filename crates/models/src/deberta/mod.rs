//! DeBERTa-v2 and v3 sequence classifiers from their published files.
//!
//! A longer text is split into overlapping windows; its score is the maximum over them.
//!
//! Source: He et al. 2021, "DeBERTa" and "DeBERTaV3"; the layout of weights and names is that of `transformers`.

use std::fmt;
use std::path::Path;

use rayon::prelude::*;

use crate::classifier::Classifier;
use crate::encoder::batch::Batch;
use crate::encoder::{group, read_file};
use crate::error::ModelError;
use crate::tokenizer::Tokenizer;
use crate::verdict::AttackScore;
use crate::weights::WeightFile;
use crate::windows::{WindowOptions, score_texts};
use distance::Distances;
use parameters::Parameters;

mod config;
mod distance;
mod forward;
mod parameters;

pub use config::DebertaConfig;

/// Windows of 512 tokens share this many.
const OVERLAP: usize = 64;

/// The maximum number of windows per text: about 14,000 tokens.
const MOST_WINDOWS: usize = 32;

/// A classifier of attacks and harmless texts, such as `protectai/deberta-v3-base-prompt-injection-v2`
/// and `deepset/deberta-v3-base-injection`.
pub struct DebertaClassifier {
    config: DebertaConfig,
    tokenizer: Tokenizer,
    parameters: Parameters,
    distances: Distances,
}

impl fmt::Debug for DebertaClassifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DebertaClassifier").field("config", &self.config).finish()
    }
}

impl DebertaClassifier {
    /// Opens a folder that holds `config.json`, `model.safetensors` and `tokenizer.json`.
    ///
    /// # Errors
    /// [`ModelError::Read`] if a file cannot be read; those of [`Tokenizer::from_bytes`] and [`Self::from_bytes`].
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        Self::from_bytes(
            &read_file(folder, "config.json")?,
            &read_file(folder, "model.safetensors")?,
            tokenizer,
        )
    }

    /// A classifier from the content of `config.json` and of a safetensors file.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] for another kind of model or labels without a clear attack label;
    /// [`ModelError::Weights`] if a tensor is missing, has a shape that contradicts the configuration, or is
    /// damaged; [`ModelError::Tokenizer`] if the tokenizer has ids that the model does not.
    pub fn from_bytes(
        config: &[u8],
        weights: &[u8],
        tokenizer: Tokenizer,
    ) -> Result<Self, ModelError> {
        let config = DebertaConfig::from_json(config)?;
        let (words, known) = (tokenizer.vocabulary_size(), config.vocabulary);
        if words > known {
            let detail = format!(
                "it knows {words} tokens, but the model {known}; they belong to different models"
            );
            return Err(ModelError::Tokenizer { detail });
        }
        let parameters = Parameters::read(&WeightFile::read(weights)?, &config)?;
        let distances = Distances::new(&config);
        Ok(Self { config, tokenizer, parameters, distances })
    }

    /// The configuration.
    pub fn config(&self) -> &DebertaConfig {
        &self.config
    }

    /// The probability that each text is an attack, from 0 to 1: `[texts]`.
    ///
    /// # Errors
    /// As [`Self::scores`].
    pub fn probabilities(&self, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
        Ok(self.scores(texts)?.into_iter().map(AttackScore::probability).collect())
    }

    /// The score of each text: `[texts]`.
    ///
    /// A text is split into at most 32 windows of at most 512 tokens that share 64; the highest score counts,
    /// and the result states whether the windows cover the whole text.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the vocabulary cannot encode a text; [`ModelError::Classifier`] if the
    /// result is not finite.
    pub fn scores(&self, texts: &[&str]) -> Result<Vec<AttackScore>, ModelError> {
        let max_tokens = self.config.max_tokens;
        let options =
            WindowOptions { max_tokens, overlap: OVERLAP.min(max_tokens / 4), limit: MOST_WINDOWS };
        score_texts(&self.tokenizer, texts, options, |windows| self.log_odds(windows))
    }

    /// The log-odds of every window.
    fn log_odds(&self, windows: &[&[u32]]) -> Result<Vec<f64>, ModelError> {
        let batches: Vec<Batch> =
            group(windows).into_iter().map(|texts| Batch::new(texts.iter().copied())).collect();
        let logits: Vec<Vec<f32>> = batches
            .par_iter()
            .map(|batch| forward::logits(&self.config, &self.parameters, &self.distances, batch))
            .collect::<Vec<_>>()
            .concat();
        logits.iter().map(|logits| self.config.labels.log_odds(logits)).collect()
    }
}

impl Classifier for DebertaClassifier {
    /// One head: whether the text is an attack.
    fn heads(&self) -> usize {
        1
    }

    fn logits(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(self.scores(texts)?.into_iter().map(|score| vec![score.logit()]).collect())
    }
}
