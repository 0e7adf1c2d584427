//! The texts that detectors are measured on.
//!
//! - [`rows`]: the splits of the papers.
//! - [`parts`]: train, calibration and test by document; folds; leaks; what counts as the same text.
//! - [`ordinary`]: sets in which nothing should be flagged.
//! - [`buried`]: attacks inside tool answers, e-mails, tables and code, with clean twins.
//! - [`language`]: in which row of a table a text is counted.

pub mod rows;

pub mod parts;

pub mod ordinary;

pub mod buried;

pub mod language;

pub use parts::SetPart;
pub use rows::{Labelled, Split};
