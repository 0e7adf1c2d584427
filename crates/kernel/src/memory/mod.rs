//! Agent memory: items, the reference monitor that decides about them, and human review.
//!
//! In reading order: [`item`] (what is protected), [`monitor`] (the nine rules), [`rate`],
//! [`review`] (what only a human may do), [`refusal`] (every way to say no).

pub mod item;
pub mod monitor;
pub mod rate;
pub mod refusal;
pub mod review;
