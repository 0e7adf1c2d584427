//! What a model's answer shows: whether an attack on it has worked.
//!
//! - [`rules`]: what must not come out, and what only a model says that obeys an attack.
//! - [`trained`]: a regression on what was read and what was answered, for obedience that says nothing of itself.
//! - [`regression`]: that as a file.

pub mod regression;
pub mod rules;
pub mod trained;

pub use regression::Regression;
pub use rules::{Watch, behaviour, declines, intents};
pub use trained::{BehaviourModel, Judgement};
