//! What a whole answer holds, found before anything of it is decided: so that what is recorded last of it can be
//! recorded with its call.

use custody_runtime::advice::ClaimedTokens;

use crate::wire::{CallRule, CallRuling, Dialect, Undecidable, WireCall, WireError};

/// The longest answer that is looked through, in bytes: it is read once more when it is decided.
const MAX_BYTES: usize = 64 << 10;

/// What a whole answer holds.
#[derive(Debug, Default)]
pub(super) struct Foreseen {
    calls: usize,
    /// Whether a text comes after a call.
    goes_on: bool,
    is_undecided: bool,
    /// What the vendor says that it took.
    claimed: ClaimedTokens,
}

impl Foreseen {
    /// What the answer `body` holds; `None` if it is long or not understood.
    pub(super) fn of(dialect: Dialect, body: &[u8]) -> Option<Self> {
        let mut foreseen = Self::default();
        let is_short = body.len() <= MAX_BYTES;
        let read = is_short.then(|| dialect.filter(body.to_vec(), &mut foreseen))?;
        read.is_ok().then_some(foreseen)
    }

    /// Whether it has one call, nothing after it, and nothing that is not decided.
    pub(super) const fn ends_with_its_call(&self) -> bool {
        self.calls == 1 && !self.goes_on && !self.is_undecided
    }

    /// What the vendor says that it took.
    pub(super) const fn claimed(&self) -> ClaimedTokens {
        self.claimed
    }
}

impl CallRule for Foreseen {
    fn note_text(&mut self, _: &str) {
        self.goes_on |= self.calls > 0;
    }

    fn rule(&mut self, _: &WireCall) -> CallRuling {
        self.calls += 1;
        CallRuling::Pass
    }

    fn undecided(&mut self, _: Undecidable) -> Result<(), WireError> {
        self.is_undecided = true;
        Ok(())
    }

    fn note_tokens(&mut self, claimed: ClaimedTokens) {
        self.claimed = self.claimed.later(claimed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_answer_with_one_call_at_its_end_ends_with_its_call() {
        let text = json!({ "type": "text", "text": "I look that up." });
        let call = json!({ "type": "tool_use", "id": "call_1", "name": "search", "input": {} });
        let other =
            json!({ "type": "server_tool_use", "id": "call_2", "name": "web_search", "input": {} });
        for (blocks, ends) in [
            (json!([text, call]), true),
            (json!([call]), true),
            (json!([call, text]), false),
            (json!([call, call]), false),
            (json!([other, call]), false),
            (json!([text]), false),
        ] {
            let body = json!({ "role": "assistant", "content": blocks }).to_string();
            let foreseen = Foreseen::of(Dialect::AnthropicMessages, body.as_bytes());
            assert_eq!(foreseen.map(|it| it.ends_with_its_call()), Some(ends), "{blocks}");
        }
        assert!(Foreseen::of(Dialect::AnthropicMessages, b"[]").is_none());
        assert!(Foreseen::of(Dialect::OpenAiChat, &vec![b' '; MAX_BYTES + 1]).is_none());
    }
}
