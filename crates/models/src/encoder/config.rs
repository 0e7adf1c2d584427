//! The shape of a BERT encoder, from its published configuration.

use serde::Deserialize;

use crate::error::ModelError;

/// The dimensions of an encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    /// The size of the vocabulary.
    pub vocabulary: usize,
    /// The maximum number of tokens of a text.
    pub positions: usize,
    /// The number of segment types; single texts use the first.
    pub kinds: usize,
    /// Numbers per token.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads per layer; divides `width`.
    pub heads: usize,
    /// Numbers per token inside the feed-forward part.
    pub inner: usize,
    /// Added to variances.
    pub norm_epsilon: f32,
}

/// The relevant fields of a `config.json`.
#[derive(Deserialize)]
struct ConfigJson {
    model_type: String,
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    layer_norm_eps: f32,
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl EncoderConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] unless it describes a BERT encoder of sizes that make sense.
    pub fn from_json(json: &[u8]) -> Result<Self, ModelError> {
        let published: ConfigJson =
            serde_json::from_slice(json).map_err(|cause| refuse(cause.to_string()))?;
        let fixed = [
            ("model_type", &published.model_type, "bert"),
            ("hidden_act", &published.hidden_act, "gelu"),
            ("position_embedding_type", &published.position_embedding_type, "absolute"),
        ];
        for (field, found, known) in fixed {
            if found != known {
                return Err(refuse(format!(
                    "`{field}` is `{found}`, but this engine knows `{known}` only"
                )));
            }
        }
        let config = Self {
            vocabulary: published.vocab_size,
            positions: published.max_position_embeddings,
            kinds: published.type_vocab_size,
            width: published.hidden_size,
            layers: published.num_hidden_layers,
            heads: published.num_attention_heads,
            inner: published.intermediate_size,
            norm_epsilon: published.layer_norm_eps,
        };
        config.check()?;
        Ok(config)
    }

    /// Numbers per token and attention head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// Checks bounds that keep every later product of sizes far from overflow.
    fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("vocab_size", self.vocabulary, 1 << 20),
            ("max_position_embeddings", self.positions, 1 << 16),
            ("type_vocab_size", self.kinds, 16),
            ("hidden_size", self.width, 1 << 14),
            ("num_hidden_layers", self.layers, 1 << 8),
            ("num_attention_heads", self.heads, 1 << 8),
            ("intermediate_size", self.inner, 1 << 16),
        ];
        for (field, size, largest) in sizes {
            if size == 0 || size > largest {
                return Err(refuse(format!(
                    "`{field}` is {size}; it must be between 1 and {largest}"
                )));
            }
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(refuse(format!(
                "{} heads do not divide a width of {}",
                self.heads, self.width
            )));
        }
        if !(self.norm_epsilon.is_finite() && self.norm_epsilon > 0.0) {
            return Err(refuse(format!("`layer_norm_eps` is {}", self.norm_epsilon)));
        }
        Ok(())
    }
}

fn refuse(detail: String) -> ModelError {
    ModelError::Configuration { detail }
}
