//! The forward pass from token ids to one vector per token.

use std::ops::Range;

use rayon::prelude::*;

use crate::encoder::batch::Batch;
use crate::encoder::config::EncoderConfig;
use crate::encoder::parameters::{EmbeddingRanges, LayerRanges};
use crate::gemm::{Epilogue, Packed, Right, View, multiply};
use crate::vector;

/// Attention over a shorter text runs on one thread, because distributing its heads would take longer.
const SHARED_TOKENS: usize = 48;

/// The weights of one layer: flat for training and storage, and packed for multiplication.
pub(crate) struct Layer {
    pub(crate) block: Vec<f32>,
    mix: Packed,
    output: Packed,
    expand: Packed,
    contract: Packed,
}

impl Layer {
    pub(crate) fn new(config: &EncoderConfig, block: Vec<f32>) -> Self {
        let at = LayerRanges::new(config);
        let [mix, output, expand, contract] =
            [&at.mix, &at.output, &at.expand, &at.contract].map(|map| {
                let weight = View::rows_of(&block[map.weight.clone()], map.inputs());
                Packed::new(weight.transposed())
            });
        Self { block, mix, output, expand, contract }
    }
}

/// Buffers that one run reuses from layer to layer.
#[derive(Default)]
struct Scratch {
    mix: Vec<f32>,
    context: Vec<f32>,
    inner: Vec<f32>,
    scores: Vec<f32>,
    heads: Vec<f32>,
}

/// The embedding of every token: `[tokens, width]`.
///
/// The ids were checked by [`crate::encoder::batch::check`].
pub(crate) fn embed(config: &EncoderConfig, block: &[f32], batch: &Batch) -> Vec<f32> {
    let mut hidden = sum_embeddings(config, block, batch);
    let at = EmbeddingRanges::new(config).norm;
    vector::norm_rows(&mut hidden, &block[at.gain], &block[at.bias], config.norm_epsilon);
    hidden
}

/// Word + position + kind, before normalisation.
pub(crate) fn sum_embeddings(config: &EncoderConfig, block: &[f32], batch: &Batch) -> Vec<f32> {
    let (at, width) = (EmbeddingRanges::new(config), config.width);
    let mut sum = Vec::with_capacity(batch.tokens() * width);
    for text in &batch.texts {
        for (position, id) in batch.ids[text.clone()].iter().enumerate() {
            let id = usize::try_from(*id).expect("ids are checked against the vocabulary");
            let [word, place, kind] = [(&at.words, id), (&at.positions, position), (&at.kinds, 0)]
                .map(|(table, index)| &block[table.start + index * width..][..width]);
            sum.extend(
                word.iter().zip(place).zip(kind).map(|((word, place), kind)| word + kind + place),
            );
        }
    }
    sum
}

/// Runs `layers` over `hidden`, `[tokens, width]`, in place.
pub(crate) fn run<'a>(
    config: &EncoderConfig,
    layers: impl Iterator<Item = &'a Layer>,
    hidden: &mut [f32],
    batch: &Batch,
) {
    let mut scratch = Scratch::default();
    let tokens = batch.tokens();
    scratch.mix.resize(tokens * 3 * config.width, 0.0);
    scratch.context.resize(tokens * config.width, 0.0);
    scratch.inner.resize(tokens * config.inner, 0.0);
    for layer in layers {
        run_layer(config, layer, hidden, batch, &mut scratch);
    }
}

fn run_layer(
    config: &EncoderConfig,
    layer: &Layer,
    hidden: &mut [f32],
    batch: &Batch,
    scratch: &mut Scratch,
) {
    let (at, block) = (LayerRanges::new(config), &layer.block);
    let (width, inner, epsilon) = (config.width, config.inner, config.norm_epsilon);
    let linear = |out: &mut [f32], input: View<'_>, weights, bias: &Range<usize>, add| {
        let epilogue = Epilogue { scale: 1.0, bias: Some(&block[bias.clone()]), add };
        multiply(out, input, Right::Packed(weights), epilogue);
    };

    linear(&mut scratch.mix, View::rows_of(hidden, width), &layer.mix, &at.mix.bias, false);
    for text in &batch.texts {
        attend(config, text.clone(), scratch);
    }
    linear(hidden, View::rows_of(&scratch.context, width), &layer.output, &at.output.bias, true);
    vector::norm_rows(hidden, &block[at.first.gain], &block[at.first.bias], epsilon);

    linear(&mut scratch.inner, View::rows_of(hidden, width), &layer.expand, &at.expand.bias, false);
    vector::gelu(&mut scratch.inner);
    linear(hidden, View::rows_of(&scratch.inner, inner), &layer.contract, &at.contract.bias, true);
    vector::norm_rows(hidden, &block[at.second.gain], &block[at.second.bias], epsilon);
}

/// Scaled dot-product attention within one text, from `mix` into `context`.
fn attend(config: &EncoderConfig, text: Range<usize>, scratch: &mut Scratch) {
    let (width, each, count) = (config.width, config.head_width(), text.len());
    let Scratch { mix, context, heads, .. } = scratch;
    heads.resize(config.heads * count * each, 0.0);
    let attend_head = |scores: &mut Vec<f32>, (head, out): (usize, &mut [f32])| {
        let [query, key, value] = mixed_heads(config, mix, text.clone(), head);
        scores.resize(count * count, 0.0);
        let scale = Epilogue { scale: attention_scale(config), ..Epilogue::REPLACE };
        multiply(scores, query, Right::View(key.transposed()), scale);
        vector::softmax_rows(scores, count);
        multiply(out, View::rows_of(scores, count), Right::View(value), Epilogue::REPLACE);
    };
    if count < SHARED_TOKENS {
        heads
            .chunks_exact_mut(count * each)
            .enumerate()
            .for_each(|head| attend_head(&mut scratch.scores, head));
    } else {
        heads.par_chunks_exact_mut(count * each).enumerate().for_each_init(Vec::new, attend_head);
    }
    let rows = context[text.start * width..text.end * width].chunks_exact_mut(each);
    for (place, to) in rows.enumerate() {
        let (row, head) = (place / config.heads, place % config.heads);
        to.copy_from_slice(&heads[(head * count + row) * each..][..each]);
    }
}

/// Views of `mix`: query, key and value of one head over one text, each `[count, head width]`.
pub(crate) fn mixed_heads<'a>(
    config: &EncoderConfig,
    mix: &'a [f32],
    text: Range<usize>,
    head: usize,
) -> [View<'a>; 3] {
    let (width, each) = (config.width, config.head_width());
    [0, 1, 2].map(|part| {
        let start = text.start * 3 * width + part * width + head * each;
        let length = (text.len() - 1) * 3 * width + each;
        View::strided(&mix[start..start + length], text.len(), each, 3 * width)
    })
}

/// One over the square root of a head's width.
pub(crate) fn attention_scale(config: &EncoderConfig) -> f32 {
    1.0 / (config.head_width() as f32).sqrt()
}

/// The mean of each text's rows: one vector of `width` per text.
pub(crate) fn mean_pool(config: &EncoderConfig, hidden: &[f32], batch: &Batch) -> Vec<Vec<f32>> {
    batch
        .texts
        .iter()
        .map(|text| {
            let mut mean = vec![0.0; config.width];
            let rows = &hidden[text.start * config.width..text.end * config.width];
            for row in rows.chunks_exact(config.width) {
                vector::add(&mut mean, row);
            }
            let count = text.len() as f32;
            mean.iter_mut().for_each(|number| *number /= count);
            mean
        })
        .collect()
}
