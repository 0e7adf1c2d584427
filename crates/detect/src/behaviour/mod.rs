//! Whether a model's answer shows that an attack on it succeeded.
//!
//! - [`rules`]: leaked secrets, and phrases typical of a model that follows an attack.
//! - [`features`]: what the trained detector computes from a text and an answer.
//! - [`regression`]: the regression on these features, and its file format.
//! - [`trained`]: the trained detector, which compares the answer with the text.

pub mod features;
pub mod regression;
pub mod rules;
pub mod trained;

pub use features::{AnswerPair, Features};
pub use regression::{Regression, RegressionBasis};
pub use rules::{RunContext, harmful_intents, inspect_answer, is_refusal};
pub use trained::{BehaviourModel, JudgeError, Judgement, pairs};
