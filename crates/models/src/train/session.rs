//! The state of one training: the weights, their gradients, and a step.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::classifier::{EncoderClassifier, Head};
use crate::encoder::batch::Batch;
use crate::encoder::parameters::{Field, embedding_fields, layer_fields};
use crate::encoder::{Encoder, encode_all, fit_together};
use crate::tokenizer::Tokenizer;
use crate::train::backward::{Scratch, backward};
use crate::train::error::TrainError;
use crate::train::optimizer::AdamW;
use crate::train::options::{TrainOptions, TrainingSample, check_samples};
use crate::train::random::{Dropout, Random};
use crate::train::run::{Blocks, Run};
use crate::train::tape::{Tape, record};
use crate::vector;

/// A shard is run in parts of about this many tokens, so that what one part remembers stays small.
const PART_TOKENS: usize = 1024;
/// The deviation of the head's first weights, as BERT's own.
const HEAD_SPREAD: f32 = 0.02;
/// Places of random streams that are no layer.
const ORDER: u64 = 1;
const HEAD: u64 = 2;
const MASKS: u64 = 3;

/// A sample as the network sees it.
struct Example {
    ids: Vec<u32>,
    targets: Vec<Option<f32>>,
    weight: f32,
}

/// What one shard works with; kept from step to step.
#[derive(Default)]
struct Workspace {
    tape: Tape,
    scratch: Scratch,
    gradients: Blocks,
    loss: f64,
}

pub(crate) struct Session<'a> {
    base: &'a Encoder,
    tokenizer: Arc<Tokenizer>,
    options: &'a TrainOptions,
    examples: Vec<Example>,
    blocks: Blocks,
    shards: Vec<Workspace>,
    optimizer: AdamW,
}

impl<'a> Session<'a> {
    /// Checks everything that can be checked before the first step.
    pub(crate) fn new(
        base: &'a Encoder,
        tokenizer: &Arc<Tokenizer>,
        samples: &[TrainingSample<'_>],
        options: &'a TrainOptions,
    ) -> Result<Self, TrainError> {
        options.check(base)?;
        check_samples(samples, options.heads)?;
        fit_together(base, tokenizer)?;
        let texts: Vec<&str> = samples.iter().map(|sample| sample.text).collect();
        let ids = encode_all(tokenizer, &texts, options.max_tokens)?;
        let examples = ids.into_iter().zip(samples).map(|(ids, sample)| Example {
            ids,
            targets: sample.targets.clone(),
            weight: sample.weight,
        });
        let blocks = first_blocks(base, options);
        let gradients: Blocks = blocks
            .iter()
            .enumerate()
            .map(|(index, block)| {
                vec![0.0; if is_frozen(options, index) { 0 } else { block.len() }]
            })
            .collect();
        let optimizer = AdamW::new(&gradients, decayed_ranges(base, options), options.weight_decay);
        let shards = (0..options.shards)
            .map(|_| Workspace { gradients: gradients.clone(), ..Workspace::default() })
            .collect();
        Ok(Self {
            base,
            tokenizer: tokenizer.clone(),
            options,
            examples: examples.collect(),
            blocks,
            shards,
            optimizer,
        })
    }

    /// The batches of one epoch: every sample once, in an order that seed and epoch decide.
    pub(crate) fn shuffled_batches(&self, epoch: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.examples.len()).collect();
        Random::new(self.options.seed, &[ORDER, epoch as u64]).shuffle(&mut order);
        order.chunks(self.options.batch).map(<[usize]>::to_vec).collect()
    }

    /// One step on the samples of `batch`; returns their mean loss and the gradient's norm.
    pub(crate) fn learn(
        &mut self,
        batch: &[usize],
        step: usize,
        learning_rate: f32,
    ) -> Result<(f32, f32), TrainError> {
        let loss = self.gradients(batch, step);
        let [first, ..] = self.shards.as_slice() else { return Ok((0.0, 0.0)) };
        let norm = self.optimizer.step(
            &mut self.blocks,
            &first.gradients,
            learning_rate,
            self.options.clip_norm,
        );
        if !(loss.is_finite() && norm.is_finite()) {
            return Err(TrainError::Diverged { batch: step, loss });
        }
        Ok((loss, norm))
    }

    /// The classifier as it is now.
    pub(crate) fn classifier(&self) -> EncoderClassifier {
        let config = self.base.config();
        let (blocks, head) = self.blocks.split_at(config.layers + 1);
        let (weight, bias) = head[0].split_at(self.options.heads * config.width);
        let head = Head { weight: weight.to_vec(), bias: bias.to_vec() };
        let tokenizer = self.tokenizer.clone();
        let mut classifier = EncoderClassifier::from_blocks(
            self.base,
            tokenizer,
            blocks,
            head,
            self.options.max_tokens,
        );
        let options = serde_json::to_string(self.options).expect("options have a JSON form");
        classifier.notes.insert("training".to_owned(), options);
        classifier
    }

