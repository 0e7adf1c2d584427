//! A language model that writes: decoder-only transformers of the architectures `llama` and `qwen2`.
//!
//! A conversation's tokens are read together, with matrices of f32; every token after them is read by itself, with
//! products of whole numbers. Sums run in an order of their own whatever the number of threads, so the same tokens
//! give the same answer, bit for bit, on one machine.
//!
//! Source: Touvron et al. 2023, "LLaMA"; Yang et al. 2024, "Qwen2"; names and layout of the weights are GGUF's.

use std::fmt;
use std::sync::Arc;

use crate::error::ModelError;
use crate::gguf::Gguf;
use adapter::Attached;
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
/// Matrices are held in 8 bits, 32 numbers to a scale and an offset: exactly as in the file where that has at most
/// 8 bits and such scales, else rounded to the nearest.
#[derive(Clone)]
pub struct Decoder {
    parameters: Arc<Parameters>,
    adapters: Vec<Attached>,
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
    /// [`ModelError::Gguf`] when something is missing, misshapen or damaged; [`ModelError::Configuration`] for
    /// another kind of model, and for one with a tensor that this engine would not use.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let config = DecoderConfig::from_gguf(gguf)?;
        let parameters = Arc::new(Parameters::read(config, gguf)?);
        Ok(Self { parameters, adapters: Vec::new() })
    }

    /// How large it is.
    pub fn config(&self) -> &DecoderConfig {
        &self.parameters.config
    }

    /// Lets `adapter` change what the model computes, `scale` times as much as it was trained to.
    ///
    /// The weights stay as they are. One that is attached under `name` already is replaced.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] when it was made for a model of another shape, or `scale` is not finite.
    pub fn attach(
        &mut self,
        name: &str,
        adapter: Arc<LoraAdapter>,
        scale: f32,
    ) -> Result<(), ModelError> {
        let attached = Attached::new(name, adapter, scale, self.config())?;
        self.detach(name);
        self.adapters.push(attached);
        Ok(())
    }

    /// Takes the adapter `name` away; what the model computes is then, bit for bit, as if it had never been there.
    /// Says whether there was one.
    pub fn detach(&mut self, name: &str) -> bool {
        let before = self.adapters.len();
        self.adapters.retain(|attached| attached.name() != name);
        self.adapters.len() < before
    }

    /// The names of the attached adapters, in the order in which they apply.
    pub fn adapters(&self) -> impl Iterator<Item = &str> {
        self.adapters.iter().map(Attached::name)
    }

    /// What tells the results under these adapters from others, adapter by adapter.
    pub(crate) fn identities(&self) -> impl Iterator<Item = String> {
        self.adapters.iter().map(Attached::identity)
    }

    /// Begins a text.
    ///
    /// What was read under one set of adapters says nothing under another, so a reading borrows the model: no
    /// adapter comes or goes while it lasts.
    pub fn start(&self) -> DecoderContext<'_> {
        DecoderContext { decoder: self, cache: Cache::new(self.config()) }
    }
}

/// A text that a model is reading or writing, token by token. A clone goes on by itself from the same place.
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
    /// How many tokens were read.
    pub fn tokens(&self) -> usize {
        self.cache.tokens()
    }

    /// Reads on, and gives what the model expects next: `[vocabulary]` logits, natural logarithms up to a constant.
    ///
    /// Several tokens at once give the logits after the last, rounded otherwise than one at a time.
    ///
    /// # Errors
    /// [`ModelError::Tokens`] for no token, an unknown one, or more than the model's context holds.
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
