//! How the shipped detectors are made, so that anybody can make them again.
//!
//! - [`corpus`]: what is trained and calibrated on, from rows whose licence allows it ([`sources`]) and texts
//!   written for this project ([`written`]).
//! - [`ngrams`]: the models of the default detector.
//! - [`cuts`]: their operating points.
//! - [`embedding`]: the regression of the prefilter.
//! - [`attempts`], [`transcripts`]: what is tried in the sandbox, and what was answered there.
//! - [`behaviour`]: the trained detector of compromised agents.
//! - [`transformer`]: the transformer of the full detector.

pub mod attempts;
pub mod behaviour;
pub mod buried;
pub mod corpus;
pub mod cuts;
pub mod embedding;
pub mod error;
pub mod ngrams;
pub mod parts;
pub mod sources;
pub mod transcripts;
pub mod transformer;
pub mod written;

pub use error::RecipeError;