    /// Computes the gradient of the mean loss in the first shard and returns that loss.
    fn gradients(&mut self, batch: &[usize], step: usize) -> f32 {
        let total: f32 = batch
            .iter()
            .map(|index| &self.examples[*index])
            .map(|example| example.targets.iter().flatten().count() as f32 * example.weight)
            .sum();
        // A batch without targets has no gradient.
        let share = if total > 0.0 { 1.0 / total } else { 0.0 };
        let cuts = cut_evenly(batch, &self.examples, self.shards.len());
        let (base, blocks, examples, options) =
            (self.base, &self.blocks, &self.examples, self.options);
        self.shards.par_iter_mut().zip(cuts).enumerate().for_each(
            |(shard, (workspace, samples))| {
                workspace.loss = 0.0;
                workspace.gradients.iter_mut().for_each(|block| block.fill(0.0));
                for (part, samples) in parts(samples, examples).into_iter().enumerate() {
                    let place = [MASKS, step as u64, shard as u64, part as u64];
                    let dropout =
                        Dropout::new(options.dropout, Random::new(options.seed, &place).next());
                    run_part(base, blocks, examples, samples, share, dropout, workspace);
                }
            },
        );
        let (first, others) = self.shards.split_at_mut(1);
        let mut loss = first[0].loss;
        for other in others {
            loss += other.loss;
            for (to, from) in first[0].gradients.iter_mut().zip(&other.gradients) {
                to.par_chunks_mut(1 << 16)
                    .zip(from.par_chunks(1 << 16))
                    .for_each(|(to, from)| vector::add(to, from));
            }
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a loss too large for f32 becomes infinite, which is noticed"
        )]
        let loss = loss as f32;
        loss
    }
}

/// Forward and backward over some samples; gradients and loss are added to the workspace.
fn run_part(
    base: &Encoder,
    blocks: &Blocks,
    examples: &[Example],
    samples: &[usize],
    share: f32,
    dropout: Dropout,
    workspace: &mut Workspace,
) {
    let Workspace { tape, scratch, gradients, loss } = workspace;
    let batch = Batch::new(samples.iter().map(|index| examples[*index].ids.as_slice()));
    let run = Run { config: base.config(), blocks, batch: &batch, dropout };
    let (mut logits, means) = record(run, tape);
    for (index, logits) in samples.iter().zip(&mut logits) {
        let example = &examples[*index];
        for (logit, target) in logits.iter_mut().zip(&example.targets) {
            let Some(target) = target else {
                *logit = 0.0;
                continue;
            };
            let factor = share * example.weight;
            *loss += f64::from(factor * cross_entropy(*logit, *target));
            *logit = factor * (sigmoid(*logit) - target);
        }
    }
    backward(run, tape, &means, &logits, gradients, scratch);
}

/// `-t ln σ(z) - (1 - t) ln(1 - σ(z))`, without overflow.
fn cross_entropy(logit: f32, target: f32) -> f32 {
    logit.max(0.0) - logit * target + (-logit.abs()).exp().ln_1p()
}

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// The base's blocks, and a head of small random weights.
fn first_blocks(base: &Encoder, options: &TrainOptions) -> Blocks {
    let mut random = Random::new(options.seed, &[HEAD]);
    // A uniform number in [-1, 1) has a deviation of one over the square root of three.
    let spread = HEAD_SPREAD * 3.0_f32.sqrt();
    let weights = options.heads * base.config().width;
    let mut head: Vec<f32> =
        std::iter::repeat_with(|| spread * random.signed_unit()).take(weights).collect();
    head.resize(weights + options.heads, 0.0);
    let mut blocks = vec![base.embeddings.as_ref().clone()];
    blocks.extend(base.layers.iter().map(|layer| layer.block.clone()));
    blocks.push(head);
    blocks
}

/// Block 0 is the embeddings; block `n` is layer `n - 1`; the last one is the head.
fn is_frozen(options: &TrainOptions, index: usize) -> bool {
    match index.checked_sub(1) {
        None => options.freeze_embeddings,
        Some(layer) => layer < options.frozen_layers,
    }
}

/// The ranges of the fields with more than one dimension.
fn matrix_ranges(fields: Vec<Field>) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut ranges = Vec::new();
    for field in fields {
        let range = start..start + field.len();
        start = range.end;
        if field.shape.len() > 1 {
            ranges.push(range);
        }
    }
    ranges
}

/// The weights with weight decay: all but biases and normalisations.
fn decayed_ranges(base: &Encoder, options: &TrainOptions) -> Vec<Vec<Range<usize>>> {
    let config = base.config();
    let mut all = vec![matrix_ranges(embedding_fields(config))];
    all.extend((0..config.layers).map(|layer| matrix_ranges(layer_fields(config, layer))));
    let head_weights = 0..options.heads * config.width;
    all.push([head_weights].into_iter().collect());
    all
}

/// Cuts `batch` into `count` consecutive stretches of about equally many tokens; some may be empty.
fn cut_evenly<'b>(batch: &'b [usize], examples: &[Example], count: usize) -> Vec<&'b [usize]> {
    let total: usize = batch.iter().map(|index| examples[*index].ids.len()).sum();
    let mut cuts = Vec::with_capacity(count);
    let (mut rest, mut seen) = (batch, 0);
    for shard in 1..=count {
        let mut length = 0;
        for index in rest {
            let tokens = examples[*index].ids.len();
            if shard < count && (seen + tokens / 2) * count >= total * shard {
                break;
            }
            seen += tokens;
            length += 1;
        }
        let (cut, after) = rest.split_at(length);
        cuts.push(cut);
        rest = after;
    }
    cuts
}

/// Cuts a shard into consecutive parts of about [`PART_TOKENS`].
fn parts<'b>(samples: &'b [usize], examples: &[Example]) -> Vec<&'b [usize]> {
    let mut parts = Vec::new();
    let (mut first, mut tokens) = (0, 0);
    for (place, index) in samples.iter().enumerate() {
        let length = examples[*index].ids.len();
        if place > first && tokens + length > PART_TOKENS {
            parts.push(&samples[first..place]);
            (first, tokens) = (place, 0);
        }
        tokens += length;
    }
    if first < samples.len() {
        parts.push(&samples[first..]);
    }
    parts
}

#[cfg(test)]
mod tests;
