//! The forward pass that remembers what the backward pass needs.

use std::ops::Range;

use crate::encoder::batch::Batch;
use crate::encoder::config::Config;
use crate::encoder::forward::{attention_scale, mean_pool, mixed_heads, sum_embeddings};
use crate::encoder::parameters::{EmbeddingRanges, LayerRanges};
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::train::random::Dropout;
use crate::vector;

/// The places of a layer where numbers are dropped.
pub(crate) const EMBEDDED: u64 = 0;
pub(crate) const PROBABILITIES: u64 = 1;
pub(crate) const ATTENDED: u64 = 2;
pub(crate) const CONTRACTED: u64 = 3;

/// The weights being trained, one block each: embeddings, layers, head (`[heads, width]`, then `[heads]`).
pub(crate) type Blocks = Vec<Vec<f32>>;

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
    scores: Vec<f32>,
    head: Vec<f32>,
}

/// Runs `batch` through `blocks`; returns each text's logits, `[texts][heads]`, and its mean vector.
pub(crate) fn record(
    config: &Config,
    blocks: &Blocks,
    batch: &Batch,
    dropout: Dropout,
    tape: &mut Tape,
) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let at = EmbeddingRanges::new(config);
    let embeddings = &blocks[0];
    tape.start = sum_embeddings(config, embeddings, batch);
    norm(
        &mut tape.start,
        &embeddings[at.gain],
        &embeddings[at.bias],
        config.norm_epsilon,
        &mut tape.embedded,
    );
    dropout.at(0, EMBEDDED).apply(&mut tape.start);
    tape.layers.resize_with(config.layers, LayerTape::default);
    for index in 0..config.layers {
        let (before, rest) = tape.layers.split_at_mut(index);
        let input = before.last().map_or(&tape.start, |layer| &layer.output);
        let scratch = (&mut tape.scores, &mut tape.head);
        record_layer(
            config,
            index,
            &blocks[index + 1],
            input,
            batch,
            dropout,
            &mut rest[0],
            scratch,
        );
    }
    let output = tape.layers.last().map_or(&tape.start, |layer| &layer.output);
    let means = mean_pool(config, output, batch);
    let head = &blocks[config.layers + 1];
    let heads = head.len() / (config.width + 1);
    let (weight, bias) = head.split_at(heads * config.width);
    let logits = |mean: &Vec<f32>| {
        let dot = |row: &[f32]| row.iter().zip(mean).map(|(a, b)| a * b).sum::<f32>();
        weight.chunks_exact(config.width).zip(bias).map(|(row, bias)| dot(row) + bias).collect()
    };
    (means.iter().map(logits).collect(), means)
}

#[expect(clippy::too_many_arguments, reason = "one call; the buffers belong to the tape")]
fn record_layer(
    config: &Config,
    index: usize,
    block: &[f32],
    input: &[f32],
    batch: &Batch,
    dropout: Dropout,
    tape: &mut LayerTape,
    (scores, head): (&mut Vec<f32>, &mut Vec<f32>),
) {
    let at = LayerRanges::new(config);
    let (width, inner, epsilon) = (config.width, config.inner, config.norm_epsilon);
    let linear = |out: &mut Vec<f32>,
                  input: &[f32],
                  inputs: usize,
                  weight: &Range<usize>,
                  bias: &Range<usize>| {
        let weight = View::rows_of(&block[weight.clone()], inputs).transposed();
        out.resize(batch.tokens() * bias.len(), 0.0);
        let epilogue = Epilogue { bias: Some(&block[bias.clone()]), ..Epilogue::REPLACE };
        multiply(out, View::rows_of(input, inputs), Right::View(weight), epilogue);
    };

    linear(&mut tape.mix, input, width, &at.mix, &at.mix_bias);
    tape.context.resize(batch.tokens() * width, 0.0);
    let pairs: usize = batch.texts.iter().map(|text| text.len() * text.len()).sum();
    tape.probabilities.resize(pairs * config.heads, 0.0);
    let mut mask = dropout.at(index, PROBABILITIES);
    let mut free = tape.probabilities.as_mut_slice();
    for text in &batch.texts {
        let count = text.len();
        head.resize(count * config.head_width(), 0.0);
        for number in 0..config.heads {
            let [query, key, value] = mixed_heads(config, &tape.mix, text.clone(), number);
            let (probabilities, rest) = free.split_at_mut(count * count);
            free = rest;
            let scale = Epilogue { scale: attention_scale(config), ..Epilogue::REPLACE };
            multiply(probabilities, query, Right::View(key.transposed()), scale);
            vector::softmax_rows(probabilities, count);
            let kept = if mask.is_off() {
                &*probabilities
            } else {
                scores.clear();
                scores.extend_from_slice(probabilities);
                mask.apply(scores);
                &*scores
            };
            multiply(head, View::rows_of(kept, count), Right::View(value), Epilogue::REPLACE);
            scatter_head(
                config,
                head,
                &mut tape.context[text.start * width..text.end * width],
                width,
                number,
            );
        }
    }

    linear(&mut tape.middle, &tape.context, width, &at.output, &at.output_bias);
    dropout.at(index, ATTENDED).apply(&mut tape.middle);
    vector::add(&mut tape.middle, input);
    norm(&mut tape.middle, &block[at.first_gain], &block[at.first_bias], epsilon, &mut tape.first);

    linear(&mut tape.inner, &tape.middle, width, &at.expand, &at.expand_bias);
    tape.active.clear();
    tape.active.extend_from_slice(&tape.inner);
    vector::gelu(&mut tape.active);
    linear(&mut tape.output, &tape.active, inner, &at.contract, &at.contract_bias);
    dropout.at(index, CONTRACTED).apply(&mut tape.output);
    vector::add(&mut tape.output, &tape.middle);
    norm(
        &mut tape.output,
        &block[at.second_gain],
        &block[at.second_bias],
        epsilon,
        &mut tape.second,
    );
}

/// Copies one head's rows, `[count, head width]`, to their columns in rows of `stride` numbers.
pub(crate) fn scatter_head(
    config: &Config,
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

/// Layer normalisation in place, remembered.
fn norm(data: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32, tape: &mut NormTape) {
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
