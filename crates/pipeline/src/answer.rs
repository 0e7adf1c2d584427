//! The answer of a stage, with its explanation and its cost.

use std::fmt;

use custody_kernel::route::Undecided;
use custody_models::chat::Usage;

/// The answer of a stage.
#[derive(Debug)]
pub(crate) struct StageAnswer<T> {
    pub(crate) answer: Result<T, Undecided>,
    /// One line for people. It may quote the text, so it is never recorded.
    pub(crate) explanation: String,
    pub(crate) usage: Usage,
}

impl<T> StageAnswer<T> {
    pub(crate) fn new(
        answer: Result<T, Undecided>,
        explanation: impl Into<String>,
        usage: Usage,
    ) -> Self {
        Self { answer, explanation: explanation.into(), usage }
    }

    /// An answer that needed no model.
    pub(crate) fn without_model(answer: T, explanation: impl Into<String>) -> Self {
        Self::new(Ok(answer), explanation, Usage::default())
    }

    /// An answer from the cache, which does not keep explanations.
    pub(crate) fn cached(answer: Result<T, Undecided>) -> Self {
        Self::new(answer, "cached", Usage::default())
    }

    pub(crate) fn no_model() -> Self {
        Self::new(Err(Undecided::NoModel), "there is no model", Usage::default())
    }

    pub(crate) fn failed(error: &impl fmt::Display) -> Self {
        Self::new(Err(Undecided::Failed), error.to_string(), Usage::default())
    }
}
