//! What a stage answers, and what the answer rests on.

use custody_kernel::route::Undecided;
use custody_models::chat::Usage;

/// An answer of a stage, with what it rests on and cost.
pub(crate) struct StageAnswer<T> {
    pub(crate) answer: Result<T, Undecided>,
    pub(crate) because: String,
    pub(crate) usage: Usage,
}

impl<T> StageAnswer<T> {
    pub(crate) fn new(
        answer: Result<T, Undecided>,
        because: impl Into<String>,
        usage: Usage,
    ) -> Self {
        Self { answer, because: because.into(), usage }
    }

    /// An answer from the last time; what it rested on then is not kept.
    pub(crate) fn before(answer: Result<T, Undecided>) -> Self {
        Self::new(answer, "as when it was asked before", Usage::default())
    }

    pub(crate) fn no_model() -> Self {
        Self::new(Err(Undecided::NoModel), "there is no model", Usage::default())
    }

    pub(crate) fn failed(why: &impl std::fmt::Display) -> Self {
        Self::new(Err(Undecided::Failed), why.to_string(), Usage::default())
    }
}
