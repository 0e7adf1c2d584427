//! The prefilter's regression as a file: JSON that a person can read, so that loading it runs nothing.

use custody_models::ModelError;
use serde::{Deserialize, Serialize};

use super::STRONG;
use crate::exact_math::sigmoid;
use crate::ngram::Origin;

const FORMAT: &str = "custody-prefilter";
const VERSION: u32 = 1;
/// A file is refused beyond this size before anything in it is read: 4,096 weights fit several times.
const MAX_BYTES: usize = 1 << 20;
/// The longest vector.
const MAX_DIMENSION: usize = 4_096;

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

/// Bytes that are no regression of ours.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// Larger than any can be.
    #[error(
        "the prefilter's file has {bytes} bytes, more than any; check that it is the right file"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Cut off, or no JSON with these fields.
    #[error(
        "the prefilter's file is damaged or another kind of file; fetch it again or train anew"
    )]
    Damaged(#[source] serde_json::Error),
    /// Whole, but not usable.
    #[error("the prefilter's file cannot be used: {why}; fetch it again or train anew")]
    Unusable {
        /// What is wrong with it.
        why: String,
    },
}

impl PrefilterModel {
    /// A regression on vectors of the model whose weights have the SHA-256 `base`. Nothing reaches its
    /// threshold before [`Self::calibrated`].
    ///
    /// # Errors
    /// [`ModelFileError::Unusable`] for no weights, too many, or a value that is no number.
    pub fn new(
        base: &str,
        weights: Vec<f32>,
        intercept: f32,
        origin: Origin,
    ) -> Result<Self, ModelFileError> {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
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
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain structs of finite numbers");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a model from a file's bytes, which may be hostile.
    ///
    /// # Errors
    /// [`ModelFileError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        if bytes.len() > MAX_BYTES {
            return Err(ModelFileError::TooLarge { bytes: bytes.len() });
        }
        let model: Self = serde_json::from_slice(bytes).map_err(ModelFileError::Damaged)?;
        model.checked()
    }

    fn checked(self) -> Result<Self, ModelFileError> {
        let unusable = |why: String| Err(ModelFileError::Unusable { why });
        if self.format != FORMAT || self.version != VERSION {
            return unusable(format!("it is `{}` of version {}", self.format, self.version));
        }
        let count = self.weights.len();
        if !(1..=MAX_DIMENSION).contains(&count) {
            return unusable(format!("it has {count} weights"));
        }
        let numbers = self.weights.iter().chain([&self.intercept, &self.threshold]);
        if !numbers.copied().all(f32::is_finite) {
            return unusable("a value is not a finite number".to_owned());
        }
        // A threshold of 0 flags everything, and is sound; below there is no score.
        if self.threshold < 0.0 {
            return unusable(format!("its threshold is {}", self.threshold));
        }
        Ok(self)
    }

    /// Whether it was trained on vectors of the model whose weights have the SHA-256 `base`.
    ///
    /// # Errors
    /// [`ModelError::AnotherBase`].
    pub fn check_base(&self, base: &str) -> Result<(), ModelError> {
        if self.base == base {
            return Ok(());
        }
        Err(ModelError::AnotherBase { wanted: self.base.clone(), found: base.to_owned() })
    }

    /// How sure it is that a text with this vector is an attack, in `[0, 1]`. A vector that is no vector is one.
    #[must_use]
    pub fn probability(&self, vector: &[f32]) -> f64 {
        let product: f64 = self
            .weights
            .iter()
            .zip(vector)
            .map(|(weight, value)| f64::from(*weight) * f64::from(*value))
            .sum();
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
