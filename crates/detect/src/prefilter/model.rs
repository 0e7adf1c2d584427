//! The prefilter's regression and its file format.

use std::sync::LazyLock;

use custody_models::ModelError;
use serde::{Deserialize, Serialize};

use crate::built_in;
use crate::exact_math::sigmoid;
use crate::ngram::TrainingOrigin;
use crate::regression_file::{self, FileKind, MAX_DIMENSION, RegressionFileError};

/// The score of a text that matches a strong rule.
pub(super) const STRONG: f32 = 0.95;

const FILE: FileKind =
    FileKind { what: "the prefilter file", format: "custody-prefilter", version: 1 };

/// A logistic regression on sentence vectors of length 1, and the score from which a text is suspicious.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefilterModel {
    format: String,
    version: u32,
    base: String,
    threshold: f32,
    calibration: CalibrationRows,
    intercept: f32,
    weights: Vec<f32>,
    origin: TrainingOrigin,
}

/// How the threshold was calibrated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CalibrationRows {
    /// The share of benign texts that may be flagged.
    false_positive_rate: f64,
    /// The number of benign texts.
    rows: usize,
}

impl PrefilterModel {
    /// A regression on vectors of the embedding model whose weights have the SHA-256 `base`. No score reaches its
    /// threshold before [`Self::calibrated`].
    ///
    /// # Errors
    /// [`RegressionFileError::Invalid`] for no weights, more than 4096, or a value that is not finite.
    pub fn new(
        base: &str,
        weights: Vec<f32>,
        intercept: f32,
        origin: TrainingOrigin,
    ) -> Result<Self, RegressionFileError> {
        Self {
            format: FILE.format.to_owned(),
            version: FILE.version,
            base: base.to_owned(),
            threshold: 1.0_f32.next_up(),
            calibration: CalibrationRows::default(),
            intercept,
            weights,
            origin,
        }
        .checked()
    }

    /// The regression with a `threshold` that was calibrated to a `false_positive_rate` on `rows` benign texts. It is
    /// rounded up to single precision, and at most 0.95, so that a strong rule is always suspicious.
    #[must_use]
    pub fn calibrated(self, threshold: f64, false_positive_rate: f64, rows: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "rounded up again below")]
        let near = threshold as f32;
        let above = if f64::from(near) < threshold { near.next_up() } else { near };
        let threshold = above.min(STRONG);
        Self { threshold, calibration: CalibrationRows { false_positive_rate, rows }, ..self }
    }

    /// The compiled-in regression on vectors of all-MiniLM-L6-v2.
    #[must_use]
    pub fn built_in() -> Self {
        static BUILT_IN: LazyLock<PrefilterModel> = LazyLock::new(|| {
            PrefilterModel::from_bytes(built_in::PREFILTER)
                .expect("a test reads the committed weights")
        });
        BUILT_IN.clone()
    }

    /// The file's bytes. Equal models give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        regression_file::to_bytes(self)
    }

    /// Reads a model from the bytes of an untrusted file.
    ///
    /// # Errors
    /// [`RegressionFileError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RegressionFileError> {
        FILE.read::<Self>(bytes)?.checked()
    }

    fn checked(self) -> Result<Self, RegressionFileError> {
        let numbers = self.weights.iter().chain([&self.intercept, &self.threshold]);
        FILE.check((&self.format, self.version), numbers)?;
        let count = self.weights.len();
        if !(1..=MAX_DIMENSION).contains(&count) {
            return Err(FILE
                .invalid(format!("it has {count} weights; the limits are 1 and {MAX_DIMENSION}")));
        }
        // A threshold of 0 flags every text and is valid; no score is negative.
        if self.threshold < 0.0 {
            return Err(FILE
                .invalid(format!("its threshold is {}; it must not be negative", self.threshold)));
        }
        Ok(self)
    }

    /// Checks that it was trained on vectors of the model whose weights have the SHA-256 `base`.
    ///
    /// # Errors
    /// [`ModelError::AnotherBase`] if not.
    pub fn check_base(&self, base: &str) -> Result<(), ModelError> {
        regression_file::check_base(&self.base, base)
    }

    /// The probability that a text with this vector is an attack, in `[0, 1]`; 1 for a vector that is not finite.
    #[must_use]
    pub fn probability(&self, vector: &[f32]) -> f64 {
        let product = regression_file::product(&self.weights, vector);
        let probability = sigmoid(f64::from(self.intercept) + product);
        if probability.is_finite() { probability } else { 1.0 }
    }

    /// The dimension of its vectors.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.weights.len()
    }

    /// The score from which a text is suspicious.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        f64::from(self.threshold)
    }

    /// The data it was trained on.
    #[must_use]
    pub fn origin(&self) -> &TrainingOrigin {
        &self.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_weights_can_be_read() {
        assert!(!PrefilterModel::built_in().origin().data.is_empty());
    }
}
