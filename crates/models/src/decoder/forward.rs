//! The forward pass from token ids to the logits of the next token.

use crate::decoder::adapter::AttachedAdapter;
use crate::decoder::attention::{Cache, attend};
use crate::decoder::layer::{Layer, Parameters};
use crate::decoder::rotation::Rotation;
use crate::vector;

/// A long text is processed in batches of this many tokens: enough to justify the f32 form of a matrix, few
/// enough that activations stay small compared with the weights.
const TOGETHER: usize = 512;

/// Processes `ids` after the tokens in `cache` and returns the logits after the last: `[vocabulary]`.
///
/// There must be at least one id, and every id must be in the vocabulary.
pub(crate) fn run(
    parameters: &Parameters,
    adapters: &[AttachedAdapter],
    cache: &mut Cache,
    ids: &[u32],
) -> Vec<f32> {
    let width = parameters.config.width;
    let mut last = Vec::new();
    for ids in ids.chunks(TOGETHER) {
        let hidden = run_together(parameters, adapters, cache, ids);
        last = hidden[hidden.len() - width..].to_vec();
    }
    let epsilon = parameters.config.norm_epsilon;
    vector::root_norm_rows(&mut last, &parameters.last_gain, epsilon);
    parameters.output().apply(&last)
}

/// The tokens after all layers: `[tokens, width]`.
fn run_together(
    parameters: &Parameters,
    adapters: &[AttachedAdapter],
    cache: &mut Cache,
    ids: &[u32],
) -> Vec<f32> {
    let Parameters { config, embeddings, layers, slowdown, .. } = parameters;
    let mut hidden = vec![0.0; ids.len() * config.width];
    for (id, row) in ids.iter().zip(hidden.chunks_exact_mut(config.width)) {
        let id = usize::try_from(*id).expect("ids are checked against the vocabulary");
        embeddings.row(id, row);
    }
    let before = cache.tokens();
    let rotation = Rotation::new(config, slowdown.as_deref(), before, ids.len());
    for (layer, cache) in layers.iter().zip(cache.layers()) {
        let normed = normed(&hidden, &layer.first_gain, config.norm_epsilon);
        let mixed = layer.mix.apply(&normed, adapters);
        let context = attend(config, mixed, &rotation, cache, before);
        vector::add(&mut hidden, &layer.output.apply(&context, adapters));
        let fed = feed_forward(layer, &hidden, config.norm_epsilon, config.inner, adapters);
        vector::add(&mut hidden, &fed);
    }
    cache.advance(ids.len());
    hidden
}

/// `contract(silu(gate) · up)`.
fn feed_forward(
    layer: &Layer,
    hidden: &[f32],
    epsilon: f32,
    inner: usize,
    adapters: &[AttachedAdapter],
) -> Vec<f32> {
    let normed = normed(hidden, &layer.second_gain, epsilon);
    let mut expanded = layer.expand.apply(&normed, adapters);
    let mut gated = Vec::with_capacity(expanded.len() / 2);
    for row in expanded.chunks_exact_mut(2 * inner) {
        let (gate, up) = row.split_at_mut(inner);
        vector::silu(gate);
        gated.extend(gate.iter().zip(up).map(|(gate, up)| *gate * *up));
    }
    layer.contract.apply(&gated, adapters)
}

fn normed(hidden: &[f32], gain: &[f32], epsilon: f32) -> Vec<f32> {
    let mut normed = hidden.to_vec();
    vector::root_norm_rows(&mut normed, gain, epsilon);
    normed
}
