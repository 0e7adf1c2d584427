//! Decoder-only transformers of the architectures `llama` and `qwen2`.
//!
//! Prompt tokens are processed together, with f32 matrices; every later token is processed alone, with
//! integer products. The order of sums does not depend on the number of threads, so the same tokens
//! give the same answer, bit for bit, on one machine.
//!
//! Source: Touvron et al. 2023, "LLaMA"; Yang et al. 2024, "Qwen2"; names and layout of the weights are GGUF's.

use std::fmt;
use std::sync::Arc;

use crate::error::ModelError;
use crate::gguf::Gguf;
use adapter::AttachedAdapter;
use attention::Cache;
use layer::Parameters;

pub(crate) mod adapter;
mod attention;
mod config;
mod dot;
mod forward;
mod layer;
mod linear;
mod matrix;
mod rotation;
mod vocabulary;

pub use adapter::LoraAdapter;
pub use config::{Architecture, DecoderConfig};
pub use vocabulary::{Token, TokenVocabulary};

/// A language model with its weights in memory. Clones share the weights, and each has its own adapters.
///
/// Matrices have 8 bits per number and a scale and an offset per 32: exact if the file has at most
/// 8 bits and such scales, else rounded to the nearest.
#[derive(Clone)]
pub struct Decoder {
    parameters: Arc<Parameters>,
    adapters: Vec<AttachedAdapter>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.adapters().collect();
        formatter
            .debug_struct("Decoder")
            .field("config", self.config())
            .field("adapters", &names)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// The model in a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Gguf`] if a part is missing, has a wrong shape or is damaged; [`ModelError::Configuration`] for
    /// another kind of model or an unsupported tensor.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let config = DecoderConfig::from_gguf(gguf)?;
        let parameters = Arc::new(Parameters::read(config, gguf)?);
        Ok(Self { parameters, adapters: Vec::new() })
    }

    /// The configuration.
    pub fn config(&self) -> &DecoderConfig {
        &self.parameters.config
    }

    /// Attaches `adapter` with the strength `scale`; 1 is the strength it was trained with.
    ///
    /// The weights do not change. An attached adapter of the same name is replaced.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] if it does not fit the model's shapes, or `scale` is not finite.
    pub fn attach(
        &mut self,
        name: &str,
        adapter: Arc<LoraAdapter>,
        scale: f32,
    ) -> Result<(), ModelError> {
        let attached = AttachedAdapter::new(name, adapter, scale, self.config())?;
        self.detach(name);
        self.adapters.push(attached);
        Ok(())
    }

    /// Detaches the adapter `name`; results are then bit for bit the same as before it was attached.
    /// Returns whether it was attached.
    pub fn detach(&mut self, name: &str) -> bool {
        let before = self.adapters.len();
        self.adapters.retain(|attached| attached.name() != name);
        self.adapters.len() < before
    }

    /// The names of the attached adapters, in the order in which they apply.
    pub fn adapters(&self) -> impl Iterator<Item = &str> {
        self.adapters.iter().map(AttachedAdapter::name)
    }

    /// The identities of the attached adapters.
    pub(crate) fn identities(&self) -> impl Iterator<Item = String> {
        self.adapters.iter().map(AttachedAdapter::identity)
    }

    /// Starts a text.
    ///
    /// The cache is valid only for one set of adapters, so the context borrows the model: no
    /// adapter can be attached or detached during its lifetime.
    pub fn start(&self) -> DecoderContext<'_> {
        DecoderContext { decoder: self, cache: Cache::new(self.config()) }
    }
}

/// The inference state of one text. A clone continues independently from the same position.
#[derive(Clone)]
pub struct DecoderContext<'a> {
    decoder: &'a Decoder,
    cache: Cache,
}

impl fmt::Debug for DecoderContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DecoderContext")
            .field("tokens", &self.tokens())
            .finish_non_exhaustive()
    }
}

impl DecoderContext<'_> {
    /// The number of processed tokens.
    pub fn tokens(&self) -> usize {
        self.cache.tokens()
    }

    /// Processes tokens and returns the `[vocabulary]` logits of the next one.
    ///
    /// Several tokens at once give the logits after the last; rounding differs from one token at a time.
    ///
    /// # Errors
    /// [`ModelError::Tokens`] for no tokens, an unknown one, or more than the context length.
    pub fn read(&mut self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        let Decoder { parameters, adapters } = self.decoder;
        check(&parameters.config, self.tokens(), ids)?;
        Ok(forward::run(parameters, adapters, &mut self.cache, ids))
    }
}

fn check(config: &DecoderConfig, before: usize, ids: &[u32]) -> Result<(), ModelError> {
    let all = before.saturating_add(ids.len());
    let detail = if ids.is_empty() {
        "a text needs at least one token".to_owned()
    } else if all > config.context {
        format!("{all} tokens, but the limit of the model is {}", config.context)
    } else if let Some(id) = outside(ids, config.vocabulary) {
        format!("id {id} is outside the vocabulary of {}", config.vocabulary)
    } else {
        return Ok(());
    };
    Err(ModelError::Tokens { detail })
}

/// The first id that a vocabulary of `size` does not have.
fn outside(ids: &[u32], size: usize) -> Option<u32> {
    ids.iter().copied().find(|id| usize::try_from(*id).is_ok_and(|id| id >= size))
}
