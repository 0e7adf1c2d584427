//! Where each tensor of an encoder stands: the embeddings and every layer are one flat block each.
//!
//! Training treats a block as a plain vector; the forward and backward pass find their matrices in it
//! through ranges. Query, key and value stand one after another, so that one multiplication does all three.

use std::ops::Range;

use crate::encoder::config::Config;
use crate::error::WeightsError;
use crate::weights::Weights;

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
pub(crate) fn embedding_fields(config: &Config) -> Vec<Field> {
    let width = config.width;
    let field = |name: &str, shape: &[usize]| Field::new(format!("embeddings.{name}"), shape);
    vec![
        field("word_embeddings.weight", &[config.vocabulary, width]),
        field("position_embeddings.weight", &[config.positions, width]),
        field("token_type_embeddings.weight", &[config.kinds, width]),
        field("LayerNorm.weight", &[width]),
        field("LayerNorm.bias", &[width]),
    ]
}

/// The tensors of the block of layer `index`, in its order.
pub(crate) fn layer_fields(config: &Config, index: usize) -> Vec<Field> {
    let (width, inner) = (config.width, config.inner);
    let field =
        |name: &str, shape: &[usize]| Field::new(format!("encoder.layer.{index}.{name}"), shape);
    vec![
        field("attention.self.query.weight", &[width, width]),
        field("attention.self.key.weight", &[width, width]),
        field("attention.self.value.weight", &[width, width]),
        field("attention.self.query.bias", &[width]),
        field("attention.self.key.bias", &[width]),
        field("attention.self.value.bias", &[width]),
        field("attention.output.dense.weight", &[width, width]),
        field("attention.output.dense.bias", &[width]),
        field("attention.output.LayerNorm.weight", &[width]),
        field("attention.output.LayerNorm.bias", &[width]),
        field("intermediate.dense.weight", &[inner, width]),
        field("intermediate.dense.bias", &[inner]),
        field("output.dense.weight", &[width, inner]),
        field("output.dense.bias", &[width]),
        field("output.LayerNorm.weight", &[width]),
        field("output.LayerNorm.bias", &[width]),
    ]
}

/// The block made of `fields`, read from published weights.
pub(crate) fn read_block(
    weights: &Weights<'_>,
    fields: &[Field],
) -> Result<Vec<f32>, WeightsError> {
    let mut block = Vec::with_capacity(fields.iter().map(Field::len).sum());
    for field in fields {
        block.extend_from_slice(&weights.floats(&field.name, &field.shape)?);
    }
    Ok(block)
}

/// Hands out consecutive ranges.
struct Cursor(usize);

impl Cursor {
    fn take(&mut self, count: usize) -> Range<usize> {
        let start = self.0;
        self.0 += count;
        start..self.0
    }
}

/// Where the tensors of [`embedding_fields`] stand in their block.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddingRanges {
    pub(crate) words: Range<usize>,
    pub(crate) positions: Range<usize>,
    pub(crate) kinds: Range<usize>,
    pub(crate) gain: Range<usize>,
    pub(crate) bias: Range<usize>,
}

impl EmbeddingRanges {
    pub(crate) fn new(config: &Config) -> Self {
        let (mut cursor, width) = (Cursor(0), config.width);
        Self {
            words: cursor.take(config.vocabulary * width),
            positions: cursor.take(config.positions * width),
            kinds: cursor.take(config.kinds * width),
            gain: cursor.take(width),
            bias: cursor.take(width),
        }
    }
}

/// Where the tensors of [`layer_fields`] stand in their block. A matrix is `[outputs, inputs]`.
#[derive(Debug, Clone)]
pub(crate) struct LayerRanges {
    /// Query, key and value: `[3 · width, width]`.
    pub(crate) mix: Range<usize>,
    pub(crate) mix_bias: Range<usize>,
    /// `[width, width]`.
    pub(crate) output: Range<usize>,
    pub(crate) output_bias: Range<usize>,
    pub(crate) first_gain: Range<usize>,
    pub(crate) first_bias: Range<usize>,
    /// `[inner, width]`.
    pub(crate) expand: Range<usize>,
    pub(crate) expand_bias: Range<usize>,
    /// `[width, inner]`.
    pub(crate) contract: Range<usize>,
    pub(crate) contract_bias: Range<usize>,
    pub(crate) second_gain: Range<usize>,
    pub(crate) second_bias: Range<usize>,
}

impl LayerRanges {
    pub(crate) fn new(config: &Config) -> Self {
        let (mut cursor, width, inner) = (Cursor(0), config.width, config.inner);
        Self {
            mix: cursor.take(3 * width * width),
            mix_bias: cursor.take(3 * width),
            output: cursor.take(width * width),
            output_bias: cursor.take(width),
            first_gain: cursor.take(width),
            first_bias: cursor.take(width),
            expand: cursor.take(inner * width),
            expand_bias: cursor.take(inner),
            contract: cursor.take(width * inner),
            contract_bias: cursor.take(width),
            second_gain: cursor.take(width),
            second_bias: cursor.take(width),
        }
    }
}
