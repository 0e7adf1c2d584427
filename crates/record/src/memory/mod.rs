//! Agent memory: items, the limits of their changes, and every way to say no.
//!
//! In reading order: [`item`] (what is protected), [`rate`], [`review`] (what waits for a human), [`refusal`].

pub mod item;
pub mod rate;
pub mod refusal;
pub mod review;
