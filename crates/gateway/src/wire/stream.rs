//! What the streams of all dialects share: events in, events out, nothing after an error.

use super::block::Block;
use super::sse::{Event, Events};
use super::{CallRule, Dialect, WireError, anthropic, gemini, openai_chat, openai_responses};

/// The most bytes that are held back for a decision.
pub const MAX_HELD_BYTES: usize = 8 << 20;

/// What an answer is made of after the rule: what its client will send back.
pub(super) type Returned = Vec<Block>;

/// Filters the events of one answer.
pub(super) trait EventFilter: std::fmt::Debug + Send {
    /// Takes an event, and passes on to `out` what may go.
    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError>;

    /// There are no more events. A call that is not complete does not go on.
    fn end(&mut self, rule: &mut dyn CallRule);

    /// How many bytes are held back.
    fn held(&self) -> usize;

    /// What the answer was made of so far.
    fn returned(&mut self) -> Returned;
}

/// Passes a streamed answer on.
#[derive(Debug)]
pub struct StreamFilter {
    events: Events,
    inner: Box<dyn EventFilter>,
    is_over: bool,
}

/// What may go on.
#[derive(Debug)]
pub struct Filtered {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Why nothing more goes on, if that is so. What came before does.
    pub cut: Option<WireError>,
}

impl StreamFilter {
    /// A filter for an answer of `dialect`.
    pub fn new(dialect: Dialect) -> Self {
        let inner: Box<dyn EventFilter> = match dialect {
            Dialect::OpenAiChat => Box::<openai_chat::Stream>::default(),
            Dialect::OpenAiResponses => Box::<openai_responses::Stream>::default(),
            Dialect::AnthropicMessages => Box::<anthropic::Stream>::default(),
            Dialect::Gemini => Box::<gemini::Stream>::default(),
        };
        Self { events: Events::default(), inner, is_over: false }
    }

    /// Takes bytes as they come, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], rule: &mut dyn CallRule) -> Filtered {
        self.run(|filter, out| {
            filter.events.push(bytes);
            for event in filter.events.by_ref() {
                filter.inner.event(event, out, rule)?;
            }
            let held = filter.events.waiting() + filter.inner.held();
            if held > MAX_HELD_BYTES { Err(WireError::TooLong) } else { Ok(()) }
        })
    }

    /// There are no more bytes.
    pub fn end(&mut self, rule: &mut dyn CallRule) -> Filtered {
        let filtered = self.run(|filter, out| {
            let mut rest = filter.events.rest();
            if !rest.is_empty() {
                // Some readers take an event without its end.
                let length = rest.len();
                rest.extend_from_slice(b"\n\n");
                filter.events.push(&rest);
                if let Some(mut event) = filter.events.next() {
                    event.raw.truncate(length);
                    filter.inner.event(event, out, rule)?;
                }
            }
            filter.inner.end(rule);
            Ok(())
        });
        self.is_over = true;
        filtered
    }

    /// What the answer was made of, as its client will send it back.
    pub fn returned(&mut self) -> Vec<Block> {
        self.inner.returned()
    }

    fn run(
        &mut self,
        step: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<(), WireError>,
    ) -> Filtered {
        let mut bytes = Vec::new();
        if self.is_over {
            return Filtered { bytes, cut: None };
        }
        let cut = step(self, &mut bytes).err();
        self.is_over = cut.is_some();
        Filtered { bytes, cut }
    }
}
