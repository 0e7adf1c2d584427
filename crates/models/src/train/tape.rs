//! The forward pass that records the inputs of the backward pass.

use crate::encoder::config::EncoderConfig;
use crate::encoder::forward::{attention_scale, mean_pool, mixed_heads, sum_embeddings};
use crate::encoder::parameters::{EmbeddingRanges, Linear, Norm};
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::train::run::{ATTENDED, CONTRACTED, Layer, PROBABILITIES, Run};
use crate::vector;

/// A layer normalisation as it happened.
#[derive(Default)]
pub(crate) struct NormTape {
    /// The normalised rows, before gain and bias.
    pub(crate) normal: Vec<f32>,
    /// One over the standard deviation of each row.
    pub(crate) scale: Vec<f32>,
}

/// What one layer computed.
#[derive(Default)]
pub(crate) struct LayerTape {
    /// Query, key, value: `[tokens, 3 · width]`.
    pub(crate) mix: Vec<f32>,
    /// For every text and head `[count, count]`, before dropout.
    pub(crate) probabilities: Vec<f32>,
    /// `[tokens, width]`.
    pub(crate) context: Vec<f32>,
    pub(crate) first: NormTape,
    /// After the first normalisation, `[tokens, width]`.
    pub(crate) middle: Vec<f32>,
    /// Before GELU, `[tokens, inner]`.
    pub(crate) inner: Vec<f32>,
    /// After GELU, `[tokens, inner]`.
    pub(crate) active: Vec<f32>,
    pub(crate) second: NormTape,
    /// `[tokens, width]`.
    pub(crate) output: Vec<f32>,
}

/// What a whole run computed. Its buffers are reused by the next run.
#[derive(Default)]
pub(crate) struct Tape {
    pub(crate) embedded: NormTape,
    /// What the first layer read: `[tokens, width]`.
    pub(crate) start: Vec<f32>,
    pub(crate) layers: Vec<LayerTape>,
    scratch: Scratch,
}

/// Buffers of one head over one text.
#[derive(Default)]
struct Scratch {
    /// Probabilities after dropout.
    kept: Vec<f32>,
    /// What the head found.
    head: Vec<f32>,
}

/// Runs the network; returns each text's logits, `[texts][heads]`, and its mean vector.
pub(crate) fn record(run: Run<'_>, tape: &mut Tape) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let (config, embeddings) = (run.config, run.embeddings());
    let at = EmbeddingRanges::new(config).norm;
    tape.start = sum_embeddings(config, embeddings, run.batch);
    norm(&mut tape.start, embeddings, &at, config.norm_epsilon, &mut tape.embedded);
    run.embedded_masks().apply(&mut tape.start);
    tape.layers.resize_with(config.layers, LayerTape::default);
    for index in 0..config.layers {
        let (before, rest) = tape.layers.split_at_mut(index);
        let input = before.last().map_or(&tape.start, |layer| &layer.output);
        record_layer(&run.layer(index), input, &mut rest[0], &mut tape.scratch);
    }
    let output = tape.layers.last().map_or(&tape.start, |layer| &layer.output);
    let means = mean_pool(config, output, run.batch);
    let (weight, bias) = run.head();
    let logits = means
        .iter()
        .map(|mean| {
            weight
                .chunks_exact(config.width)
                .zip(bias)
                .map(|(row, bias)| row.iter().zip(mean).map(|(a, b)| a * b).sum::<f32>() + bias)
                .collect()
        })
        .collect();
    (logits, means)
}

