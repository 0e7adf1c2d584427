#![doc = include_str!("../README.md")]
//!
//! # Reading order
//!
//! Each module uses only modules above it.
//!
//! - [`finding`]: what a detector reports, and where.
//! - [`normalise`](mod@normalise): the normal form of a text that detectors read, with a map back to the original.
//! - [`fields`](mod@fields): the texts inside structured output.
//! - [`rules`]: detector D1, pattern rules over every view of a text.
//! - [`exact_math`], [`logistic`], [`ngram`]: detector D2, reproducible bit for bit on every machine.
//! - [`segments`], [`text_kind`], [`language`]: the parts of a text, its kind and its language.
//! - [`labels`], [`calibration`]: labels of training data, and thresholds from calibration rows.
//! - [`ngram_stage`], [`transformer`], [`screen`]: the cascade of rules, n-gram models and a transformer.
//! - [`behaviour`]: what a model's answer shows about an attack on it.
//! - [`prefilter`]: the pipeline's prefilter on sentence vectors.

pub mod behaviour;
pub mod calibration;
pub mod exact_math;
pub mod fields;
pub mod finding;
pub mod labels;
pub mod language;
pub mod logistic;
pub mod ngram;
pub mod ngram_stage;
pub mod normalise;
pub mod prefilter;
pub mod rules;
pub mod screen;
pub mod segments;
pub mod text_kind;
pub mod transformer;

mod blocks;
mod built_in;
mod regression_file;

pub use behaviour::{RunContext, harmful_intents, inspect_answer, is_refusal};
pub use built_in::built_in_file;
pub use fields::{Field, fields};
pub use finding::{DetectorFinding, Severity, TextView};
pub use normalise::{MAX_TEXT_BYTES, NormalisedText, TextTooLong, normalise};
pub use regression_file::RegressionFileError;
pub use rules::{RuleSet, ScanResult};
pub use screen::{FLAGGED_FROM, ScreenError, ScreenResult, ScreenStage, Screener};
pub use text_kind::TextKind;
pub use transformer::{TransformerFiles, TransformerFilesError};
