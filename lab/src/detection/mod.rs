//! Detectors measured: how much they find, how much they flag wrongly, how sure and how fast they are.
//!
//! - [`bootstrap`], `clusters`: intervals of figures over scores and labels.
//! - [`detector`]: what is measured. [`mixture`]: methods pooled. [`mod@unit`]: one piece of work, kept when done.
//! - [`methods`]: the detectors and recipes that are measured.
//! - [`suite`]: `custody eval detection`, with [`published`] figures and [`pictures`].
//! - [`overdefence`], [`buried`], [`prefilter`], [`behaviour`]: the suites of those names.
//! - [`pipe`]: PIPE's prefilter, for the last of them.
//! - [`python`]: the same work in Python, when it is there. [`speed`]: ours beside it.

pub mod behaviour;
pub mod bootstrap;
pub mod buried;
mod clusters;
pub mod detector;
mod figures;
pub mod methods;
pub mod mixture;
pub mod overdefence;
pub mod pictures;
pub mod pipe;
pub mod prefilter;
pub mod published;
pub mod python;
pub mod speed;
pub mod suite;
pub mod unit;
