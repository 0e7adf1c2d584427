//! The backward pass: from the gradient of each logit to the gradient of every weight.
//!
//! Written out by hand for this one architecture. Each function is the transpose of one step of
//! [`crate::train::tape`], in reverse order; gradients are added to what the buffers hold.
//!
//! Names: `d_x` is the gradient of the loss with respect to `x`.

use std::ops::Range;

use crate::encoder::config::EncoderConfig;
use crate::encoder::forward::{attention_scale, mixed_heads};
use crate::encoder::parameters::{EmbeddingRanges, Linear, Norm};
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::train::derivative;
use crate::train::random::Mask;
use crate::train::run::{ATTENDED, Blocks, CONTRACTED, Layer, PROBABILITIES, Run};
use crate::train::tape::{LayerTape, NormTape, Tape, scatter_head};
use crate::vector;

/// The product, added to what is there.
const ADD: Epilogue<'static> = Epilogue { add: true, ..Epilogue::REPLACE };

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
pub(crate) fn backward(
    run: Run<'_>,
    tape: &mut Tape,
    means: &[Vec<f32>],
    d_logits: &[Vec<f32>],
    gradients: &mut Blocks,
    scratch: &mut Scratch,
) {
    let layers = run.config.layers;
    let mut d_hidden = std::mem::take(&mut scratch.hidden);
    head_backward(run, means, d_logits, &mut gradients[layers + 1], &mut d_hidden);
    for index in (0..layers).rev() {
        let block = index + 1;
        if gradients[..=block].iter().all(Vec::is_empty) {
            break;
        }
        let (before, rest) = tape.layers.split_at_mut(index);
        let input = before.last().map_or(&tape.start, |layer| &layer.output);
        let (layer, gradient) = (run.layer(index), &mut gradients[block]);
        fed_forward_backward(&layer, &mut rest[0], gradient, &mut d_hidden, scratch);
        attended_backward(&layer, input, &rest[0], gradient, &mut d_hidden, scratch);
    }
    if !gradients[0].is_empty() {
        run.embedded_masks().apply(&mut d_hidden);
        embedding_backward(run, &tape.embedded, &mut gradients[0], &mut d_hidden);
    }
    scratch.hidden = d_hidden;
}

/// Logits back to the rows of the last layer's output, through the mean.
fn head_backward(
    run: Run<'_>,
    means: &[Vec<f32>],
    d_logits: &[Vec<f32>],
    gradient: &mut [f32],
    d_hidden: &mut Vec<f32>,
) {
    let (width, (weight, _)) = (run.config.width, run.head());
    let (d_weight, d_bias) = gradient.split_at_mut(weight.len());
    d_hidden.resize(run.batch.tokens() * width, 0.0);
    for ((text, mean), d_logits) in run.batch.texts.iter().zip(means).zip(d_logits) {
        let mut d_mean = vec![0.0; width];
        for (head, d_logit) in d_logits.iter().enumerate() {
            let row = head * width..(head + 1) * width;
            derivative::add_scaled(&mut d_mean, &weight[row.clone()], *d_logit);
            derivative::add_scaled(&mut d_weight[row], mean, *d_logit);
            d_bias[head] += d_logit;
        }
        let count = text.len() as f32;
        d_mean.iter_mut().for_each(|number| *number /= count);
        for row in d_hidden[text.start * width..text.end * width].chunks_exact_mut(width) {
            row.copy_from_slice(&d_mean);
        }
    }
}

/// The second half of a layer: from `d_hidden` at its output to `d_hidden` after its first normalisation.
fn fed_forward_backward(
    layer: &Layer<'_>,
    tape: &mut LayerTape,
    gradient: &mut [f32],
    d_hidden: &mut [f32],
    scratch: &mut Scratch,
) {
    let (at, block) = (&layer.at, layer.block);
    let Scratch { residual, inner, .. } = scratch;
    norm_backward(d_hidden, &tape.second, block, &at.second, gradient);
    copy(residual, d_hidden);
    layer.masks(CONTRACTED).apply(residual);
    inner.resize(layer.run.batch.tokens() * layer.run.config.inner, 0.0);
    weight_gradient(gradient, &at.contract, residual, &tape.active);
    input_gradient(inner, block, &at.contract, residual, Epilogue::REPLACE);
    derivative::gelu_backward(inner, &mut tape.inner);
    weight_gradient(gradient, &at.expand, inner, &tape.middle);
    input_gradient(d_hidden, block, &at.expand, inner, ADD);
}

/// The first half of a layer: from `d_hidden` after its first normalisation to `d_hidden` at its input.
fn attended_backward(
    layer: &Layer<'_>,
    input: &[f32],
    tape: &LayerTape,
    gradient: &mut [f32],
    d_hidden: &mut [f32],
    scratch: &mut Scratch,
) {
    let (at, block) = (&layer.at, layer.block);
    norm_backward(d_hidden, &tape.first, block, &at.first, gradient);
    copy(&mut scratch.residual, d_hidden);
    layer.masks(ATTENDED).apply(&mut scratch.residual);
    scratch.context.resize(layer.run.batch.tokens() * layer.run.config.width, 0.0);
    weight_gradient(gradient, &at.output, &scratch.residual, &tape.context);
    input_gradient(&mut scratch.context, block, &at.output, &scratch.residual, Epilogue::REPLACE);
    attention_backward(layer, tape, scratch);
    weight_gradient(gradient, &at.mix, &scratch.mix, input);
    input_gradient(d_hidden, block, &at.mix, &scratch.mix, ADD);
}

