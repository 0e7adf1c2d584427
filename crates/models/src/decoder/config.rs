//! The shape of a decoder, from the metadata of its file.

use crate::error::ModelError;
use crate::gguf::{Gguf, GgufError, optional};

/// The architectures that this engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Heads are rotated by neighbouring pairs; no biases.
    Llama,
    /// Heads are rotated by halves; query, key and value have biases.
    Qwen2,
}

impl Architecture {
    /// Its name in GGUF.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
        }
    }
}

/// The dimensions of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// The architecture.
    pub architecture: Architecture,
    /// The size of the vocabulary.
    pub vocabulary: usize,
    /// The maximum number of tokens of a text.
    pub context: usize,
    /// Numbers per token; a multiple of 32.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads per layer.
    pub heads: usize,
    /// Key-value heads per layer; each is shared by `heads / shared_heads` query heads.
    pub shared_heads: usize,
    /// Numbers per token and head.
    pub head_width: usize,
    /// The first numbers of a head that are rotated.
    pub rotated: usize,
    /// Numbers per token inside the feed-forward part; a multiple of 32.
    pub inner: usize,
    /// Added to the mean square before its root is taken.
    pub norm_epsilon: f32,
    /// The longest period of a rotation, over 2π, in tokens.
    pub frequency_base: f64,
}

/// Reads the sizes of one architecture from the metadata.
struct Sizes<'g, 'f> {
    gguf: &'g Gguf<'f>,
    architecture: &'f str,
}

impl Sizes<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn get(&self, name: &str) -> Result<usize, GgufError> {
        self.gguf.unsigned(&self.key(name)).and_then(|size| to_size(size, name))
    }

    fn get_or(&self, name: &str, default: usize) -> Result<usize, GgufError> {
        Ok(optional(self.get(name))?.unwrap_or(default))
    }
}

impl DecoderConfig {
    /// Reads the metadata of a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Gguf`] if a field is missing; [`ModelError::Configuration`] unless it describes a
    /// supported decoder
    /// of valid sizes.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let name = gguf.text("general.architecture")?;
        let architecture = match name {
            "llama" => Architecture::Llama,
            "qwen2" => Architecture::Qwen2,
            _ => {
                return Err(refuse(format!(
                    "the architecture `{name}` is not supported; use `llama` or `qwen2`"
                )));
            }
        };
        refuse_variants(gguf, name)?;
        let sizes = Sizes { gguf, architecture: name };
        let (width, heads) = (sizes.get("embedding_length")?, sizes.get("attention.head_count")?);
        let head_width = sizes.get_or("attention.key_length", width / heads.max(1))?;
        if sizes.get_or("attention.value_length", head_width)? != head_width {
            return Err(refuse("keys and values of different widths are not supported".to_owned()));
        }
        let base = optional(gguf.float(&sizes.key("rope.freq_base")))?;
        #[expect(clippy::cast_possible_truncation, reason = "the file holds an f32")]
        let norm_epsilon = gguf.float(&sizes.key("attention.layer_norm_rms_epsilon"))? as f32;
        let config = Self {
            architecture,
            vocabulary: gguf.texts("tokenizer.ggml.tokens")?.len(),
            context: sizes.get("context_length")?,
            width,
            layers: sizes.get("block_count")?,
            heads,
            shared_heads: sizes.get_or("attention.head_count_kv", heads)?,
            head_width,
            rotated: sizes.get_or("rope.dimension_count", head_width)?,
            inner: sizes.get("feed_forward_length")?,
            norm_epsilon,
            frequency_base: base.unwrap_or(10_000.0),
        };
        config.check()?;
        Ok(config)
    }

    /// Query numbers per token, over all heads.
    pub(crate) fn query_width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Key numbers per token, over all shared heads.
    pub(crate) fn key_width(&self) -> usize {
        self.shared_heads * self.head_width
    }

    /// Checks bounds that keep every later product of sizes far from overflow.
    fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("the vocabulary", self.vocabulary, 1 << 20),
            ("context_length", self.context, 1 << 20),
            ("embedding_length", self.width, 1 << 14),
            ("block_count", self.layers, 1 << 8),
            ("attention.head_count", self.heads, 1 << 8),
            ("attention.head_count_kv", self.shared_heads, 1 << 8),
            ("attention.key_length", self.head_width, 1 << 10),
            ("rope.dimension_count", self.rotated, self.head_width),
            ("feed_forward_length", self.inner, 1 << 17),
        ];
        for (what, size, largest) in sizes {
            if size == 0 || size > largest {
                return Err(refuse(format!(
                    "`{what}` is {size}; it must be between 1 and {largest}"
                )));
            }
        }
        let divided = [
            ("embedding_length", self.width, 32),
            ("feed_forward_length", self.inner, 32),
            ("the width of all heads", self.query_width(), 32),
            ("attention.head_count", self.heads, self.shared_heads),
            ("rope.dimension_count", self.rotated, 2),
        ];
        for (what, size, divisor) in divided {
            if !size.is_multiple_of(divisor) {
                return Err(refuse(format!("`{what}` is {size}, which {divisor} does not divide")));
            }
        }
        let numbers = [
            ("attention.layer_norm_rms_epsilon", f64::from(self.norm_epsilon)),
            ("rope.freq_base", self.frequency_base),
        ];
        match numbers.iter().find(|(_, number)| !(number.is_finite() && *number > 0.0)) {
            Some((what, number)) => Err(refuse(format!("`{what}` is {number}"))),
            None => Ok(()),
        }
    }
}

/// Rejects variants of these architectures that this engine does not support.
fn refuse_variants(gguf: &Gguf<'_>, name: &str) -> Result<(), ModelError> {
    if optional(gguf.unsigned(&format!("{name}.expert_count")))?.is_some_and(|count| count > 0) {
        return Err(refuse("a mixture of experts is not supported".to_owned()));
    }
    let scaling = optional(gguf.text(&format!("{name}.rope.scaling.type")))?;
    if let Some(scaling) = scaling.filter(|scaling| *scaling != "none") {
        return Err(refuse(format!("rotations scaled by `{scaling}` are not supported")));
    }
    for rest in ["rope.scale_linear", "attention.sliding_window", "logit_scale"] {
        if gguf.metadata().contains_key(format!("{name}.{rest}").as_str()) {
            return Err(refuse(format!("`{rest}` is not supported")));
        }
    }
    Ok(())
}

fn to_size(size: u64, key: &str) -> Result<usize, GgufError> {
    usize::try_from(size).map_err(|_| GgufError::kind(key, "a size", "beyond any memory"))
}

pub(crate) fn refuse(detail: String) -> ModelError {
    ModelError::Configuration { detail }
}
