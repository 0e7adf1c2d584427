//! The pipeline measured: where texts go, what reaches production, and whether an attack works there.
//!
//! - [`demands`]: what a successful answer holds, row by row. [`checks`]: whether an answer does.
//! - [`cases`]: the texts. [`sample`]: which of them are tried.
//! - [`production`]: the agent that everything is for. [`listener`]: what a model was asked and answered.
//! - [`trial`]: one text tried, kept when it is done.
//! - [`baseline`], [`suite`]: `custody eval baseline` and `custody eval route`.
//! - `figures`, `tables`, `flows`, `published`: what the reports say and show.

pub mod baseline;
pub mod cases;
pub mod checks;
pub mod demands;
pub mod listener;
pub mod production;
pub mod sample;
pub mod suite;
pub mod trial;

mod figures;
mod flows;
mod published;
mod tables;
