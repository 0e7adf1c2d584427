//! The shape of a DeBERTa classifier, from its published configuration.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::ModelError;
use crate::verdict::OutputLabels;

/// The maximum window length in tokens, including the frame; published checkpoints were trained on no longer ones.
const MOST_TOKENS: usize = 512;

/// The dimensions and the variant of a classifier.
#[derive(Debug, Clone, PartialEq)]
pub struct DebertaConfig {
    /// The size of the vocabulary.
    pub vocabulary: usize,
    /// The maximum window length in tokens, including the frame; at most 512.
    pub max_tokens: usize,
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
    /// The distance from which all distances are equal.
    pub max_distance: usize,
    /// The number of distance buckets on each side, logarithmic for far ones; `None` means one per distance.
    pub buckets: Option<usize>,
    /// Whether attention has the content-to-position term.
    pub has_content_to_position: bool,
    /// Whether attention has the position-to-content term.
    pub has_position_to_content: bool,
    /// Whether positions are projected by the matrices of the tokens.
    pub has_shared_projections: bool,
    /// Whether the table of relative positions is normalised before use.
    pub has_normed_positions: bool,
    /// The meaning of the outputs.
    pub labels: OutputLabels,
}

/// The relevant fields of a `config.json`; absent ones have the defaults of `transformers` 5.
#[derive(Deserialize)]
struct ConfigJson {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    id2label: BTreeMap<String, String>,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "gelu")]
    pooler_hidden_act: String,
    #[serde(default = "norm_epsilon")]
    layer_norm_eps: f32,
    #[serde(default)]
    relative_attention: bool,
    #[serde(default = "unset")]
    max_relative_positions: i64,
    #[serde(default = "unset")]
    position_buckets: i64,
    #[serde(default)]
    pos_att_type: Option<AttentionTypes>,
    #[serde(default)]
    share_att_key: bool,
    #[serde(default)]
    norm_rel_ebd: String,
    #[serde(default = "present")]
    position_biased_input: bool,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default)]
    conv_kernel_size: i64,
    embedding_size: Option<usize>,
    attention_head_size: Option<usize>,
    pooler_hidden_size: Option<usize>,
}

/// `["p2c", "c2p"]`, or `"p2c|c2p"` in older files.
#[derive(Deserialize)]
#[serde(untagged)]
enum AttentionTypes {
    Joined(String),
    List(Vec<String>),
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn norm_epsilon() -> f32 {
    1e-7
}

fn unset() -> i64 {
    -1
}

fn present() -> bool {
    true
}

impl DebertaConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] unless it describes a DeBERTa-v2 or v3 sequence classifier of sizes that
    /// make sense, whose attack label is clear.
    pub fn from_json(json: &[u8]) -> Result<Self, ModelError> {
        let published: ConfigJson =
            serde_json::from_slice(json).map_err(|cause| refuse(cause.to_string()))?;
        published.check_sizes()?;
        published.check_variant()?;
        let max_distance =
            positive(published.max_relative_positions).unwrap_or(published.max_position_embeddings);
        let buckets = positive(published.position_buckets);
        check_distances(max_distance, buckets)?;
        let (has_content_to_position, has_position_to_content) = published.attention_kinds()?;
        Ok(Self {
            vocabulary: published.vocab_size,
            max_tokens: published.max_position_embeddings.min(MOST_TOKENS),
            width: published.hidden_size,
            layers: published.num_hidden_layers,
            heads: published.num_attention_heads,
            inner: published.intermediate_size,
            norm_epsilon: published.layer_norm_eps,
            max_distance,
            buckets,
            has_content_to_position,
            has_position_to_content,
            has_shared_projections: published.share_att_key,
            has_normed_positions: published.norms_positions()?,
            labels: OutputLabels::from_names(&published.id2label)?,
        })
    }

    /// Numbers per token and attention head.
    pub(crate) fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// Half the rows of the table of relative positions.
    pub(crate) fn span(&self) -> usize {
        self.buckets.unwrap_or(self.max_distance)
    }
}

