//! What a model's answer shows: whether an attack on it has worked.
//!
//! - [`rules`]: what must not come out, and what only a model says that obeys an attack.

pub mod rules;

pub use rules::{Watch, behaviour, declines, intents};
