//! What one session of this process keeps in memory: its texts, its pending approvals and its finished calls. It can be
//! made again from the record.
//!
//! Texts are noted in the writer's turn that records them and indexed outside of it, by threads of the session itself:
//! splitting a text of 3 MB into words takes longer than anybody else's request should wait.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use custody_arguments::DeclaredIntents;
use custody_log::EntryId;
use custody_store::Receipt;

use crate::ingress::text_part;
use crate::session_texts::SessionTexts;

/// What one session keeps in memory. `texts` is locked before `known` where both are.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    texts: Mutex<SessionTexts>,
    known: Mutex<Known>,
}

/// What a session knows besides its texts. Nothing takes long while it is locked.
#[derive(Default)]
pub(crate) struct Known {
    /// What is to be added to the texts, in order.
    noted: Vec<Addition>,
    /// What was declared for the session.
    pub(crate) intents: DeclaredIntents,
    /// The proposal of each call that a human was asked about, by tool and canonical arguments.
    pub(crate) asked: HashMap<(String, String), EntryId>,
    /// The calls whose result is known.
    pub(crate) answered: HashSet<EntryId>,
}

type Addition = Box<dyn FnOnce(&mut SessionTexts) + Send>;

impl Traced {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What arguments are traced in. Within a turn of the writer only after [`is_indexed`](Self::is_indexed): another
    /// thread may hold it for long.
    pub(crate) fn texts(&self) -> MutexGuard<'_, SessionTexts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was noted to the texts.
    pub(crate) fn index(&self) {
        // Locked first, so that two threads cannot add out of order.
        let mut texts = self.texts();
        let noted = std::mem::take(&mut self.known().noted);
        for addition in noted {
            addition(&mut texts);
        }
    }

    /// Whether all that was noted is in the texts. Within a turn of the writer that stays so until it ends or notes
    /// something itself.
    pub(crate) fn is_indexed(&self) -> bool {
        let texts = self.texts.try_lock();
        !matches!(texts, Err(TryLockError::WouldBlock)) && self.known().noted.is_empty()
    }
}

impl Known {
    /// Notes what is to be added to the texts.
    pub(crate) fn note(&mut self, addition: impl FnOnce(&mut SessionTexts) + Send + 'static) {
        self.noted.push(Box::new(addition));
    }

    /// Notes a recorded part of `text`.
    pub(crate) fn note_text(&mut self, receipt: &Receipt, text: &str, range: &Range<usize>) {
        // Noted for nothing, it would put off the call that was decided in the same turn.
        if !SessionTexts::has(receipt.label) {
            return;
        }
        let words = text.get(range.clone()).unwrap_or_default().to_owned();
        let (entry, label, part) = (receipt.seq, receipt.label, text_part(text, range));
        self.note(move |texts| texts.add(entry, label, &words, part));
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("noted", &self.noted.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_log::Seq;

    #[test]
    fn a_session_whose_texts_are_being_indexed_is_not_indexed() {
        let traced = Traced::default();
        assert!(traced.is_indexed());
        traced.known().note(|texts| texts.add_extracted(Seq(1), "five"));
        assert!(!traced.is_indexed());
        traced.index();
        assert!(traced.is_indexed());
        let held = traced.texts();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!traced.is_indexed(), "another thread indexes"));
        });
        drop(held);
        assert!(traced.is_indexed());
    }
}