impl ConfigJson {
    /// Checks bounds that keep every later product of sizes far from overflow.
    fn check_sizes(&self) -> Result<(), ModelError> {
        let sizes = [
            ("vocab_size", self.vocab_size, 1, 1 << 20),
            ("hidden_size", self.hidden_size, 1, 1 << 14),
            ("num_hidden_layers", self.num_hidden_layers, 1, 1 << 8),
            ("num_attention_heads", self.num_attention_heads, 1, 1 << 8),
            ("intermediate_size", self.intermediate_size, 1, 1 << 16),
            // Two tokens are the frame.
            ("max_position_embeddings", self.max_position_embeddings, 3, 1 << 16),
        ];
        for (field, size, smallest, largest) in sizes {
            if !(smallest..=largest).contains(&size) {
                return Err(refuse(format!(
                    "`{field}` is {size}; it must be between {smallest} and {largest}"
                )));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(refuse(format!(
                "{} heads do not divide a width of {}",
                self.num_attention_heads, self.hidden_size
            )));
        }
        if !(self.layer_norm_eps.is_finite() && self.layer_norm_eps > 0.0) {
            return Err(refuse(format!("`layer_norm_eps` is {}", self.layer_norm_eps)));
        }
        Ok(())
    }

    /// Rejects options that no version 3 checkpoint uses and this engine does not support.
    fn check_variant(&self) -> Result<(), ModelError> {
        let texts = [
            ("model_type", &self.model_type, "deberta-v2"),
            ("hidden_act", &self.hidden_act, "gelu"),
            ("pooler_hidden_act", &self.pooler_hidden_act, "gelu"),
        ];
        for (field, found, known) in texts {
            if found != known {
                return Err(refuse(format!(
                    "`{field}` is `{}`, but this engine knows `{known}` only",
                    found.escape_debug()
                )));
            }
        }
        let (width, each) = (self.hidden_size, self.hidden_size / self.num_attention_heads);
        let needed = [
            (self.relative_attention, "`relative_attention` must be true"),
            (!self.position_biased_input, "`position_biased_input` must be false"),
            (self.type_vocab_size == 0, "`type_vocab_size` must be 0"),
            (self.conv_kernel_size <= 0, "`conv_kernel_size` must be absent or 0"),
            (
                self.embedding_size.is_none_or(|size| size == width),
                "`embedding_size` must be `hidden_size`",
            ),
            (
                self.pooler_hidden_size.is_none_or(|size| size == width),
                "`pooler_hidden_size` must be `hidden_size`",
            ),
            (
                self.attention_head_size.is_none_or(|size| size == each),
                "`attention_head_size` must be `hidden_size` / `num_attention_heads`",
            ),
        ];
        match needed.iter().find(|(holds, _)| !holds) {
            Some((_, need)) => {
                Err(refuse(format!("{need}; this engine computes no other variant")))
            }
            None => Ok(()),
        }
    }

    /// Whether attention has the content-to-position and the position-to-content term.
    fn attention_kinds(&self) -> Result<(bool, bool), ModelError> {
        let kinds: Vec<String> = match &self.pos_att_type {
            None => Vec::new(),
            Some(AttentionTypes::Joined(text)) => {
                text.split('|').map(|kind| kind.trim().to_lowercase()).collect()
            }
            Some(AttentionTypes::List(kinds)) => kinds.clone(),
        };
        if let Some(unknown) = kinds.iter().find(|kind| !["c2p", "p2c"].contains(&kind.as_str())) {
            return Err(refuse(format!(
                "`pos_att_type` holds `{}`, but this engine knows `c2p` and `p2c` only",
                unknown.escape_debug()
            )));
        }
        let [has_c2p, has_p2c] = ["c2p", "p2c"].map(|wanted| kinds.iter().any(|it| it == wanted));
        Ok((has_c2p, has_p2c))
    }

    fn norms_positions(&self) -> Result<bool, ModelError> {
        match self.norm_rel_ebd.as_str() {
            "layer_norm" => Ok(true),
            "" | "none" => Ok(false),
            other => Err(refuse(format!(
                "`norm_rel_ebd` is `{}`, but this engine knows `layer_norm` and `none` only",
                other.escape_debug()
            ))),
        }
    }
}

/// Checks the number of buckets for distances up to `max_distance`.
fn check_distances(max_distance: usize, buckets: Option<usize>) -> Result<(), ModelError> {
    if max_distance > 1 << 16 {
        return Err(refuse(format!("`max_relative_positions` is {max_distance}")));
    }
    // Half the buckets hold one distance each; the logarithm needs distances beyond them.
    match buckets {
        Some(buckets) if buckets < 2 || buckets / 2 + 1 >= max_distance => Err(refuse(format!(
            "{buckets} `position_buckets` do not divide distances up to {max_distance}"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn positive(number: i64) -> Option<usize> {
    usize::try_from(number).ok().filter(|number| *number > 0)
}

fn refuse(detail: String) -> ModelError {
    ModelError::Configuration { detail }
}
