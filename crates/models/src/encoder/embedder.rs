//! Sentence embeddings: unit vectors of texts.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use crate::encoder::Encoder;
use crate::error::ModelError;
use crate::tokenizer::Tokenizer;

/// The token limit of an embedded text, including the frame; the rest is not read.
const MAX_TOKENS: usize = 256;

/// Embeds texts as vectors whose inner product is their similarity.
pub trait Embedder: Send + Sync {
    /// Numbers per vector.
    fn dimension(&self) -> usize;

    /// One vector of length 1 per text: `[texts][dimension]`.
    ///
    /// # Errors
    /// [`ModelError`] if a text cannot be tokenised.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError>;
}

/// Mean-pooled, normalised vectors of a BERT encoder, as all-MiniLM-L6-v2 makes them.
///
/// Source: Reimers and Gurevych 2019, "Sentence-BERT", mean strategy.
#[derive(Debug, Clone)]
pub struct SentenceEmbedder {
    encoder: Arc<Encoder>,
    tokenizer: Arc<Tokenizer>,
}

impl SentenceEmbedder {
    /// Creates an embedder from an encoder and its tokenizer.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer has ids that the encoder does not.
    pub fn new(encoder: Arc<Encoder>, tokenizer: Arc<Tokenizer>) -> Result<Self, ModelError> {
        fit_together(&encoder, &tokenizer)?;
        Ok(Self { encoder, tokenizer })
    }

    /// Opens a folder that holds `config.json`, `model.safetensors` and `tokenizer.json`.
    ///
    /// # Errors
    /// Those of [`Encoder::open`], [`Tokenizer::open`] and [`Self::new`].
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
        Self::new(Arc::new(Encoder::open(folder)?), Arc::new(tokenizer))
    }
}

impl Embedder for SentenceEmbedder {
    fn dimension(&self) -> usize {
        self.encoder.config().width
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let limit = MAX_TOKENS.min(self.encoder.config().positions);
        let ids = encode_all(&self.tokenizer, texts, limit)?;
        let mut vectors =
            self.encoder.mean_vectors(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        for vector in &mut vectors {
            // The minimum divisor, so that a zero vector stays zero.
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt().max(1e-12);
            vector.iter_mut().for_each(|number| *number /= length);
        }
        Ok(vectors)
    }
}

/// Checks that every id of the tokenizer has an embedding.
pub(crate) fn fit_together(encoder: &Encoder, tokenizer: &Tokenizer) -> Result<(), ModelError> {
    let (words, known) = (tokenizer.vocabulary_size(), encoder.config().vocabulary);
    if words <= known {
        return Ok(());
    }
    let detail =
        format!("it knows {words} tokens, but the model {known}; they belong to different models");
    Err(ModelError::Tokenizer { detail })
}

/// The framed ids of every text, at most `limit` each.
pub(crate) fn encode_all(
    tokenizer: &Tokenizer,
    texts: &[&str],
    limit: usize,
) -> Result<Vec<Vec<u32>>, ModelError> {
    texts.par_iter().map(|text| Ok(tokenizer.encode(text, limit)?.ids)).collect()
}
