//! The backward pass: from the gradient of each logit to the gradient of every weight.
//!
//! Written out by hand for this one architecture. Each function is the transpose of one step of
//! [`crate::train::tape`], in reverse order; gradients are added to what the buffers hold.
//!
//! Names: `d_x` is the gradient of the loss with respect to `x`.

use crate::encoder::batch::Batch;
use crate::encoder::config::Config;
use crate::encoder::forward::{attention_scale, mixed_heads};
use crate::encoder::parameters::{EmbeddingRanges, LayerRanges};
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::train::derivative;
use crate::train::random::Dropout;
use crate::train::tape::{
    ATTENDED, Blocks, CONTRACTED, EMBEDDED, LayerTape, NormTape, PROBABILITIES, Tape, scatter_head,
};
use crate::vector;

/// Buffers that one backward pass reuses from layer to layer.
#[derive(Default)]
pub(crate) struct Scratch {
    hidden: Vec<f32>,
    residual: Vec<f32>,
    inner: Vec<f32>,
    context: Vec<f32>,
    mix: Vec<f32>,
    scores: Vec<f32>,
    kept: Vec<f32>,
    head: Vec<f32>,
}

/// Adds the gradients of one run to `gradients`, whose frozen blocks are empty.
///
/// `d_logits` is `[texts][heads]`; `means` are the texts' mean vectors of the same run.
#[expect(
    clippy::too_many_arguments,
    reason = "the run's inputs, its record, and where the result goes"
)]
pub(crate) fn backward(
    config: &Config,
    blocks: &Blocks,
    batch: &Batch,
    dropout: Dropout,
    tape: &mut Tape,
    means: &[Vec<f32>],
    d_logits: &[Vec<f32>],
    gradients: &mut Blocks,
    scratch: &mut Scratch,
) {
    let mut d_hidden = std::mem::take(&mut scratch.hidden);
    head_backward(
        config,
        &blocks[config.layers + 1],
        batch,
        means,
        d_logits,
        &mut gradients[config.layers + 1],
        &mut d_hidden,
    );
    for index in (0..config.layers).rev() {
        let block = index + 1;
        if gradients[..=block].iter().all(Vec::is_empty) {
            break;
        }
        let (before, rest) = tape.layers.split_at_mut(index);
        let input = before.last().map_or(&tape.start, |layer| &layer.output);
        layer_backward(
            config,
            index,
            &blocks[block],
            input,
            batch,
            dropout,
            &mut rest[0],
            &mut gradients[block],
            &mut d_hidden,
            scratch,
        );
    }
    if !gradients[0].is_empty() {
        dropout.at(0, EMBEDDED).apply(&mut d_hidden);
        embedding_backward(
            config,
            &blocks[0],
            batch,
            &tape.embedded,
            &mut gradients[0],
            &mut d_hidden,
        );
    }
    scratch.hidden = d_hidden;
}

/// Logits back to the rows of the last layer's output, through the mean.
fn head_backward(
    config: &Config,
    block: &[f32],
    batch: &Batch,
    means: &[Vec<f32>],
    d_logits: &[Vec<f32>],
    gradient: &mut [f32],
    d_hidden: &mut Vec<f32>,
) {
    let width = config.width;
    let heads = block.len() / (width + 1);
    d_hidden.resize(batch.tokens() * width, 0.0);
    for ((text, mean), d_logits) in batch.texts.iter().zip(means).zip(d_logits) {
        let mut d_mean = vec![0.0; width];
        for (head, d_logit) in d_logits.iter().enumerate() {
            let row = head * width..(head + 1) * width;
            derivative::add_scaled(&mut d_mean, &block[row.clone()], *d_logit);
            derivative::add_scaled(&mut gradient[row], mean, *d_logit);
            gradient[heads * width + head] += d_logit;
        }
        let count = text.len() as f32;
        d_mean.iter_mut().for_each(|number| *number /= count);
        for row in d_hidden[text.start * width..text.end * width].chunks_exact_mut(width) {
            row.copy_from_slice(&d_mean);
        }
    }
}

