//! Detectors measured: how much they find, how much they flag wrongly, how sure and how fast they are.
//!
//! - [`sets`]: the texts, and how they are parted.
//! - [`metrics`], [`bootstrap`]: figures over scores and labels, and their intervals.

pub mod sets;

pub mod metrics;

pub mod bootstrap;
