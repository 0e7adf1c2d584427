//! What one session of this process keeps in memory: its texts, its pending approvals and its finished calls. It can be
//! made again from the record.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use custody_arguments::DeclaredIntents;
use custody_log::EntryId;
use custody_store::Receipt;

use crate::ingress::text_part;
use crate::session_texts::SessionTexts;

/// What one session keeps in memory.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(crate) texts: SessionTexts,
    /// What was declared for the session.
    pub(crate) intents: DeclaredIntents,
    /// The proposal of each call that a human was asked about, by tool and canonical arguments.
    pub(crate) asked: HashMap<(String, String), EntryId>,
    /// The calls whose result is known.
    pub(crate) answered: HashSet<EntryId>,
}

impl Traced {
    /// Indexes a recorded part of `text`.
    pub(crate) fn index_text(&mut self, receipt: &Receipt, text: &str, part: &Range<usize>) {
        let words = text.get(part.clone()).unwrap_or_default();
        self.texts.add(receipt.seq, receipt.label, words, text_part(text, part));
    }
}
