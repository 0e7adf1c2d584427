//! Low-rank adapters (LoRA), stored separately from a model's matrices.
//!
//! Source: Hu et al. 2021, "LoRA"; names and layout are those of GGUF adapters.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::decoder::config::{DecoderConfig, refuse};
use crate::error::ModelError;
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::gguf::{Gguf, GgufTensor};
use crate::sha256::Sha256;

/// The maximum rank, which bounds the cost of an adapter.
const MAX_RANK: usize = 1 << 10;

/// An adapter from a GGUF file.
#[derive(Debug)]
pub struct LoraAdapter {
    digest: Sha256,
    architecture: String,
    alpha: f32,
    pairs: BTreeMap<String, Pair>,
}

/// `out += weight · input × downᵀ × upᵀ`, for one matrix.
#[derive(Debug)]
struct Pair {
    rank: usize,
    inputs: usize,
    outputs: usize,
    /// `[rank, inputs]`.
    down: Vec<f32>,
    /// `[outputs, rank]`.
    up: Vec<f32>,
}

impl LoraAdapter {
    /// Reads a GGUF adapter: tensors `NAME.weight.lora_a`, `[rank, inputs]`, and `NAME.weight.lora_b`,
    /// `[outputs, rank]`.
    ///
    /// # Errors
    /// [`ModelError::Gguf`] if the file is damaged or incomplete; [`ModelError::Configuration`] if it is not such an
    /// adapter.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let gguf = Gguf::parse(bytes)?;
        let kinds = [("general.type", "adapter"), ("adapter.type", "lora")];
        for (key, expected) in kinds {
            let found = gguf.text(key)?;
            if found != expected {
                return Err(refuse(format!("`{key}` is `{found}`; give a file with `{expected}`")));
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "the file holds an f32")]
        let alpha = gguf.float("adapter.lora.alpha")? as f32;
        if !alpha.is_finite() {
            return Err(refuse("`adapter.lora.alpha` is not finite".to_owned()));
        }
        let mut pairs = BTreeMap::new();
        for name in gguf.names() {
            if let Some(matrix) = name.strip_suffix(".weight.lora_a") {
                let up = gguf.tensor(&format!("{matrix}.weight.lora_b"))?;
                pairs.insert(matrix.to_owned(), Pair::read(&gguf.tensor(name)?, &up)?);
            } else if let Some(matrix) = name.strip_suffix(".weight.lora_b") {
                gguf.tensor(&format!("{matrix}.weight.lora_a"))?;
            } else {
                return Err(refuse(format!("tensor `{name}` is no part of an adapter")));
            }
        }
        let architecture = gguf.text("general.architecture")?.to_owned();
        Ok(Self { digest: Sha256::of(bytes), architecture, alpha, pairs })
    }

    /// Of the file.
    pub fn digest(&self) -> Sha256 {
        self.digest
    }

    /// What the output of a matrix is scaled by: 1 for an adapter that was trained at full strength.
    ///
    /// An alpha of 0 means that the adapter is already scaled, as other engines take it.
    fn strength(&self, rank: usize) -> f32 {
        if self.alpha == 0.0 { 1.0 } else { self.alpha / rank as f32 }
    }
}

impl Pair {
    fn read(down: &GgufTensor<'_>, up: &GgufTensor<'_>) -> Result<Self, ModelError> {
        let (&[rank, inputs], &[outputs, up_rank]) = (&down.shape[..], &up.shape[..]) else {
            return Err(refuse(format!("`{}` and `{}` are no matrices", down.name, up.name)));
        };
        if rank != up_rank || rank > MAX_RANK {
            return Err(refuse(format!(
                "`{}` and `{}` have ranks {rank} and {up_rank}; they must be equal, and {MAX_RANK} at most",
                down.name, up.name
            )));
        }
        Ok(Self { rank, inputs, outputs, down: down.floats()?, up: up.floats()? })
    }
}

/// An adapter attached to a model.
#[derive(Debug, Clone)]
pub(crate) struct AttachedAdapter {
    name: String,
    adapter: Arc<LoraAdapter>,
    scale: f32,
}

impl AttachedAdapter {
    /// # Errors
    /// [`ModelError::Configuration`] unless every pair fits a matrix of the model.
    pub(crate) fn new(
        name: &str,
        adapter: Arc<LoraAdapter>,
        scale: f32,
        config: &DecoderConfig,
    ) -> Result<Self, ModelError> {
        if !scale.is_finite() {
            return Err(refuse(format!("the adapter `{name}` cannot be scaled by {scale}")));
        }
        if adapter.architecture != config.architecture.name() {
            return Err(refuse(format!(
                "the adapter `{name}` is for the architecture `{}`, not `{}`",
                adapter.architecture,
                config.architecture.name()
            )));
        }
        for (matrix, pair) in &adapter.pairs {
            let shape = [pair.outputs, pair.inputs];
            if adaptable(config, matrix) != Some(shape) {
                return Err(refuse(format!(
                    "the adapter `{name}` changes a matrix `{matrix}` of shape {shape:?}, which the model does not have"
                )));
            }
        }
        Ok(Self { name: name.to_owned(), adapter, scale })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The identity of the adapter: its file and its scale.
    pub(crate) fn identity(&self) -> String {
        format!("lora:sha256:{}*{}", self.adapter.digest, self.scale)
    }

    /// Adds to columns `columns` of `out`, `[tokens, rows]`, what this adapter has for `matrix`.
    pub(crate) fn add(
        &self,
        matrix: &str,
        input: &[f32],
        out: &mut [f32],
        rows: usize,
        columns: Range<usize>,
    ) {
        let Some(pair) = self.adapter.pairs.get(matrix) else { return };
        let input = View::rows_of(input, pair.inputs);
        let tokens = out.len() / rows;
        let down = Right::View(View::rows_of(&pair.down, pair.inputs).transposed());
        let mut narrow = vec![0.0; tokens * pair.rank];
        multiply(&mut narrow, input, down, Epilogue::REPLACE);
        let up = Right::View(View::rows_of(&pair.up, pair.rank).transposed());
        let strength = self.scale * self.adapter.strength(pair.rank);
        let mut wide = vec![0.0; tokens * pair.outputs];
        let epilogue = Epilogue { scale: strength, ..Epilogue::REPLACE };
        multiply(&mut wide, View::rows_of(&narrow, pair.rank), up, epilogue);
        for (out, add) in out.chunks_exact_mut(rows).zip(wide.chunks_exact(pair.outputs)) {
            crate::vector::add(&mut out[columns.clone()], add);
        }
    }
}

/// The shape of a matrix that adapters may change, `[outputs, inputs]`.
fn adaptable(config: &DecoderConfig, matrix: &str) -> Option<[usize; 2]> {
    let (layer, rest) = matrix.strip_prefix("blk.")?.split_once('.')?;
    layer.parse().ok().filter(|layer: &usize| *layer < config.layers)?;
    let (width, inner) = (config.width, config.inner);
    match rest {
        "attn_q" => Some([config.query_width(), width]),
        "attn_k" | "attn_v" => Some([config.key_width(), width]),
        "attn_output" => Some([width, config.query_width()]),
        "ffn_gate" | "ffn_up" => Some([inner, width]),
        "ffn_down" => Some([width, inner]),
        _ => None,
    }
}