/// From `scratch.context` to `scratch.mix`, both gradients.
fn attention_backward(layer: &Layer<'_>, tape: &LayerTape, scratch: &mut Scratch) {
    let Run { config, batch, .. } = layer.run;
    scratch.mix.resize(batch.tokens() * 3 * config.width, 0.0);
    // Two equal streams: one repeats the masks of the forward pass, the other applies them to its gradient.
    let mut masks = [layer.masks(PROBABILITIES), layer.masks(PROBABILITIES)];
    let mut rest = tape.probabilities.as_slice();
    for text in &batch.texts {
        for number in 0..config.heads {
            let (probabilities, after) = rest.split_at(text.len() * text.len());
            rest = after;
            let mixed = mixed_heads(config, &tape.mix, text.clone(), number);
            let head = Head { text: text.clone(), number, mixed, probabilities };
            head_attention_backward(config, &head, &mut masks, scratch);
        }
    }
}

/// What one head computed over one text.
struct Head<'a> {
    text: Range<usize>,
    number: usize,
    /// Query, key and value.
    mixed: [View<'a>; 3],
    /// Before dropout, `[count, count]`.
    probabilities: &'a [f32],
}

fn head_attention_backward(
    config: &EncoderConfig,
    head: &Head<'_>,
    [mask, d_mask]: &mut [Mask; 2],
    scratch: &mut Scratch,
) {
    let Scratch { mix, context, scores, kept, head: d_head, .. } = scratch;
    let (width, each, count) = (config.width, config.head_width(), head.text.len());
    let [query, key, value] = head.mixed;
    let start = head.text.start * width + head.number * each;
    let length = (count - 1) * width + each;
    let d_context = View::strided(&context[start..start + length], count, each, width);
    let d_mix = &mut mix[head.text.start * 3 * width..head.text.end * 3 * width];
    d_head.resize(count * each, 0.0);
    // Part 0 is the query, 1 the key and 2 the value.
    let mut put = |part: usize, left: View<'_>, right: View<'_>| {
        multiply(d_head, left, Right::View(right), Epilogue::REPLACE);
        scatter_head(config, d_head, d_mix, 3 * width, part * config.heads + head.number);
    };

    copy(kept, head.probabilities);
    mask.apply(kept);
    put(2, View::rows_of(kept, count).transposed(), d_context);

    scores.resize(count * count, 0.0);
    multiply(scores, d_context, Right::View(value.transposed()), Epilogue::REPLACE);
    d_mask.apply(scores);
    derivative::softmax_backward(scores, head.probabilities, count, attention_scale(config));
    let d_scores = View::rows_of(scores, count);
    put(0, d_scores, key);
    put(1, d_scores.transposed(), query);
}

/// The gradient of word, position and kind embeddings and of their normalisation.
fn embedding_backward(run: Run<'_>, tape: &NormTape, gradient: &mut [f32], d_hidden: &mut [f32]) {
    let (at, width) = (EmbeddingRanges::new(run.config), run.config.width);
    norm_backward(d_hidden, tape, run.embeddings(), &at.norm, gradient);
    let mut rows = d_hidden.chunks_exact(width);
    for text in &run.batch.texts {
        let ids = &run.batch.ids[text.clone()];
        for ((position, id), row) in ids.iter().enumerate().zip(&mut rows) {
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

/// Layer normalisation: `d` goes from output to input in place; gain and bias get theirs unless frozen.
fn norm_backward(d: &mut [f32], tape: &NormTape, block: &[f32], at: &Norm, gradient: &mut [f32]) {
    let gain = &block[at.gain.clone()];
    let width = gain.len();
    if !gradient.is_empty() {
        column_sums(&mut gradient[at.bias.clone()], d);
        let d_gain = &mut gradient[at.gain.clone()];
        for (d, normal) in d.chunks_exact(width).zip(tape.normal.chunks_exact(width)) {
            derivative::add_product(d_gain, d, normal);
        }
    }
    let rows = d.chunks_exact_mut(width).zip(tape.normal.chunks_exact(width)).zip(&tape.scale);
    for ((d, normal), scale) in rows {
        derivative::norm_backward(d, normal, gain, *scale);
    }
}

/// `d_weight += d_out^T × input` and the sums of `d_out` for the bias, unless the layer is frozen.
fn weight_gradient(gradient: &mut [f32], map: &Linear, d_out: &[f32], input: &[f32]) {
    // A frozen layer between trained ones passes the gradient through and keeps none.
    if gradient.is_empty() {
        return;
    }
    let d_out_t = View::rows_of(d_out, map.bias.len()).transposed();
    let input = View::rows_of(input, map.inputs());
    multiply(&mut gradient[map.weight.clone()], d_out_t, Right::View(input), ADD);
    column_sums(&mut gradient[map.bias.clone()], d_out);
}

/// `d_input (+)= d_out × weight`.
fn input_gradient(
    d_input: &mut [f32],
    block: &[f32],
    map: &Linear,
    d_out: &[f32],
    epilogue: Epilogue<'_>,
) {
    let weight = View::rows_of(&block[map.weight.clone()], map.inputs());
    let d_out = View::rows_of(d_out, map.bias.len());
    multiply(d_input, d_out, Right::View(weight), epilogue);
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
