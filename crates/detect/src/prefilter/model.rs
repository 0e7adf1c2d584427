//! The prefilter's regression, and what its file must hold.

use custody_models::ModelError;
use serde::{Deserialize, Serialize};

use super::STRONG;
use crate::exact_math::sigmoid;
use crate::ngram::Origin;
use crate::regression_file::{self, FileKind, MAX_DIMENSION, RegressionFileError};

const FILE: FileKind =
    FileKind { what: "the prefilter's file", format: "custody-prefilter", version: 1 };

/// A logistic regression on sentence vectors of length 1, and the score from which a text is suspicious.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefilterModel {
    format: String,
    version: u32,
    base: String,
    threshold: f32,
    calibration: Rows,
    intercept: f32,
    weights: Vec<f32>,
    origin: Origin,
}

/// What a threshold rests on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows {
    /// Share of ordinary texts that may be flagged.
    false_positive_rate: f64,
    /// Ordinary texts that it was chosen on.
    rows: usize,
}

impl PrefilterModel {
    /// A regression on vectors of the model whose weights have the SHA-256 `base`. Nothing reaches its
    /// threshold before [`Self::calibrated`].
    ///
    /// # Errors
    /// [`RegressionFileError::Unusable`] for no weights, too many, or a value that is no number.
    pub fn new(
        base: &str,
        weights: Vec<f32>,
        intercept: f32,
        origin: Origin,
    ) -> Result<Self, RegressionFileError> {
        Self {
            format: FILE.format.to_owned(),
            version: FILE.version,
            base: base.to_owned(),
            threshold: 1.0_f32.next_up(),
            calibration: Rows::default(),
            intercept,
            weights,
            origin,
        }
        .checked()
    }

    /// Suspicious from `threshold` on, which was chosen for a `false_positive_rate` on `rows` ordinary texts. The
    /// next number of single precision is kept, and none above 0.95: a strong rule is always suspicious.
    #[must_use]
    pub fn calibrated(self, threshold: f64, false_positive_rate: f64, rows: usize) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "raised again where it was rounded down"
        )]
        let near = threshold as f32;
        let above = if f64::from(near) < threshold { near.next_up() } else { near };
        let threshold = above.min(STRONG);
        Self { threshold, calibration: Rows { false_positive_rate, rows }, ..self }
    }

    /// The regression that is compiled in, on the vectors of all-MiniLM-L6-v2.
    #[must_use]
    pub fn built_in() -> Self {
        crate::weights::prefilter()
    }

    /// The model as a file's bytes. Equal models give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        regression_file::to_bytes(self)
    }

    /// Reads a model from a file's bytes, which may be hostile.
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
            return Err(FILE.unusable(format!("it has {count} weights")));
        }
        // A threshold of 0 flags everything, and is sound; below there is no score.
        if self.threshold < 0.0 {
            return Err(FILE.unusable(format!("its threshold is {}", self.threshold)));
        }
        Ok(self)
    }

    /// Whether it was trained on vectors of the model whose weights have the SHA-256 `base`.
    ///
    /// # Errors
    /// [`ModelError::AnotherBase`].
    pub fn check_base(&self, base: &str) -> Result<(), ModelError> {
        regression_file::check_base(&self.base, base)
    }

    /// How sure it is that a text with this vector is an attack, in `[0, 1]`. A vector that is no vector is one.
    #[must_use]
    pub fn probability(&self, vector: &[f32]) -> f64 {
        let product = regression_file::product(&self.weights, vector);
        let probability = sigmoid(f64::from(self.intercept) + product);
        if probability.is_finite() { probability } else { 1.0 }
    }

    /// Numbers in a vector.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.weights.len()
    }

    /// Suspicious from this score on.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        f64::from(self.threshold)
    }

    /// What it was trained on.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}
