//! The layout of an encoder's tensors: the embeddings and every layer are one flat block each.
//!
//! Training treats a block as a plain vector; the forward and backward pass address its matrices
//! through ranges. Query, key and value are adjacent, so that one multiplication computes all three.

use std::ops::Range;

use crate::encoder::config::EncoderConfig;
use crate::error::WeightsError;
use crate::weights::WeightFile;

/// One tensor of a block.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Its name in the published weights.
    pub(crate) name: String,
    /// Its shape, outermost dimension first.
    pub(crate) shape: Vec<usize>,
}

impl Field {
    fn new(name: String, shape: &[usize]) -> Self {
        Self { name, shape: shape.to_vec() }
    }

    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The tensors of the embedding block, in its order.
pub(crate) fn embedding_fields(config: &EncoderConfig) -> Vec<Field> {
    let width = config.width;
    let fields: [(&str, &[usize]); 5] = [
        ("word_embeddings.weight", &[config.vocabulary, width]),
        ("position_embeddings.weight", &[config.positions, width]),
        ("token_type_embeddings.weight", &[config.kinds, width]),
        ("LayerNorm.weight", &[width]),
        ("LayerNorm.bias", &[width]),
    ];
    fields.map(|(name, shape)| Field::new(format!("embeddings.{name}"), shape)).into()
}

/// The tensors of the block of layer `index`, in its order.
pub(crate) fn layer_fields(config: &EncoderConfig, index: usize) -> Vec<Field> {
    let (width, inner) = (config.width, config.inner);
    let fields: [(&str, &[usize]); 16] = [
        ("attention.self.query.weight", &[width, width]),
        ("attention.self.key.weight", &[width, width]),
        ("attention.self.value.weight", &[width, width]),
        ("attention.self.query.bias", &[width]),
        ("attention.self.key.bias", &[width]),
        ("attention.self.value.bias", &[width]),
        ("attention.output.dense.weight", &[width, width]),
        ("attention.output.dense.bias", &[width]),
        ("attention.output.LayerNorm.weight", &[width]),
        ("attention.output.LayerNorm.bias", &[width]),
        ("intermediate.dense.weight", &[inner, width]),
        ("intermediate.dense.bias", &[inner]),
        ("output.dense.weight", &[width, inner]),
        ("output.dense.bias", &[width]),
        ("output.LayerNorm.weight", &[width]),
        ("output.LayerNorm.bias", &[width]),
    ];
    fields.map(|(name, shape)| Field::new(format!("encoder.layer.{index}.{name}"), shape)).into()
}

/// The block made of `fields`, read from published weights.
pub(crate) fn read_block(
    weights: &WeightFile<'_>,
    fields: &[Field],
) -> Result<Vec<f32>, WeightsError> {
    let mut block = Vec::with_capacity(fields.iter().map(Field::len).sum());
    for field in fields {
        block.extend_from_slice(&weights.floats(&field.name, &field.shape)?);
    }
    Ok(block)
}

/// A linear map in a block.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    /// `[outputs, inputs]`.
    pub(crate) weight: Range<usize>,
    /// `[outputs]`.
    pub(crate) bias: Range<usize>,
}

impl Linear {
    pub(crate) fn inputs(&self) -> usize {
        self.weight.len() / self.bias.len()
    }
}

/// A layer normalisation in a block.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    /// `[width]`.
    pub(crate) gain: Range<usize>,
    /// `[width]`.
    pub(crate) bias: Range<usize>,
}

/// Allocates consecutive ranges.
struct Cursor(usize);

impl Cursor {
    fn take(&mut self, count: usize) -> Range<usize> {
        let start = self.0;
        self.0 += count;
        start..self.0
    }

    fn linear(&mut self, outputs: usize, inputs: usize) -> Linear {
        Linear { weight: self.take(outputs * inputs), bias: self.take(outputs) }
    }

    fn norm(&mut self, width: usize) -> Norm {
        Norm { gain: self.take(width), bias: self.take(width) }
    }
}

/// The ranges of the tensors of [`embedding_fields`] in their block.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddingRanges {
    pub(crate) words: Range<usize>,
    pub(crate) positions: Range<usize>,
    pub(crate) kinds: Range<usize>,
    pub(crate) norm: Norm,
}

impl EmbeddingRanges {
    pub(crate) fn new(config: &EncoderConfig) -> Self {
        let (mut cursor, width) = (Cursor(0), config.width);
        Self {
            words: cursor.take(config.vocabulary * width),
            positions: cursor.take(config.positions * width),
            kinds: cursor.take(config.kinds * width),
            norm: cursor.norm(width),
        }
    }
}

/// The ranges of the tensors of [`layer_fields`] in their block.
#[derive(Debug, Clone)]
pub(crate) struct LayerRanges {
    /// To query, key and value: `width` to `3 · width`.
    pub(crate) mix: Linear,
    /// `width` to `width`.
    pub(crate) output: Linear,
    /// After attention.
    pub(crate) first: Norm,
    /// `width` to `inner`.
    pub(crate) expand: Linear,
    /// `inner` to `width`.
    pub(crate) contract: Linear,
    /// After the feed-forward part.
    pub(crate) second: Norm,
}

impl LayerRanges {
    pub(crate) fn new(config: &EncoderConfig) -> Self {
        let (mut cursor, width, inner) = (Cursor(0), config.width, config.inner);
        Self {
            mix: cursor.linear(3 * width, width),
            output: cursor.linear(width, width),
            first: cursor.norm(width),
            expand: cursor.linear(inner, width),
            contract: cursor.linear(width, inner),
            second: cursor.norm(width),
        }
    }
}
