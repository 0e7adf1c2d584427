//! The regression of the trained detector as a file: JSON that a person can read, so that loading it runs nothing.

use custody_models::ModelError;
use serde::{Deserialize, Serialize};

use super::trained::{Features, Pair};
use crate::calibration::{Band, Rates, Verdict};
use crate::ngram::Origin;

const FORMAT: &str = "custody-behaviour";
const VERSION: u32 = 1;
/// A file is refused beyond this size before anything in it is read: the weights of any vectors fit several times.
const MAX_BYTES: usize = 1 << 20;
/// The longest vector.
const MAX_DIMENSION: usize = 4_096;

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

/// Bytes that are no regression of ours.
#[derive(Debug, thiserror::Error)]
pub enum RegressionError {
    /// Larger than any can be.
    #[error(
        "the file of the behaviour detector has {bytes} bytes, more than any; check that it is the right file"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Cut off, or no JSON with these fields.
    #[error(
        "the file of the behaviour detector is damaged or another kind of file; fetch it again or train anew"
    )]
    Damaged(#[source] serde_json::Error),
    /// Whole, but not usable.
    #[error(
        "the file of the behaviour detector cannot be used: {why}; fetch it again or train anew"
    )]
    Unusable {
        /// What is wrong with it.
        why: String,
    },
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
    /// [`RegressionError::Unusable`] for too many or too few weights, or a value that is no number.
    pub fn new(basis: Basis, weights: Vec<f32>, intercept: f32) -> Result<Self, RegressionError> {
        let Basis { base, dimension, features, origin } = basis;
        let (lower, upper) = (f64::from(f32::MIN), f64::from(f32::MAX));
        let band = Band { lower, upper, benign_rows: 0, attack_rows: 0 };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
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
    /// [`RegressionError::Unusable`] for a band that is none.
    pub fn calibrated(self, band: Band, rates: Rates) -> Result<Self, RegressionError> {
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
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain structs of finite numbers");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a regression from a file's bytes, which may be hostile.
    ///
    /// # Errors
    /// [`RegressionError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RegressionError> {
        if bytes.len() > MAX_BYTES {
            return Err(RegressionError::TooLarge { bytes: bytes.len() });
        }
        let regression: Self = serde_json::from_slice(bytes).map_err(RegressionError::Damaged)?;
        regression.checked()
    }

    fn checked(mut self) -> Result<Self, RegressionError> {
        let unusable = |why: String| Err(RegressionError::Unusable { why });
        if self.format != FORMAT || self.version != VERSION {
            return unusable(format!("it is `{}` of version {}", self.format, self.version));
        }
        if !(1..=MAX_DIMENSION).contains(&self.dimension) {
            return unusable(format!("it is for vectors of {} numbers", self.dimension));
        }
        let (found, wanted) = (self.weights.len(), self.features.width(self.dimension));
        if found != wanted {
            return unusable(format!("it has {found} weights for {wanted} features"));
        }
        if !self.weights.iter().chain([&self.intercept]).all(|value| value.is_finite()) {
            return unusable("a value is not a finite number".to_owned());
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
        if self.base == base {
            return Ok(());
        }
        Err(ModelError::AnotherBase { wanted: self.base.clone(), found: base.to_owned() })
    }

    /// How much speaks for a compromise, as the logarithm of the odds. NaN where a vector holds no numbers.
    #[must_use]
    pub fn decision(&self, pair: &Pair) -> f64 {
        let features = self.features.of(pair);
        let products = self.weights.iter().zip(&features);
        let sum: f64 = products.map(|(weight, value)| f64::from(*weight) * f64::from(*value)).sum();
        f64::from(self.intercept) + sum
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
