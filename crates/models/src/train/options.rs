//! Training samples and options.

use serde::{Deserialize, Serialize};

use crate::encoder::Encoder;
use crate::train::error::TrainError;

/// One text with its targets.
#[derive(Debug, Clone)]
pub struct TrainingSample<'a> {
    /// The text.
    pub text: &'a str,
    /// The probability of the positive class for every head, in `[0, 1]`; `None` if it is unknown.
    pub targets: Vec<Option<f32>>,
    /// The weight of the sample; usually 1.
    pub weight: f32,
}

/// Training options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainOptions {
    /// The number of epochs.
    pub epochs: usize,
    /// Samples per step.
    pub batch: usize,
    /// The highest learning rate.
    pub learning_rate: f32,
    /// The share of all steps over which the rate rises.
    pub warmup: f32,
    /// How much matrices shrink at every step, relative to the learning rate.
    pub weight_decay: f32,
    /// The longest gradient; a longer one is shortened.
    pub clip_norm: f32,
    /// Where texts are cut, in tokens with the frame. Also kept for the classifier's use.
    pub max_tokens: usize,
    /// Whether embeddings stay as they are.
    pub freeze_embeddings: bool,
    /// How many of the lowest layers stay as they are.
    pub frozen_layers: usize,
    /// The share of numbers that are dropped while learning.
    pub dropout: f32,
    /// Yes-or-no questions per text.
    pub heads: usize,
    /// Decides order, dropout and the head's first weights.
    pub seed: u64,
    /// Parts of a batch that are run side by side. The result depends on it, a little: sums are taken part by part.
    pub shards: usize,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            epochs: 3,
            batch: 32,
            learning_rate: 5e-5,
            warmup: 0.1,
            weight_decay: 0.01,
            clip_norm: 1.0,
            max_tokens: 128,
            freeze_embeddings: true,
            frozen_layers: 0,
            dropout: 0.1,
            heads: 1,
            seed: 0,
            shards: 2,
        }
    }
}

impl TrainOptions {
    /// Whether every option is in its range for `base`.
    pub(crate) fn check(&self, base: &Encoder) -> Result<(), TrainError> {
        let config = base.config();
        let at_least_one = "at least 1";
        let positive = "a positive number";
        let checks = [
            ("epochs", self.epochs.to_string(), self.epochs > 0, at_least_one),
            ("batch", self.batch.to_string(), self.batch > 0, at_least_one),
            (
                "shards",
                self.shards.to_string(),
                (1..=64).contains(&self.shards),
                "between 1 and 64",
            ),
            ("heads", self.heads.to_string(), (1..=256).contains(&self.heads), "between 1 and 256"),
            (
                "learning_rate",
                self.learning_rate.to_string(),
                finite_above(self.learning_rate, 0.0),
                positive,
            ),
            ("clip_norm", self.clip_norm.to_string(), finite_above(self.clip_norm, 0.0), positive),
            (
                "warmup",
                self.warmup.to_string(),
                (0.0..=1.0).contains(&self.warmup),
                "between 0 and 1",
            ),
            (
                "dropout",
                self.dropout.to_string(),
                (0.0..=0.9).contains(&self.dropout),
                "between 0 and 0.9",
            ),
            (
                "weight_decay",
                self.weight_decay.to_string(),
                self.weight_decay.is_finite() && self.weight_decay >= 0.0,
                "zero or a positive number",
            ),
            (
                "max_tokens",
                self.max_tokens.to_string(),
                (3..=config.positions).contains(&self.max_tokens),
                "at least 3 and at most what the model takes",
            ),
            (
                "frozen_layers",
                self.frozen_layers.to_string(),
                self.frozen_layers <= config.layers
                    && (self.frozen_layers == 0 || self.freeze_embeddings),
                "at most the layers of the model, and 0 unless the embeddings are frozen too",
            ),
        ];
        match checks.into_iter().find(|(_, _, fits, _)| !fits) {
            Some((option, value, _, range)) => Err(TrainError::Option { option, value, range }),
            None => Ok(()),
        }
    }
}

fn finite_above(number: f32, bound: f32) -> bool {
    number.is_finite() && number > bound
}

fn check_sample(sample: &TrainingSample<'_>, heads: usize) -> Result<(), String> {
    let count = sample.targets.len();
    if count != heads {
        return Err(format!("it has {count} targets, but there are {heads} heads"));
    }
    if !finite_above(sample.weight, 0.0) {
        return Err(format!("its weight is {}, not a positive number", sample.weight));
    }
    match sample.targets.iter().flatten().find(|target| !(0.0..=1.0).contains(*target)) {
        Some(target) => Err(format!("a target is {target}, not between 0 and 1")),
        None => Ok(()),
    }
}

/// Checks that every sample is valid and that every head has samples of both classes.
pub(crate) fn check_samples(
    samples: &[TrainingSample<'_>],
    heads: usize,
) -> Result<(), TrainError> {
    if samples.is_empty() {
        return Err(TrainError::NoSamples);
    }
    let mut answers = vec![(0, 0); heads];
    for (index, sample) in samples.iter().enumerate() {
        check_sample(sample, heads).map_err(|detail| TrainError::Sample { index, detail })?;
        for (target, (yes, no)) in sample.targets.iter().zip(&mut answers) {
            match target {
                Some(target) if *target >= 0.5 => *yes += 1,
                Some(_) => *no += 1,
                None => {}
            }
        }
    }
    match answers.iter().position(|(yes, no)| *yes == 0 || *no == 0) {
        Some(head) => Err(TrainError::OneSided { head, yes: answers[head].0, no: answers[head].1 }),
        None => Ok(()),
    }
}
