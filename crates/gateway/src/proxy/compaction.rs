//! A compacted history: what a vendor makes of a conversation, for its client to send in place of that.
//!
//! No call in it runs. It comes back with the next request, where it is believed no more than before; so nothing may
//! stand in it under another name than the model's that did not stand in the request. Else a vendor's model, which has
//! read every page, could write what counts as the user's text.

use super::exchange::{ModelExchange, Outcome, ProxyError};
use super::settings::GuardMode;
use crate::wire::{Block, BlockContent, CallRule as _, Undecidable, WireError, WireRole, history};

/// The kinds of items with what the model remembers, which the vendor encrypts.
const REMEMBERED: [&str; 3] = ["compaction", "compaction_summary", "context_compaction"];

impl ModelExchange {
    /// Passes a compacted history on.
    ///
    /// # Errors
    /// [`ProxyError`] when none of it may go on.
    pub fn history(mut self, body: Vec<u8>) -> Result<(Vec<u8>, Outcome), ProxyError> {
        let blocks = history(&body)?;
        if blocks.iter().any(|block| !is_models(block) && !self.holds(block)) {
            let added = Undecidable::AddedHistory;
            match self.mode() {
                GuardMode::Guard => return Err(WireError::Unasked(added).into()),
                GuardMode::Observe => self.undecided(added)?,
            }
        }
        for block in &blocks {
            if let (WireRole::Assistant, BlockContent::Text(text)) = (block.role, &block.content) {
                self.note_text(text);
            }
        }
        // Nothing of it is noted as returned, so that the next request brings it as any other text.
        let outcome = self.end(&[])?;
        Ok((body, outcome))
    }
}

/// Whether the model says it in its own name.
fn is_models(block: &Block) -> bool {
    match &block.content {
        BlockContent::Text(_) => block.role == WireRole::Assistant,
        BlockContent::Opaque { kind, .. } => REMEMBERED.contains(&kind.as_str()),
        BlockContent::Call(_) | BlockContent::Result { .. } => false,
    }
}
