//! The weights of a DeBERTa classifier, laid out for the forward pass.

use crate::deberta::config::DebertaConfig;
use crate::error::WeightsError;
use crate::gemm::{Epilogue, Packed, Right, View, multiply};
use crate::vector;
use crate::weights::WeightFile;

/// A matrix and a bias.
pub(crate) struct Linear {
    weights: Packed,
    bias: Vec<f32>,
    inputs: usize,
}

impl Linear {
    fn read(
        weights: &WeightFile<'_>,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, WeightsError> {
        Self::read_joined(weights, &[name.to_owned()], outputs, inputs)
    }

    /// Joins several matrices of equal shape; their outputs are concatenated.
    fn read_joined(
        weights: &WeightFile<'_>,
        names: &[String],
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, WeightsError> {
        let (mut matrix, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            matrix.extend(weights.floats(&format!("{name}.weight"), &[outputs, inputs])?);
            bias.extend(weights.floats(&format!("{name}.bias"), &[outputs])?);
        }
        let packed = Packed::new(View::rows_of(&matrix, inputs).transposed());
        Ok(Self { weights: packed, bias, inputs })
    }

    /// `out = input × weights + bias`, or the same added to `out`; `input` is `[rows, inputs]`.
    pub(crate) fn apply(&self, out: &mut [f32], input: &[f32], add: bool) {
        let epilogue = Epilogue { scale: 1.0, bias: Some(&self.bias), add };
        let input = View::rows_of(input, self.inputs);
        multiply(out, input, Right::Packed(&self.weights), epilogue);
    }

    /// The product for `input`, `[rows, inputs]`, as a new vector.
    pub(crate) fn outputs(&self, input: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; input.len() / self.inputs * self.bias.len()];
        self.apply(&mut out, input, false);
        out
    }
}

/// A layer normalisation.
pub(crate) struct Norm {
    gain: Vec<f32>,
    bias: Vec<f32>,
    epsilon: f32,
}

impl Norm {
    fn read(
        weights: &WeightFile<'_>,
        name: &str,
        config: &DebertaConfig,
    ) -> Result<Self, WeightsError> {
        let width = [config.width];
        let gain = weights.floats(&format!("{name}.LayerNorm.weight"), &width)?;
        let bias = weights.floats(&format!("{name}.LayerNorm.bias"), &width)?;
        Ok(Self { gain, bias, epsilon: config.norm_epsilon })
    }

    /// Normalises every row in place.
    pub(crate) fn apply(&self, rows: &mut [f32]) {
        vector::norm_rows(rows, &self.gain, &self.bias, self.epsilon);
    }
}

/// One layer.
pub(crate) struct Layer {
    /// The projections to query, key and value.
    pub(crate) mix: Linear,
    /// The key of every relative position, `[2 · span, width]`.
    pub(crate) position_keys: Option<Vec<f32>>,
    /// The query of every relative position, `[2 · span, width]`.
    pub(crate) position_queries: Option<Vec<f32>>,
    pub(crate) output: Linear,
    pub(crate) first_norm: Norm,
    pub(crate) expand: Linear,
    pub(crate) contract: Linear,
    pub(crate) second_norm: Norm,
}

impl Layer {
    /// `positions` is the table of relative positions, `[2 · span, width]`. A layer's projections of it do not
    /// depend on the text, so they are computed once here.
    fn read(
        weights: &WeightFile<'_>,
        config: &DebertaConfig,
        index: usize,
        positions: &[f32],
    ) -> Result<Self, WeightsError> {
        let (width, inner) = (config.width, config.inner);
        let layer = format!("deberta.encoder.layer.{index}");
        let projections = if config.has_shared_projections {
            ["key_proj", "query_proj"]
        } else {
            ["pos_key_proj", "pos_query_proj"]
        };
        let is_used = [config.has_content_to_position, config.has_position_to_content];
        let [position_keys, position_queries] =
            [(is_used[0], projections[0]), (is_used[1], projections[1])].map(|(is_used, name)| {
                let name = format!("{layer}.attention.self.{name}");
                is_used
                    .then(|| Ok(Linear::read(weights, &name, width, width)?.outputs(positions)))
                    .transpose()
            });
        let mix = ["query_proj", "key_proj", "value_proj"]
            .map(|name| format!("{layer}.attention.self.{name}"));
        Ok(Self {
            mix: Linear::read_joined(weights, &mix, width, width)?,
            position_keys: position_keys?,
            position_queries: position_queries?,
            output: Linear::read(
                weights,
                &format!("{layer}.attention.output.dense"),
                width,
                width,
            )?,
            first_norm: Norm::read(weights, &format!("{layer}.attention.output"), config)?,
            expand: Linear::read(weights, &format!("{layer}.intermediate.dense"), inner, width)?,
            contract: Linear::read(weights, &format!("{layer}.output.dense"), width, inner)?,
            second_norm: Norm::read(weights, &format!("{layer}.output"), config)?,
        })
    }
}

/// All weights.
pub(crate) struct Parameters {
    /// `[vocabulary, width]`.
    pub(crate) words: Vec<f32>,
    pub(crate) word_norm: Norm,
    pub(crate) layers: Vec<Layer>,
    pub(crate) pooler: Linear,
    pub(crate) classifier: Linear,
}

impl Parameters {
    /// Reads published weights; allocations are limited by the size of the file.
    pub(crate) fn read(
        weights: &WeightFile<'_>,
        config: &DebertaConfig,
    ) -> Result<Self, WeightsError> {
        let (width, encoder) = (config.width, "deberta.encoder");
        let shape = [2 * config.span(), width];
        let mut positions = weights.floats(&format!("{encoder}.rel_embeddings.weight"), &shape)?;
        if config.has_normed_positions {
            Norm::read(weights, encoder, config)?.apply(&mut positions);
        }
        let words = "deberta.embeddings.word_embeddings.weight";
        Ok(Self {
            words: weights.floats(words, &[config.vocabulary, width])?,
            word_norm: Norm::read(weights, "deberta.embeddings", config)?,
            layers: (0..config.layers)
                .map(|index| Layer::read(weights, config, index, &positions))
                .collect::<Result<_, _>>()?,
            pooler: Linear::read(weights, "pooler.dense", width, width)?,
            classifier: Linear::read(weights, "classifier", config.labels.count(), width)?,
        })
    }
}