/// From `d_hidden` at a layer's output to `d_hidden` at its input.
#[expect(
    clippy::too_many_arguments,
    reason = "the layer's inputs, its record, and where the result goes"
)]
fn layer_backward(
    config: &Config,
    index: usize,
    block: &[f32],
    input: &[f32],
    batch: &Batch,
    dropout: Dropout,
    tape: &mut LayerTape,
    gradient: &mut [f32],
    d_hidden: &mut [f32],
    scratch: &mut Scratch,
) {
    let at = LayerRanges::new(config);
    let (width, inner, tokens) = (config.width, config.inner, batch.tokens());
    // A frozen layer between trained ones passes the gradient through and keeps none.
    let trained = !gradient.is_empty();

    norm_backward(
        d_hidden,
        &tape.second,
        &block[at.second_gain.clone()],
        gradient,
        &at.second_gain,
        &at.second_bias,
    );
    copy(&mut scratch.residual, d_hidden);
    dropout.at(index, CONTRACTED).apply(&mut scratch.residual);
    let d_contracted = &scratch.residual;
    if trained {
        weight_gradient(
            &mut gradient[at.contract.clone()],
            d_contracted,
            width,
            &tape.active,
            inner,
        );
        column_sums(&mut gradient[at.contract_bias.clone()], d_contracted);
    }
    scratch.inner.resize(tokens * inner, 0.0);
    input_gradient(
        &mut scratch.inner,
        d_contracted,
        width,
        &block[at.contract.clone()],
        inner,
        false,
    );
    derivative::gelu_backward(&mut scratch.inner, &mut tape.inner);
    if trained {
        weight_gradient(
            &mut gradient[at.expand.clone()],
            &scratch.inner,
            inner,
            &tape.middle,
            width,
        );
        column_sums(&mut gradient[at.expand_bias.clone()], &scratch.inner);
    }
    input_gradient(d_hidden, &scratch.inner, inner, &block[at.expand.clone()], width, true);

    norm_backward(
        d_hidden,
        &tape.first,
        &block[at.first_gain.clone()],
        gradient,
        &at.first_gain,
        &at.first_bias,
    );
    copy(&mut scratch.residual, d_hidden);
    dropout.at(index, ATTENDED).apply(&mut scratch.residual);
    if trained {
        weight_gradient(
            &mut gradient[at.output.clone()],
            &scratch.residual,
            width,
            &tape.context,
            width,
        );
        column_sums(&mut gradient[at.output_bias.clone()], &scratch.residual);
    }
    scratch.context.resize(tokens * width, 0.0);
    input_gradient(
        &mut scratch.context,
        &scratch.residual,
        width,
        &block[at.output.clone()],
        width,
        false,
    );
    attention_backward(config, index, batch, dropout, tape, scratch);
    if trained {
        weight_gradient(&mut gradient[at.mix.clone()], &scratch.mix, 3 * width, input, width);
        column_sums(&mut gradient[at.mix_bias.clone()], &scratch.mix);
    }
    input_gradient(d_hidden, &scratch.mix, 3 * width, &block[at.mix], width, true);
}

/// From `scratch.context` to `scratch.mix`, both gradients.
fn attention_backward(
    config: &Config,
    index: usize,
    batch: &Batch,
    dropout: Dropout,
    tape: &LayerTape,
    scratch: &mut Scratch,
) {
    let (width, each) = (config.width, config.head_width());
    scratch.mix.resize(batch.tokens() * 3 * width, 0.0);
    // Two equal streams: one repeats the masks of the forward pass, the other applies them to its gradient.
    let (mut mask, mut d_mask) =
        (dropout.at(index, PROBABILITIES), dropout.at(index, PROBABILITIES));
    let mut rest = tape.probabilities.as_slice();
    for text in &batch.texts {
        let count = text.len();
        scratch.scores.resize(count * count, 0.0);
        scratch.head.resize(count * each, 0.0);
        let d_mix = &mut scratch.mix[text.start * 3 * width..text.end * 3 * width];
        for number in 0..config.heads {
            let [query, key, value] = mixed_heads(config, &tape.mix, text.clone(), number);
            let (probabilities, after) = rest.split_at(count * count);
            rest = after;
            copy(&mut scratch.kept, probabilities);
            mask.apply(&mut scratch.kept);
            let start = text.start * width + number * each;
            let d_context = View::strided(
                &scratch.context[start..start + (count - 1) * width + each],
                count,
                each,
                width,
            );

            let kept = View::rows_of(&scratch.kept, count).transposed();
            multiply(&mut scratch.head, kept, Right::View(d_context), Epilogue::REPLACE);
            scatter_head(config, &scratch.head, d_mix, 3 * width, 2 * config.heads + number);

            multiply(
                &mut scratch.scores,
                d_context,
                Right::View(value.transposed()),
                Epilogue::REPLACE,
            );
            d_mask.apply(&mut scratch.scores);
            derivative::softmax_backward(
                &mut scratch.scores,
                probabilities,
                count,
                attention_scale(config),
            );

            let d_scores = View::rows_of(&scratch.scores, count);
            multiply(&mut scratch.head, d_scores, Right::View(key), Epilogue::REPLACE);
            scatter_head(config, &scratch.head, d_mix, 3 * width, number);
            multiply(
                &mut scratch.head,
                d_scores.transposed(),
                Right::View(query),
                Epilogue::REPLACE,
            );
            scatter_head(config, &scratch.head, d_mix, 3 * width, config.heads + number);
        }
    }
}

