//! A BERT encoder: its weights, its forward pass, and sentence embeddings.
//!
//! Texts are packed without padding and run on all threads. A text's vector does not
//! depend on the other texts, except for rounding.
//!
//! Source: Devlin et al. 2019, "BERT"; the layout of weights and names is that of `transformers`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::error::ModelError;
use crate::weights::WeightFile;
use batch::Batch;
use forward::Layer;

pub(crate) mod batch;
pub(crate) mod config;
mod embedder;
pub(crate) mod forward;
pub(crate) mod parameters;

pub use config::EncoderConfig;
pub use embedder::{Embedder, SentenceEmbedder};
pub(crate) use embedder::{encode_all, fit_together};

/// Texts are run in groups of about this many tokens: enough to keep the multiplications busy, few
/// enough that a layer's results stay in the cache.
const GROUP_TOKENS: usize = 512;

/// An encoder with its weights in memory. Encoders share equal parts.
#[derive(Clone)]
pub struct Encoder {
    pub(crate) config: EncoderConfig,
    pub(crate) digest: String,
    pub(crate) embeddings: Arc<Vec<f32>>,
    pub(crate) layers: Vec<Arc<Layer>>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Encoder")
            .field("config", &self.config)
            .field("digest", &self.digest)
            .finish()
    }
}

impl Encoder {
    /// Opens a folder that holds `config.json` and `model.safetensors`.
    ///
    /// # Errors
    /// [`ModelError::Read`] if a file cannot be read; those of [`Self::from_bytes`].
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        Self::from_bytes(
            &read_file(folder, "config.json")?,
            &read_file(folder, "model.safetensors")?,
        )
    }

    /// An encoder from the content of `config.json` and of a safetensors file.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] for another kind of model; [`ModelError::Weights`] if a tensor is
    /// missing, has a shape that contradicts the configuration, or is damaged.
    pub fn from_bytes(config: &[u8], weights: &[u8]) -> Result<Self, ModelError> {
        let config = EncoderConfig::from_json(config)?;
        let digest = format!("{:x}", Hex(&Sha256::digest(weights)));
        let weights = WeightFile::read(weights)?;
        let embeddings = parameters::read_block(&weights, &parameters::embedding_fields(&config))?;
        let layers = (0..config.layers)
            .map(|index| {
                let block =
                    parameters::read_block(&weights, &parameters::layer_fields(&config, index))?;
                Ok(Arc::new(Layer::new(&config, block)))
            })
            .collect::<Result<_, ModelError>>()?;
        Ok(Self { config, digest, embeddings: Arc::new(embeddings), layers })
    }

    /// The configuration.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// The SHA-256 digest of the weight file, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The mean of the token vectors of each text: `[texts][width]`, not normalised.
    ///
    /// # Errors
    /// [`ModelError::Tokens`] if a text has no tokens, too many, or an unknown one.
    pub fn mean_vectors(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        for ids in texts {
            batch::check(&self.config, ids)?;
        }
        let groups: Vec<Batch> =
            group(texts).into_iter().map(|texts| Batch::new(texts.iter().copied())).collect();
        Ok(groups.par_iter().map(|batch| self.pooled(batch)).collect::<Vec<_>>().concat())
    }

    fn pooled(&self, batch: &Batch) -> Vec<Vec<f32>> {
        let mut hidden = forward::embed(&self.config, &self.embeddings, batch);
        forward::run(&self.config, self.layers.iter().map(Arc::as_ref), &mut hidden, batch);
        forward::mean_pool(&self.config, &hidden, batch)
    }
}

pub(crate) fn read_file(folder: &Path, name: &str) -> Result<Vec<u8>, ModelError> {
    let path = folder.join(name);
    std::fs::read(&path).map_err(|cause| ModelError::Read { path, cause })
}

/// Splits texts into consecutive groups of about [`GROUP_TOKENS`].
pub(crate) fn group<'t, 'i>(texts: &'t [&'i [u32]]) -> Vec<&'t [&'i [u32]]> {
    let mut groups = Vec::new();
    let (mut first, mut tokens) = (0, 0);
    for (index, ids) in texts.iter().enumerate() {
        if index > first && tokens + ids.len() > GROUP_TOKENS {
            groups.push(&texts[first..index]);
            (first, tokens) = (index, 0);
        }
        tokens += ids.len();
    }
    if first < texts.len() {
        groups.push(&texts[first..]);
    }
    groups
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::LowerHex for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
