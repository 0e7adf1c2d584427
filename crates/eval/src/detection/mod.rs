//! Detectors measured: how much they find, how much they flag wrongly, how sure and how fast they are.
//!
//! - [`sets`]: the texts, and how they are parted.
//! - [`detector`]: what is measured. [`unit`]: one piece of work, kept when it is done.
//! - [`suite`]: `custody eval detection`. [`published`]: what others say. [`pictures`]: how it looks.
//! - [`overdefence`], [`buried`], [`prefilter`]: the suites of those names.
//! - [`python`]: the same work in Python, when it is there.
//! - [`metrics`], [`bootstrap`]: figures over scores and labels, and their intervals.

pub mod sets;

pub mod detector;

pub mod unit;

pub mod suite;

pub mod overdefence;

pub mod buried;

pub mod prefilter;

pub mod python;

pub mod published;

pub mod pictures;

mod figures;

pub mod metrics;

pub mod bootstrap;
