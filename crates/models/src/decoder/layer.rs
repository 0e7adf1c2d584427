//! The weights of a decoder, read from its file.

use std::collections::BTreeSet;

use crate::decoder::config::{DecoderConfig, refuse};
use crate::decoder::linear::Linear;
use crate::decoder::matrix::Matrix;
use crate::error::ModelError;
use crate::gguf::{Gguf, GgufError, optional};

/// All weights.
pub(crate) struct Parameters {
    pub(crate) config: DecoderConfig,
    /// `[vocabulary, width]`.
    pub(crate) embeddings: Matrix,
    pub(crate) layers: Vec<Layer>,
    /// `[width]`.
    pub(crate) last_gain: Vec<f32>,
    /// `[vocabulary, width]`; `None` if the embeddings are used.
    output: Option<Matrix>,
    /// `[rotated / 2]`: the factor that slows down each rotation.
    pub(crate) slowdown: Option<Vec<f32>>,
}

/// The weights of one layer.
pub(crate) struct Layer {
    /// `[width]`.
    pub(crate) first_gain: Vec<f32>,
    /// Query, key and value.
    pub(crate) mix: Linear,
    pub(crate) output: Linear,
    /// `[width]`.
    pub(crate) second_gain: Vec<f32>,
    /// Gate and up.
    pub(crate) expand: Linear,
    pub(crate) contract: Linear,
}

impl Parameters {
    /// Reads every tensor that `config` requires. A file with other tensors is rejected, because the result would
    /// lack their contribution.
    pub(crate) fn read(config: DecoderConfig, gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let mut layers = Vec::new();
        let mut known: BTreeSet<String> = ["token_embd", "output", "output_norm", "rope_freqs"]
            .map(|name| format!("{name}.weight"))
            .into();
        for index in 0..config.layers {
            let layer = Layer::read(&config, gguf, index)?;
            known.extend(layer.names(index));
            layers.push(layer);
        }
        if let Some(name) = gguf.names().find(|name| !known.contains(*name)) {
            return Err(refuse(format!("its tensor `{name}` is not supported")));
        }
        let slowdown = optional(read_vector(gguf, "rope_freqs.weight", config.rotated / 2))?;
        if slowdown.as_ref().is_some_and(|factors| factors.iter().any(|factor| *factor <= 0.0)) {
            return Err(refuse(
                "`rope_freqs.weight` contains a number that is not above 0".to_owned(),
            ));
        }
        let embeddings = read_table(gguf, "token_embd.weight", &config)?;
        let output = optional(read_table(gguf, "output.weight", &config))?;
        let last_gain = read_vector(gguf, "output_norm.weight", config.width)?;
        Ok(Self { embeddings, layers, last_gain, output, slowdown, config })
    }

    /// The matrix that computes the logits.
    pub(crate) fn output(&self) -> &Matrix {
        self.output.as_ref().unwrap_or(&self.embeddings)
    }
}

impl Layer {
    fn read(config: &DecoderConfig, gguf: &Gguf<'_>, index: usize) -> Result<Self, ModelError> {
        let (width, inner) = (config.width, config.inner);
        let (queries, keys) = (config.query_width(), config.key_width());
        let mix = [("attn_q", queries), ("attn_k", keys), ("attn_v", keys)];
        let expand = [("ffn_gate", inner), ("ffn_up", inner)];
        Ok(Self {
            first_gain: read_vector(gguf, &gain_name(index, "attn_norm"), width)?,
            mix: Self::read_linear(gguf, index, &mix, width)?,
            output: Self::read_linear(gguf, index, &[("attn_output", width)], queries)?,
            second_gain: read_vector(gguf, &gain_name(index, "ffn_norm"), width)?,
            expand: Self::read_linear(gguf, index, &expand, width)?,
            contract: Self::read_linear(gguf, index, &[("ffn_down", width)], inner)?,
        })
    }

    fn read_linear(
        gguf: &Gguf<'_>,
        index: usize,
        parts: &[(&str, usize)],
        inputs: usize,
    ) -> Result<Linear, ModelError> {
        let parts = parts.iter().map(|(name, rows)| (format!("blk.{index}.{name}"), *rows));
        Linear::read(gguf, &parts.collect::<Vec<_>>(), inputs)
    }

    /// The names of its tensors.
    fn names(&self, index: usize) -> impl Iterator<Item = String> {
        let linears = [&self.mix, &self.output, &self.expand, &self.contract];
        let gains = ["attn_norm", "ffn_norm"].map(|name| gain_name(index, name));
        linears.into_iter().flat_map(Linear::names).chain(gains)
    }
}

fn read_table(gguf: &Gguf<'_>, name: &str, config: &DecoderConfig) -> Result<Matrix, GgufError> {
    let tensor = gguf.tensor(name)?;
    tensor.expect_shape(&[config.vocabulary, config.width])?;
    Matrix::read(&[tensor], config.width)
}

fn read_vector(gguf: &Gguf<'_>, name: &str, length: usize) -> Result<Vec<f32>, GgufError> {
    let tensor = gguf.tensor(name)?;
    tensor.expect_shape(&[length])?;
    tensor.floats()
}

fn gain_name(index: usize, name: &str) -> String {
    format!("blk.{index}.{name}.weight")
}