/// The gradient of word, position and kind embeddings and of their normalisation.
fn embedding_backward(
    config: &Config,
    block: &[f32],
    batch: &Batch,
    tape: &NormTape,
    gradient: &mut [f32],
    d_hidden: &mut [f32],
) {
    let (at, width) = (EmbeddingRanges::new(config), config.width);
    norm_backward(d_hidden, tape, &block[at.gain.clone()], gradient, &at.gain, &at.bias);
    let mut rows = d_hidden.chunks_exact(width);
    for text in &batch.texts {
        for ((position, id), row) in batch.ids[text.clone()].iter().enumerate().zip(&mut rows) {
            let word = usize::try_from(*id).expect("ids are checked against the vocabulary");
            for start in [
                at.words.start + word * width,
                at.positions.start + position * width,
                at.kinds.start,
            ] {
                vector::add(&mut gradient[start..start + width], row);
            }
        }
    }
}

/// Layer normalisation: `d` goes from output to input in place; gain and bias get theirs if trained.
fn norm_backward(
    d: &mut [f32],
    tape: &NormTape,
    gain: &[f32],
    gradient: &mut [f32],
    gain_at: &std::ops::Range<usize>,
    bias_at: &std::ops::Range<usize>,
) {
    let width = gain.len();
    if !gradient.is_empty() {
        column_sums(&mut gradient[bias_at.clone()], d);
        let d_gain = &mut gradient[gain_at.clone()];
        for (d, normal) in d.chunks_exact(width).zip(tape.normal.chunks_exact(width)) {
            derivative::add_product(d_gain, d, normal);
        }
    }
    let rows = d.chunks_exact_mut(width).zip(tape.normal.chunks_exact(width)).zip(&tape.scale);
    for ((d, normal), scale) in rows {
        derivative::norm_backward(d, normal, gain, *scale);
    }
}

/// `d_weight += d_out^T × input`, for a weight stored `[outputs, inputs]`.
fn weight_gradient(
    d_weight: &mut [f32],
    d_out: &[f32],
    outputs: usize,
    input: &[f32],
    inputs: usize,
) {
    let d_out = View::rows_of(d_out, outputs).transposed();
    let add = Epilogue { add: true, ..Epilogue::REPLACE };
    multiply(d_weight, d_out, Right::View(View::rows_of(input, inputs)), add);
}

/// `d_input (+)= d_out × weight`, for a weight stored `[outputs, inputs]`.
fn input_gradient(
    d_input: &mut [f32],
    d_out: &[f32],
    outputs: usize,
    weight: &[f32],
    inputs: usize,
    add: bool,
) {
    let weight = View::rows_of(weight, inputs);
    multiply(
        d_input,
        View::rows_of(d_out, outputs),
        Right::View(weight),
        Epilogue { add, ..Epilogue::REPLACE },
    );
}

fn column_sums(to: &mut [f32], rows: &[f32]) {
    for row in rows.chunks_exact(to.len()) {
        vector::add(to, row);
    }
}

fn copy(to: &mut Vec<f32>, from: &[f32]) {
    to.clear();
    to.extend_from_slice(from);
}
