//! How suspicious a text looks: advice, never a decision.
//!
//! In reading order:
//!
//! - [`finding`]: what a detector found, and where.
//! - [`normalise`](mod@normalise): a text as the detectors read it, with a map back.
//! - [`rules`]: D1, rules over every reading of a text.
//! - [`fields`](mod@fields): the texts inside structured output.
//! - [`behaviour`](mod@behaviour): what a model's answer shows.

pub mod behaviour;
mod blocks;
pub mod fields;
pub mod finding;
pub mod normalise;
pub mod rules;

pub use behaviour::{Watch, behaviour, intents};
pub use fields::{Field, fields};
pub use finding::{Finding, Severity, View};
pub use normalise::{MAX_TEXT_BYTES, Normalised, TextTooLong, normalise};
pub use rules::{Rules, Scan};
