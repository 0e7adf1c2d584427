//! Training errors.

use crate::error::ModelError;

/// Why a training cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// There are no samples.
    #[error("there are no samples; give at least one text of each answer")]
    NoSamples,
    /// An option is outside its range.
    #[error("option `{option}` is `{value}`; it must be {range}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// The invalid value.
        value: String,
        /// The valid range.
        range: &'static str,
    },
    /// A sample is malformed.
    #[error("sample {index} cannot be used: {detail}")]
    Sample {
        /// Its place in the list, from 0.
        index: usize,
        /// The problem.
        detail: String,
    },
    /// A head that only ever sees one answer would learn to give that answer always.
    #[error("head {head} has {yes} samples for yes and {no} for no; it needs both")]
    OneSided {
        /// Its number, from 0.
        head: usize,
        /// Samples with a target of at least one half.
        yes: usize,
        /// Samples with a smaller target.
        no: usize,
    },
    /// The loss or the gradient is no longer a number.
    #[error("the loss became {loss} at batch {batch}; lower the learning rate")]
    Diverged {
        /// The batch, from 0, over all epochs.
        batch: usize,
        /// The loss at that batch.
        loss: f32,
    },
    /// The model cannot read the samples.
    #[error("the model cannot be trained on these texts")]
    Model(
        /// The cause.
        #[from]
        ModelError,
    ),
}
