//! Detectors measured: how much they find, how much they flag wrongly, how sure and how fast they are.
//!
//! - [`metrics`], [`bootstrap`]: figures over scores and labels, and their intervals.

pub mod metrics;

pub mod bootstrap;
