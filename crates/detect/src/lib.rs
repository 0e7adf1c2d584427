//! How suspicious a text looks: advice, never a decision.
//!
//! In reading order:
//!
//! - [`finding`]: what a detector found, and where.
//! - [`normalise`](mod@normalise): a text as the detectors read it, with a map back.
//! - [`rules`]: D1, rules over every reading of a text.
//! - [`ngram`], with [`logistic`] and [`exact_math`]: D2, trained and applied with the same bits everywhere.
//! - [`segments`], [`structure`], [`language`]: what kind of text it is, and its parts.
//! - [`calibration`], [`labels`]: thresholds from calibration rows, and what a label may be.
//! - [`fields`](mod@fields): the texts inside structured output.
//! - [`behaviour`](mod@behaviour): what a model's answer shows.
//! - [`screen`]: the cascade over all of them; [`transformer`]: its last stage; [`reader`]: the model in it.
//! - [`prefilter`]: PIPE's, which runs on a sentence vector; `regression_file` is how it is kept.

pub mod behaviour;
mod blocks;
pub mod calibration;
pub mod exact_math;
pub mod fields;
pub mod finding;
pub mod labels;
pub mod language;
pub mod logistic;
pub mod ngram;
pub mod normalise;
pub mod prefilter;
pub mod reader;
mod regression_file;
pub mod rules;
pub mod screen;
pub mod segments;
pub mod structure;
pub mod transformer;

mod weights;

pub use behaviour::{Watch, behaviour, declines, intents};
pub use fields::{Field, fields};
pub use finding::{Finding, Severity, View};
pub use normalise::{MAX_TEXT_BYTES, Normalised, TextTooLong, normalise};
pub use regression_file::RegressionFileError;
pub use rules::{Rules, Scan};
pub use weights::{TransformerFiles, WeightsError, built_in_file};
