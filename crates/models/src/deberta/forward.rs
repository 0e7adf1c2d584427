//! The forward pass from token ids to one logit per label.

use std::ops::Range;

use crate::deberta::config::DebertaConfig;
use crate::deberta::distance::Distances;
use crate::deberta::parameters::{Layer, Parameters};
use crate::encoder::batch::Batch;
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::vector;

/// Buffers that one run reuses from layer to layer.
#[derive(Default)]
struct Scratch {
    mix: Vec<f32>,
    context: Vec<f32>,
    inner: Vec<f32>,
    scores: Vec<f32>,
    placed: Vec<f32>,
    head: Vec<f32>,
}

/// The logits of every text of `batch`. The ids must be in the vocabulary, and the texts must fit a window.
pub(crate) fn logits(
    config: &DebertaConfig,
    parameters: &Parameters,
    distances: &Distances,
    batch: &Batch,
) -> Vec<Vec<f32>> {
    let tokens = batch.tokens();
    let mut hidden = embed(config, parameters, batch);
    let mut scratch = Scratch {
        mix: vec![0.0; tokens * 3 * config.width],
        context: vec![0.0; tokens * config.width],
        inner: vec![0.0; tokens * config.inner],
        ..Scratch::default()
    };
    for layer in &parameters.layers {
        layer.mix.apply(&mut scratch.mix, &hidden, false);
        for text in &batch.texts {
            attend(config, layer, distances.of_window(text.len()), text, &mut scratch);
        }
        layer.output.apply(&mut hidden, &scratch.context, true);
        layer.first_norm.apply(&mut hidden);

        layer.expand.apply(&mut scratch.inner, &hidden, false);
        vector::gelu(&mut scratch.inner);
        layer.contract.apply(&mut hidden, &scratch.inner, true);
        layer.second_norm.apply(&mut hidden);
    }
    classify(config, parameters, &hidden, batch)
}

/// The normalised embedding of every token: `[tokens, width]`. Only attention uses positions.
fn embed(config: &DebertaConfig, parameters: &Parameters, batch: &Batch) -> Vec<f32> {
    let mut hidden = Vec::with_capacity(batch.tokens() * config.width);
    for id in &batch.ids {
        let row = usize::try_from(*id).expect("ids are checked against the vocabulary");
        hidden.extend_from_slice(&parameters.words[row * config.width..][..config.width]);
    }
    parameters.word_norm.apply(&mut hidden);
    hidden
}

/// Attention within one text, from `mix` into `context`.
///
/// The score of token i for token j is the sum of content on content, content on position and position on content,
/// over the root of the head's width times the number of terms. Both position terms look up the distance i - j.
fn attend(
    config: &DebertaConfig,
    layer: &Layer,
    rows: &[usize],
    text: &Range<usize>,
    scratch: &mut Scratch,
) {
    let (width, each, count) = (config.width, config.head_width(), text.len());
    let terms = 1 + [config.has_content_to_position, config.has_position_to_content]
        .iter()
        .filter(|on| **on)
        .count();
    let scale = Epilogue { scale: 1.0 / ((each * terms) as f32).sqrt(), ..Epilogue::REPLACE };
    // The rows of the table that a text of this length uses.
    let (lowest, reached) = (rows[0], rows[rows.len() - 1] - rows[0] + 1);
    scratch.scores.resize(count * count, 0.0);
    scratch.placed.resize(count * reached, 0.0);
    scratch.head.resize(count * each, 0.0);
    for head in 0..config.heads {
        let [query, key, value] = [0, 1, 2].map(|part| {
            let start = text.start * 3 * width + part * width + head * each;
            let length = (count - 1) * 3 * width + each;
            View::strided(&scratch.mix[start..start + length], count, each, 3 * width)
        });
        multiply(&mut scratch.scores, query, Right::View(key.transposed()), scale);
        let start = lowest * width + head * each;
        let reached_range = start..start + (reached - 1) * width + each;
        if let Some(keys) = &layer.position_keys {
            let keys = View::strided(&keys[reached_range.clone()], reached, each, width);
            multiply(&mut scratch.placed, query, Right::View(keys.transposed()), scale);
            add_content_to_position(&mut scratch.scores, &scratch.placed, rows);
        }
        if let Some(queries) = &layer.position_queries {
            let queries = View::strided(&queries[reached_range], reached, each, width);
            multiply(&mut scratch.placed, key, Right::View(queries.transposed()), scale);
            add_position_to_content(&mut scratch.scores, &scratch.placed, rows);
        }
        vector::softmax_rows(&mut scratch.scores, count);
        let weights = View::rows_of(&scratch.scores, count);
        multiply(&mut scratch.head, weights, Right::View(value), Epilogue::REPLACE);
        let context = &mut scratch.context[text.start * width..text.end * width];
        for (to, from) in context.chunks_exact_mut(width).zip(scratch.head.chunks_exact(each)) {
            to[head * each..][..each].copy_from_slice(from);
        }
    }
}

/// `scores[i][j] += placed[i][row of i - j]`.
fn add_content_to_position(scores: &mut [f32], placed: &[f32], rows: &[usize]) {
    let count = rows.len() / 2 + 1;
    let reached = placed.len() / count;
    let lines = scores.chunks_exact_mut(count).zip(placed.chunks_exact(reached));
    for (i, (line, placed)) in lines.enumerate() {
        for (score, row) in line.iter_mut().zip(rows[i..i + count].iter().rev()) {
            *score += placed[row - rows[0]];
        }
    }
}

/// `scores[i][j] += placed[j][row of i - j]`.
fn add_position_to_content(scores: &mut [f32], placed: &[f32], rows: &[usize]) {
    let count = rows.len() / 2 + 1;
    let reached = placed.len() / count;
    for (i, line) in scores.chunks_exact_mut(count).enumerate() {
        let places = placed.chunks_exact(reached).zip(rows[i..i + count].iter().rev());
        for (score, (placed, row)) in line.iter_mut().zip(places) {
            *score += placed[row - rows[0]];
        }
    }
}

/// Pools the first token of every text and classifies it.
fn classify(
    config: &DebertaConfig,
    parameters: &Parameters,
    hidden: &[f32],
    batch: &Batch,
) -> Vec<Vec<f32>> {
    let width = config.width;
    let first: Vec<f32> = batch
        .texts
        .iter()
        .flat_map(|text| hidden[text.start * width..][..width].iter().copied())
        .collect();
    let mut pooled = parameters.pooler.outputs(&first);
    vector::gelu(&mut pooled);
    let logits = parameters.classifier.outputs(&pooled);
    logits.chunks_exact(config.labels.count()).map(<[f32]>::to_vec).collect()
}
