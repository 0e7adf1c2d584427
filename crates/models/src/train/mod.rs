//! Fine-tuning a classifier: the backward pass, the optimiser, and the loop around them.
//!
//! Written for this one architecture, over the same matrix multiplication as the forward pass
//! (`docs/decisions/0004-own-backward-pass.md`). The result depends on data, options and seed, and on
//! neither the number of threads nor the time.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::classifier::EncoderClassifier;
use crate::encoder::Encoder;
use crate::tokenizer::Tokenizer;

mod backward;
mod derivative;
mod error;
mod optimizer;
mod options;
mod random;
mod run;
mod session;
mod tape;

pub use error::TrainError;
pub use options::{TrainOptions, TrainingSample};

/// A progress report.
#[derive(Debug, Clone, Copy)]
pub enum TrainProgress<'a> {
    /// A batch is done.
    Batch {
        /// Batches so far, over all epochs.
        done: usize,
        /// Batches in all.
        total: usize,
        /// The batch's mean loss, in nats.
        loss: f32,
        /// The length of the gradient before clipping.
        gradient_norm: f32,
    },
    /// An epoch is done.
    Epoch {
        /// Epochs so far.
        done: usize,
        /// Epochs in all.
        total: usize,
        /// The mean loss over the epoch's batches, in nats, dropout included.
        loss: f32,
        /// The classifier as it is now. Cloning it is cheap, so the best one can be kept.
        classifier: &'a EncoderClassifier,
    },
}

/// Fine-tunes `base` on `samples`: binary cross-entropy per supervised head, AdamW, linear warm-up and decay.
///
/// `watch` is called after every batch and every epoch; when it breaks, the classifier of that moment is
/// returned. The options are kept in the classifier's note `training`.
///
/// # Errors
/// [`TrainError`] when the options or samples make no sense, when a head has examples of one answer only,
/// when a text cannot be tokenised, or when the loss is no longer a number.
pub fn fine_tune(
    base: &Encoder,
    tokenizer: &Arc<Tokenizer>,
    samples: &[TrainingSample<'_>],
    options: &TrainOptions,
    watch: &mut dyn FnMut(TrainProgress<'_>) -> ControlFlow<()>,
) -> Result<EncoderClassifier, TrainError> {
    let total = options.epochs * samples.len().div_ceil(options.batch.max(1));
    let mut session = session::Session::new(base, tokenizer, samples, options)?;
    let mut done = 0;
    for epoch in 0..options.epochs {
        let mut sum = 0.0;
        let batches = session.shuffled_batches(epoch);
        for batch in &batches {
            let rate = options.learning_rate * optimizer::schedule(done, total, options.warmup);
            let (loss, gradient_norm) = session.learn(batch, done, rate)?;
            done += 1;
            sum += loss;
            if watch(TrainProgress::Batch { done, total, loss, gradient_norm }).is_break() {
                return Ok(session.classifier());
            }
        }
        let classifier = session.classifier();
        let loss = sum / batches.len() as f32;
        let progress = TrainProgress::Epoch {
            done: epoch + 1,
            total: options.epochs,
            loss,
            classifier: &classifier,
        };
        if watch(progress).is_break() || epoch + 1 == options.epochs {
            return Ok(classifier);
        }
    }
    Ok(session.classifier())
}