fn record_layer(layer: &Layer<'_>, input: &[f32], tape: &mut LayerTape, scratch: &mut Scratch) {
    let (at, block, epsilon) = (&layer.at, layer.block, layer.run.config.norm_epsilon);
    linear(&mut tape.mix, block, &at.mix, input);
    attend(layer, tape, scratch);

    linear(&mut tape.middle, block, &at.output, &tape.context);
    layer.masks(ATTENDED).apply(&mut tape.middle);
    vector::add(&mut tape.middle, input);
    norm(&mut tape.middle, block, &at.first, epsilon, &mut tape.first);

    linear(&mut tape.inner, block, &at.expand, &tape.middle);
    tape.active.clear();
    tape.active.extend_from_slice(&tape.inner);
    vector::gelu(&mut tape.active);
    linear(&mut tape.output, block, &at.contract, &tape.active);
    layer.masks(CONTRACTED).apply(&mut tape.output);
    vector::add(&mut tape.output, &tape.middle);
    norm(&mut tape.output, block, &at.second, epsilon, &mut tape.second);
}

/// Scaled dot-product attention within every text, from `tape.mix` into `tape.context`.
fn attend(layer: &Layer<'_>, tape: &mut LayerTape, scratch: &mut Scratch) {
    let Run { config, batch, .. } = layer.run;
    let LayerTape { mix, probabilities, context, .. } = tape;
    let Scratch { kept, head } = scratch;
    let width = config.width;
    context.resize(batch.tokens() * width, 0.0);
    let pairs: usize = batch.texts.iter().map(|text| text.len() * text.len()).sum();
    probabilities.resize(pairs * config.heads, 0.0);
    let mut mask = layer.masks(PROBABILITIES);
    let mut free = probabilities.as_mut_slice();
    for text in &batch.texts {
        let count = text.len();
        head.resize(count * config.head_width(), 0.0);
        for number in 0..config.heads {
            let [query, key, value] = mixed_heads(config, mix, text.clone(), number);
            let (probabilities, rest) = free.split_at_mut(count * count);
            free = rest;
            let scale = Epilogue { scale: attention_scale(config), ..Epilogue::REPLACE };
            multiply(probabilities, query, Right::View(key.transposed()), scale);
            vector::softmax_rows(probabilities, count);
            kept.clear();
            kept.extend_from_slice(probabilities);
            mask.apply(kept);
            multiply(head, View::rows_of(kept, count), Right::View(value), Epilogue::REPLACE);
            let rows = &mut context[text.start * width..text.end * width];
            scatter_head(config, head, rows, width, number);
        }
    }
}

/// `out = input × weight^T + bias`, row by row.
fn linear(out: &mut Vec<f32>, block: &[f32], map: &Linear, input: &[f32]) {
    let weight = View::rows_of(&block[map.weight.clone()], map.inputs()).transposed();
    out.resize(input.len() / map.inputs() * map.bias.len(), 0.0);
    let epilogue = Epilogue { bias: Some(&block[map.bias.clone()]), ..Epilogue::REPLACE };
    multiply(out, View::rows_of(input, map.inputs()), Right::View(weight), epilogue);
}

/// Copies one head's rows, `[count, head width]`, to their columns in rows of `stride` numbers.
pub(crate) fn scatter_head(
    config: &EncoderConfig,
    head: &[f32],
    rows: &mut [f32],
    stride: usize,
    number: usize,
) {
    let each = config.head_width();
    for (to, from) in rows.chunks_exact_mut(stride).zip(head.chunks_exact(each)) {
        to[number * each..][..each].copy_from_slice(from);
    }
}

/// Layer normalisation in place, recorded on the tape.
fn norm(data: &mut [f32], block: &[f32], at: &Norm, epsilon: f32, tape: &mut NormTape) {
    let (gain, bias) = (&block[at.gain.clone()], &block[at.bias.clone()]);
    tape.scale.clear();
    for row in data.chunks_exact_mut(gain.len()) {
        let (mean, scale) = vector::moments(row, epsilon);
        tape.scale.push(scale);
        row.iter_mut().for_each(|number| *number = (*number - mean) * scale);
    }
    tape.normal.clear();
    tape.normal.extend_from_slice(data);
    for row in data.chunks_exact_mut(gain.len()) {
        for ((number, gain), bias) in row.iter_mut().zip(gain).zip(bias) {
            *number = *number * gain + bias;
        }
    }
}
