//! Detector D2: character n-grams within words, TF-IDF and logistic regression; trained and applied here.
//!
//! Equal to scikit-learn's `TfidfVectorizer(analyzer="char_wb", sublinear_tf=True, strip_accents="unicode")` followed
//! by `LogisticRegression(class_weight="balanced")`, and the same bits on every x86-64 machine.

mod file;
mod folding;
mod gram;
mod model;
mod vocabulary;

pub use file::LoadError;
pub use folding::Lengths;
pub use model::{Contribution, NgramModel, TrainingFile, TrainingOrigin, train};

use crate::logistic::{FitError, FitOptions};

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NgramOptions {
    /// How long n-grams are.
    pub lengths: Lengths,
    /// How many are kept, the most frequent; at most 2^20.
    pub max_features: usize,
    /// In how many texts an n-gram must stand, scikit-learn's `min_df`.
    pub min_texts: usize,
    /// The regression.
    pub fit: FitOptions,
}

impl Default for NgramOptions {
    /// The paper's: lengths 1 to 4, 15,000 n-grams.
    fn default() -> Self {
        let lengths = Lengths { min: 1, max: 4 };
        Self { lengths, max_features: 15_000, min_texts: 1, fit: FitOptions::default() }
    }
}

impl NgramOptions {
    fn check(&self) -> Result<(), NgramTrainError> {
        let Lengths { min, max } = self.lengths;
        if !self.lengths.is_valid() {
            return Err(NgramTrainError::Lengths { min, max });
        }
        if !(1..=vocabulary::MAX_FEATURES).contains(&self.max_features) {
            return Err(NgramTrainError::MaxFeatures { max_features: self.max_features });
        }
        Ok(())
    }
}

/// Texts or options that give no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NgramTrainError {
    /// No texts.
    #[error("there is no text to train on; check that the file is not empty")]
    Empty,
    /// Texts without words, or options that leave no n-gram.
    #[error(
        "{texts} texts, and no n-gram stands in enough of them; check the texts or lower `min_texts`"
    )]
    NoFeatures {
        /// Texts given.
        texts: usize,
    },
    /// A range of lengths that is empty or too long.
    #[error(
        "n-grams of {min} to {max} characters cannot be used; take lengths from 1 to 6, the shortest first"
    )]
    Lengths {
        /// Shortest.
        min: usize,
        /// Longest.
        max: usize,
    },
    /// No features, or more than a model may have.
    #[error("`max_features` is {max_features}; it must be from 1 to 1048576")]
    MaxFeatures {
        /// What was given.
        max_features: usize,
    },
    /// The texts were made so that their n-grams collide.
    #[error(
        "the n-grams of these texts collide in the table; leave out texts that were made to do that"
    )]
    Crowded,
    /// The regression could not be fitted.
    #[error("the regression could not be fitted: {0}")]
    Fit(FitError),
}
