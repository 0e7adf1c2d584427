//! Detectors measured: how much they find, how much they flag wrongly, how sure and how fast they are.
//!
//! - [`sets`]: the texts, and how they are parted.
//! - [`metrics`], [`bootstrap`], `clusters`: figures over scores and labels, and their intervals.
//! - [`detector`]: what is measured. [`mixture`]: methods pooled. [`mod@unit`]: one piece of work, kept when done.
//! - [`methods`]: the detectors and recipes that are measured.
//! - [`suite`]: `custody eval detection`, with [`published`] figures and [`pictures`].
//! - [`overdefence`], [`buried`], [`prefilter`], [`behaviour`]: the suites of those names.
//! - [`pipe`]: PIPE's prefilter, for the last of them.
//! - [`python`]: the same work in Python, when it is there. [`speed`]: ours beside it.

pub mod sets;

pub mod metrics;

pub mod bootstrap;

mod clusters;

pub mod detector;

pub mod mixture;

pub mod unit;

pub mod methods;

pub mod suite;

mod figures;

pub mod published;

pub mod pictures;

pub mod overdefence;

pub mod buried;

pub mod prefilter;

pub mod behaviour;

pub mod pipe;

pub mod python;

pub mod speed;
