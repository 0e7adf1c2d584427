//! The result of a step: a step of an incident may be refused, and the caller has to look.

use custody_kernel::memory::refusal::Refusal;
use custody_kernel::record::Answer;
use custody_log::EntryId;
use custody_runtime::store::Receipt;

/// The result of a step of an incident.
#[derive(Debug)]
#[must_use = "a refused step was not taken"]
pub enum StepResult<T> {
    /// The step was taken.
    Taken(T),
    /// The kernel refused the step; nothing was changed.
    Refused(RefusedStep),
}

/// A step that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}")]
pub struct RefusedStep {
    /// The decision that refused it.
    pub decision: EntryId,
    /// The rule that refused it.
    pub refusal: Refusal,
}

impl<T> StepResult<T> {
    /// The value of a step that was taken; the refusal as an error otherwise.
    ///
    /// # Errors
    /// When the step was refused.
    pub fn taken(self) -> Result<T, RefusedStep> {
        match self {
            Self::Taken(reached) => Ok(reached),
            Self::Refused(refused) => Err(refused),
        }
    }

    /// The result of the decision in `receipt`.
    pub(crate) fn of(receipt: Receipt, reached: impl FnOnce(EntryId) -> T) -> Self {
        let Receipt { id: decision, answer, .. } = receipt;
        match answer {
            Answer::Refused(refusal) => Self::Refused(RefusedStep { decision, refusal }),
            // A step of an incident is done or refused.
            Answer::Done | Answer::Pending { .. } | Answer::Value { .. } | Answer::NotFound => {
                Self::Taken(reached(decision))
            }
        }
    }
}
