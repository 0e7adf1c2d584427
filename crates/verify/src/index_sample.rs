//! Whether a search would find what is stored: every text by its hash, and a sample of them by their letters.

use std::hash::{BuildHasher as _, RandomState};

use custody_log::Seq;
use custody_runtime::store::{Tampering, View};

use crate::VerifyError;

/// About how many texts are looked up by their letters. Of fewer, all are.
const SAMPLED: u64 = 1_000;

/// Which texts are looked up by their letters, chosen anew for each verification.
pub(crate) struct IndexSample {
    order: RandomState,
    contents: u64,
}

impl IndexSample {
    pub(crate) fn new(view: View<'_>) -> Result<Self, VerifyError> {
        Ok(Self { order: RandomState::new(), contents: view.row_counts()?.contents.max(1) })
    }

    /// Looks up the text that arrived with `entry`. Returns whether it is one that a search finds.
    ///
    /// # Errors
    /// [`Tampering::Index`] when the index does not find it.
    pub(crate) fn check(
        &self,
        view: View<'_>,
        entry: Seq,
        text: Option<&[u8]>,
    ) -> Result<bool, VerifyError> {
        let Some(text) = text.filter(|_| !view.state().is_of_recovery(entry)) else {
            return Ok(false);
        };
        let is_sampled = self.order.hash_one(entry) % self.contents < SAMPLED;
        if !view.is_found_by_index(entry, text, is_sampled)? {
            return Err(Tampering::Index { index: "text", seq: entry.0 }.into());
        }
        Ok(view.is_indexed(entry)?)
    }
}
