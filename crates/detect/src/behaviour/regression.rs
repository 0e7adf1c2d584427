//! The regression of the trained detector, and what its file must hold.

use custody_models::ModelError;
use serde::{Deserialize, Serialize};

use super::trained::{Features, Pair};
use crate::calibration::{Band, Rates, Verdict};
use crate::ngram::Origin;
use crate::regression_file::{self, FileKind, MAX_DIMENSION, RegressionFileError};

const FILE: FileKind = FileKind {
    what: "the file of the behaviour detector",
    format: "custody-behaviour",
    version: 1,
};

/// A logistic regression on pairs of sentence vectors, and from which decisions on it says something.
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
    origin: Origin,
}

/// What a regression is fitted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    /// The SHA-256 of the embedding model's weights.
    pub base: String,
    /// Numbers in one of its vectors.
    pub dimension: usize,
    /// What is made of a pair of them.
    pub features: Features,
    /// The transcripts.
    pub origin: Origin,
}

impl Regression {
    /// A regression with one weight for each feature. Before [`Self::calibrated`] it is always unsure.
    ///
    /// # Errors
    /// [`RegressionFileError::Unusable`] for too many or too few weights, or a value that is no number.
    pub fn new(
        basis: Basis,
        weights: Vec<f32>,
        intercept: f32,
    ) -> Result<Self, RegressionFileError> {
        let Basis { base, dimension, features, origin } = basis;
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

    /// Decides by `band`, which was chosen for `rates`.
    ///
    /// # Errors
    /// [`RegressionFileError::Unusable`] for a band that is none.
    pub fn calibrated(self, band: Band, rates: Rates) -> Result<Self, RegressionFileError> {
        Self { band, rates, ..self }.checked()
    }

    /// The regression that is compiled in, on the vectors of all-MiniLM-L6-v2.
    #[must_use]
    pub fn built_in() -> Self {
        crate::weights::behaviour()
    }

    /// The regression as a file's bytes. Equal ones give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        regression_file::to_bytes(self)
    }

    /// Reads a regression from a file's bytes, which may be hostile.
    ///
    /// # Errors
    /// [`RegressionFileError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RegressionFileError> {
        FILE.read::<Self>(bytes)?.checked()
    }

    fn checked(mut self) -> Result<Self, RegressionFileError> {
        FILE.check((&self.format, self.version), self.weights.iter().chain([&self.intercept]))?;
        let unusable = |why: String| Err(FILE.unusable(why));
        if !(1..=MAX_DIMENSION).contains(&self.dimension) {
            return unusable(format!("it is for vectors of {} numbers", self.dimension));
        }
        let (found, wanted) = (self.weights.len(), self.features.width(self.dimension));
        if found != wanted {
            return unusable(format!("it has {found} weights for {wanted} features"));
        }
        // Numbers in JSON may come back one bit off; the cuts are of single precision.
        self.band.lower = f64::from(nearest(self.band.lower));
        self.band.upper = f64::from(nearest(self.band.upper));
        let Band { lower, upper, .. } = self.band;
        if !(lower.is_finite() && upper.is_finite() && lower <= upper) {
            return unusable(format!("it is unsure from {lower} to {upper}"));
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

    /// How much speaks for a compromise, as the logarithm of the odds. NaN where a vector holds no numbers.
    #[must_use]
    pub fn decision(&self, pair: &Pair) -> f64 {
        f64::from(self.intercept) + regression_file::product(&self.weights, &self.features.of(pair))
    }

    /// What a decision says; one that is no number says nothing.
    #[must_use]
    pub fn verdict(&self, decision: f64) -> Verdict {
        if decision >= self.band.upper {
            Verdict::Attack
        } else if decision < self.band.lower {
            Verdict::Clean
        } else {
            Verdict::Unsure
        }
    }

    /// Numbers in a vector.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// What is made of a pair of vectors.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// The cuts, in decisions.
    #[must_use]
    pub fn band(&self) -> &Band {
        &self.band
    }

    /// What it was trained on.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, as intended")]
fn nearest(cut: f64) -> f32 {
    cut as f32
}
