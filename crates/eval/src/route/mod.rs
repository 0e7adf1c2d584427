//! The pipeline measured: where texts go, what reaches production, and whether an attack works there.
//!
//! - [`demands`]: what a successful answer holds, row by row. [`checks`]: whether an answer does.
//! - [`cases`]: the texts. [`sample`]: which of them are tried.
//! - [`production`]: the agent that everything is for. [`listener`]: what a model was asked and answered.
//! - [`trial`]: one text tried, kept when it is done.
//! - [`baseline`], [`suite`]: `custody eval baseline` and `custody eval route`.
//! - [`figures`], [`tables`], [`flows`], [`published`]: what the reports say and show.

pub mod demands;

pub mod checks;

pub mod cases;

pub mod sample;

pub mod production;

pub mod listener;

pub mod trial;

pub mod baseline;

pub mod suite;

mod figures;

mod tables;

mod flows;

mod published;
