//! Detector D2: character n-grams within words, TF-IDF and logistic regression.
//!
//! Equivalent to scikit-learn's `TfidfVectorizer(analyzer="char_wb", sublinear_tf=True, strip_accents="unicode")`
//! followed by `LogisticRegression(class_weight="balanced")`, with the same bits on every x86-64 machine.

mod file;
mod folding;
mod gram;
mod model;
mod vocabulary;

pub use file::LoadError;
pub use folding::NgramLengths;
pub use model::{Contribution, NgramModel, TrainingFile, TrainingOrigin, train};

use crate::logistic::{FitError, FitOptions};

/// The options of training.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NgramOptions {
    /// The lengths of n-grams.
    pub lengths: NgramLengths,
    /// The largest number of n-grams, of which the most frequent are kept; at most 2^20.
    pub max_features: usize,
    /// The smallest number of texts that contain an n-gram, scikit-learn's `min_df`.
    pub min_texts: usize,
    /// The options of the regression.
    pub fit: FitOptions,
}

impl Default for NgramOptions {
    /// The options of the paper: lengths 1 to 4, 15,000 n-grams.
    fn default() -> Self {
        let lengths = NgramLengths { min: 1, max: 4 };
        Self { lengths, max_features: 15_000, min_texts: 1, fit: FitOptions::default() }
    }
}

impl NgramOptions {
    fn check(&self) -> Result<(), NgramTrainError> {
        let NgramLengths { min, max } = self.lengths;
        if !self.lengths.is_valid() {
            return Err(NgramTrainError::Lengths { min, max });
        }
        if !(1..=vocabulary::MAX_FEATURES).contains(&self.max_features) {
            return Err(NgramTrainError::MaxFeatures { max_features: self.max_features });
        }
        Ok(())
    }
}

/// Texts or options that no model can be trained with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NgramTrainError {
    /// There are no texts.
    #[error("there are no texts to train on")]
    Empty,
    /// The texts have no words, or no n-gram is frequent enough.
    #[error("no n-gram occurs in enough of the {texts} texts; `min_texts` may be too large")]
    NoFeatures {
        /// The number of texts.
        texts: usize,
    },
    /// The range of lengths is empty or too long.
    #[error(
        "n-gram lengths {min} to {max} are invalid; they must be from 1 to 6, in ascending order"
    )]
    Lengths {
        /// The shortest length.
        min: usize,
        /// The longest length.
        max: usize,
    },
    /// No features, or more than a model may have.
    #[error("`max_features` is {max_features}; it must be from 1 to 1048576")]
    MaxFeatures {
        /// The number given.
        max_features: usize,
    },
    /// Too many n-grams have the same hash. Only crafted texts cause this.
    #[error("too many n-grams of these texts have the same hash; some texts were crafted for that")]
    HashCollision,
    /// The regression could not be fitted.
    #[error("the regression could not be fitted: {0}")]
    Fit(FitError),
}
