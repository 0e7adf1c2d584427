//! Why detectors could not be made.

use custody_detect::RegressionFileError;
use custody_detect::behaviour::JudgeError;
use custody_detect::calibration::CalibrationError;
use custody_detect::logistic::FitError;
use custody_detect::ngram::NgramTrainError;
use custody_detect::normalise::TextTooLong;
use custody_detect::prefilter::PrefilterError;
use custody_detect::screen::ScreenError;

use crate::data::DataError;
use crate::vectors::VectorsError;

/// Detectors that could not be trained or calibrated.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The rows.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A row that is longer than what is ever screened.
    #[error("a row cannot be trained on")]
    Row(#[from] TextTooLong),
    /// The n-gram models.
    #[error("the n-gram models could not be trained")]
    Ngram(#[from] NgramTrainError),
    /// The transformer.
    #[error("the transformer could not be trained")]
    Transformer(#[from] custody_models::train::TrainError),
    /// The thresholds.
    #[error("the thresholds could not be calibrated")]
    Calibration(#[from] CalibrationError),
    /// The sentence vectors.
    #[error(transparent)]
    Vectors(#[from] VectorsError),
    /// A regression.
    #[error("the regression could not be fitted")]
    Fit(#[from] FitError),
    /// A regression that cannot be kept.
    #[error("the regression cannot be kept")]
    Regression(#[from] RegressionFileError),
    /// A transcript that cannot be made vectors of.
    #[error("a transcript could not be read by the embedding model")]
    Judge(#[source] Box<JudgeError>),
    /// The prefilter failed on a row.
    #[error("a row could not be judged by the prefilter")]
    Prefilter(#[from] PrefilterError),
    /// A detector that failed on a calibration row.
    #[error("a calibration row could not be scored")]
    Screen(#[from] ScreenError),
}
