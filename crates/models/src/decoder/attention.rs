//! Causal attention: every query attends to its own token and those before it.

use rayon::prelude::*;
use rten_simd::SimdOp;

use crate::decoder::config::DecoderConfig;
use crate::decoder::dot::{Mixture, Scores};
use crate::decoder::rotation::Rotation;
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::vector;

/// The number of queries of one head per block, which bounds the memory for scores.
const QUERIES: usize = 128;
/// The minimum amount of work for another thread.
const SHARED_NUMBERS: usize = 1 << 15;

/// The key-value cache.
#[derive(Clone)]
pub(crate) struct Cache {
    tokens: usize,
    layers: Vec<LayerCache>,
}

/// Of one layer: `[shared heads]` of `[tokens, head width]` each.
#[derive(Clone)]
pub(crate) struct LayerCache {
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Cache {
    pub(crate) fn new(config: &DecoderConfig) -> Self {
        let none = vec![Vec::new(); config.shared_heads];
        let layer = LayerCache { keys: none.clone(), values: none };
        Self { tokens: 0, layers: vec![layer; config.layers] }
    }

    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// The layers, to be given their keys and values of the next tokens.
    pub(crate) fn layers(&mut self) -> &mut [LayerCache] {
        &mut self.layers
    }

    /// Records that `count` tokens have passed all layers.
    pub(crate) fn advance(&mut self, count: usize) {
        self.tokens += count;
    }
}

/// Attends with the tokens of `mixed`, `[tokens, queries + keys + values]`, after `before` others.
///
/// Stores their keys and values in the cache. Returns `[tokens, query width]`.
pub(crate) fn attend(
    config: &DecoderConfig,
    mut mixed: Vec<f32>,
    rotation: &Rotation,
    cache: &mut LayerCache,
    before: usize,
) -> Vec<f32> {
    let each = config.head_width;
    let (query_width, key_width) = (config.query_width(), config.key_width());
    let row_width = query_width + 2 * key_width;
    let tokens = mixed.len() / row_width;
    // Grouped by head, so that operands are adjacent in memory.
    let mut queries = vec![0.0; tokens * query_width];
    for (token, row) in mixed.chunks_exact_mut(row_width).enumerate() {
        let (rotated, values) = row.split_at_mut(query_width + key_width);
        rotated.chunks_exact_mut(each).for_each(|head| rotation.turn(token, head));
        let (query, keys) = rotated.split_at(query_width);
        for (head, query) in query.chunks_exact(each).enumerate() {
            queries[(head * tokens + token) * each..][..each].copy_from_slice(query);
        }
        for (keys, key) in cache.keys.iter_mut().zip(keys.chunks_exact(each)) {
            keys.extend_from_slice(key);
        }
        for (values, value) in cache.values.iter_mut().zip(values.chunks_exact(each)) {
            values.extend_from_slice(value);
        }
    }
    let heads = attend_heads(config, &queries, cache, before, tokens);
    if tokens == 1 {
        return heads;
    }
    let mut context = mixed;
    context.truncate(tokens * query_width);
    for (place, to) in context.chunks_exact_mut(each).enumerate() {
        let (token, head) = (place / config.heads, place % config.heads);
        to.copy_from_slice(&heads[(head * tokens + token) * each..][..each]);
    }
    context
}

/// Queries and result are `[heads, tokens, head width]`.
fn attend_heads(
    config: &DecoderConfig,
    queries: &[f32],
    cache: &LayerCache,
    before: usize,
    tokens: usize,
) -> Vec<f32> {
    let each = config.head_width;
    let group = config.heads / config.shared_heads;
    let mut out = vec![0.0; queries.len()];
    let attend_head = |(index, (out, queries)): (usize, (&mut [f32], &[f32]))| {
        let head = Head {
            width: each,
            keys: &cache.keys[index / group],
            values: &cache.values[index / group],
        };
        if tokens == 1 {
            return head.attend_once(queries, out);
        }
        let blocks = out.chunks_mut(QUERIES * each).zip(queries.chunks(QUERIES * each));
        for (index, (out, queries)) in blocks.enumerate() {
            head.attend_block(queries, before + index * QUERIES, out);
        }
    };
    let length = tokens * each;
    if tokens * (before + tokens) * config.query_width() < SHARED_NUMBERS {
        let heads = out.chunks_exact_mut(length).zip(queries.chunks_exact(length));
        heads.enumerate().for_each(attend_head);
    } else {
        let heads = out.par_chunks_exact_mut(length).zip(queries.par_chunks_exact(length));
        heads.enumerate().for_each(attend_head);
    }
    out
}

/// The cached keys and values of one head.
struct Head<'a> {
    width: usize,
    /// `[places, width]`.
    keys: &'a [f32],
    /// `[places, width]`.
    values: &'a [f32],
}

impl<'a> Head<'a> {
    /// Attends with one query to every position.
    fn attend_once(&self, query: &[f32], out: &mut [f32]) {
        let count = self.keys.len() / self.width;
        let mut scores = vec![0.0; count];
        Scores { query, keys: self.keys, scale: self.scale(), out: &mut scores }.dispatch();
        vector::softmax_rows(&mut scores, count);
        Mixture { weights: &scores, rows: self.values, out }.dispatch();
    }

    /// Attends with consecutive queries from position `first`, each to the positions up to its own.
    fn attend_block(&self, queries: &[f32], first: usize, out: &mut [f32]) {
        let count = queries.len() / self.width;
        let visible = first + count;
        let [keys, values] = [self.keys, self.values]
            .map(|numbers| View::rows_of(&numbers[..visible * self.width], self.width));
        let mut scores = vec![0.0; count * visible];
        let scale = Epilogue { scale: self.scale(), ..Epilogue::REPLACE };
        let queries = View::rows_of(queries, self.width);
        multiply(&mut scores, queries, Right::View(keys.transposed()), scale);
        for (index, row) in scores.chunks_exact_mut(visible).enumerate() {
            let (past, future) = row.split_at_mut(first + index + 1);
            let count = past.len();
            vector::softmax_rows(past, count);
            future.fill(0.0);
        }
        multiply(out, View::rows_of(&scores, visible), Right::View(values), Epilogue::REPLACE);
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}
