//! The regression of the trained detector and its file format.

use std::sync::LazyLock;

use custody_models::ModelError;
use serde::{Deserialize, Serialize};

use super::features::{AnswerPair, Features};
use crate::built_in;
use crate::calibration::{Band, Classification, Rates};
use crate::ngram::TrainingOrigin;
use crate::regression_file::{self, FileKind, MAX_DIMENSION, RegressionFileError};

const FILE: FileKind =
    FileKind { what: "the behaviour detector file", format: "custody-behaviour", version: 1 };

/// A logistic regression on pairs of sentence vectors, and its thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regression {
    format: String,
    version: u32,
    base: String,
    dimension: usize,
    features: Features,
    rates: Rates,
    band: Band,
    intercept: f32,
    weights: Vec<f32>,
    origin: TrainingOrigin,
}

/// What a regression was fitted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegressionBasis {
    /// The SHA-256 of the embedding model's weights.
    pub base: String,
    /// The dimension of its vectors.
    pub dimension: usize,
    /// The features computed from a pair of vectors.
    pub features: Features,
    /// The training data.
    pub origin: TrainingOrigin,
}

impl Regression {
    /// A regression with one weight for each feature. Before [`Self::calibrated`] every classification is `Unsure`.
    ///
    /// # Errors
    /// [`RegressionFileError::Invalid`] for a wrong number of weights, or a value that is not finite.
    pub fn new(
        basis: RegressionBasis,
        weights: Vec<f32>,
        intercept: f32,
    ) -> Result<Self, RegressionFileError> {
        let RegressionBasis { base, dimension, features, origin } = basis;
        let (lower, upper) = (f64::from(f32::MIN), f64::from(f32::MAX));
        let band = Band { lower, upper, benign_rows: 0, attack_rows: 0 };
        Self {
            format: FILE.format.to_owned(),
            version: FILE.version,
            base,
            dimension,
            features,
            rates: Rates { false_positive: 0.0, miss: 0.0 },
            band,
            intercept,
            weights,
            origin,
        }
        .checked()
    }

    /// The regression with thresholds that were calibrated for `rates`.
    ///
    /// # Errors
    /// [`RegressionFileError::Invalid`] if the thresholds are not finite and in order.
    pub fn calibrated(self, band: Band, rates: Rates) -> Result<Self, RegressionFileError> {
        Self { band, rates, ..self }.checked()
    }

    /// The compiled-in regression on vectors of all-MiniLM-L6-v2.
    #[must_use]
    pub fn built_in() -> Self {
        static BUILT_IN: LazyLock<Regression> = LazyLock::new(|| {
            Regression::from_bytes(built_in::BEHAVIOUR).expect("a test reads the committed weights")
        });
        BUILT_IN.clone()
    }

    /// The file's bytes. Equal regressions give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        regression_file::to_bytes(self)
    }

    /// Reads a regression from the bytes of an untrusted file.
    ///
    /// # Errors
    /// [`RegressionFileError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RegressionFileError> {
        FILE.read::<Self>(bytes)?.checked()
    }

    fn checked(mut self) -> Result<Self, RegressionFileError> {
        FILE.check((&self.format, self.version), self.weights.iter().chain([&self.intercept]))?;
        if !(1..=MAX_DIMENSION).contains(&self.dimension) {
            return Err(FILE.invalid(format!(
                "its dimension is {}; the limits are 1 and {MAX_DIMENSION}",
                self.dimension
            )));
        }
        let (found, wanted) = (self.weights.len(), self.features.width(self.dimension));
        if found != wanted {
            return Err(FILE.invalid(format!("it has {found} weights for {wanted} features")));
        }
        // A JSON number may differ in its last bit after parsing; the thresholds are of single precision.
        self.band.lower = f64::from(nearest(self.band.lower));
        self.band.upper = f64::from(nearest(self.band.upper));
        let Band { lower, upper, .. } = self.band;
        if !(lower.is_finite() && upper.is_finite() && lower <= upper) {
            return Err(FILE.invalid(format!(
                "its thresholds are {lower} and {upper}; they must be finite and in order"
            )));
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

    /// The log-odds that the agent was compromised; NaN if a vector contains NaN.
    #[must_use]
    pub fn decision(&self, pair: &AnswerPair) -> f64 {
        f64::from(self.intercept) + regression_file::product(&self.weights, &self.features.of(pair))
    }

    /// The classification of a decision value; `Unsure` for NaN.
    #[must_use]
    pub fn classify(&self, decision: f64) -> Classification {
        if decision >= self.band.upper {
            Classification::Attack
        } else if decision < self.band.lower {
            Classification::Clean
        } else {
            Classification::Unsure
        }
    }

    /// The dimension of its vectors.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The features it uses.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// The thresholds over decision values.
    #[must_use]
    pub fn band(&self) -> &Band {
        &self.band
    }

    /// The data it was trained on.
    #[must_use]
    pub fn origin(&self) -> &TrainingOrigin {
        &self.origin
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
fn nearest(cut: f64) -> f32 {
    cut as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_weights_can_be_read() {
        assert!(!Regression::built_in().origin().data.is_empty());
    }
}
