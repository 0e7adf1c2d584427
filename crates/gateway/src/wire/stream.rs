//! What the streams of all dialects share: events in, events out, nothing after an error.

use super::block::Block;
use super::sse::{Event, Events};
use super::{CallRule, Dialect, WireError, anthropic, openai_chat};

/// The most bytes that are held back for a decision.
pub const MAX_HELD_BYTES: usize = 8 << 20;

/// What an answer is made of after the rule: what its client will send back.
pub(super) type Returned = Vec<Block>;

/// Filters the events of one answer.
pub(super) trait EventFilter {
    /// Takes an event, and passes on to `out` what may go.
    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut impl CallRule,
    ) -> Result<(), WireError>;

    /// There are no more events.
    fn end(&mut self, out: &mut Vec<u8>, rule: &mut impl CallRule) -> Result<(), WireError>;

    /// How many bytes are held back.
    fn held(&self) -> usize;

    /// What the answer was made of so far.
    fn returned(&mut self) -> Returned;
}

/// Passes a streamed answer on.
#[derive(Debug)]
pub struct StreamFilter {
    events: Events,
    inner: Inner,
    is_over: bool,
}

#[derive(Debug)]
enum Inner {
    OpenAiChat(Box<openai_chat::Stream>),
    AnthropicMessages(Box<anthropic::Stream>),
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
        let inner = match dialect {
            Dialect::OpenAiChat => Inner::OpenAiChat(Box::default()),
            Dialect::AnthropicMessages => Inner::AnthropicMessages(Box::default()),
        };
        Self { events: Events::default(), inner, is_over: false }
    }

    /// Takes bytes as they come, cut anywhere.
    pub fn push(&mut self, bytes: &[u8], rule: &mut impl CallRule) -> Filtered {
        self.run(rule, |filter, out, rule| {
            filter.events.push(bytes);
            while let Some(event) = filter.events.next() {
                filter.event(event, out, rule)?;
            }
            let held = filter.events.waiting() + filter.held();
            if held > MAX_HELD_BYTES { Err(WireError::TooLong) } else { Ok(()) }
        })
    }

    /// There are no more bytes.
    pub fn end(&mut self, rule: &mut impl CallRule) -> Filtered {
        let filtered = self.run(rule, |filter, out, rule| {
            let mut rest = filter.events.rest();
            if !rest.is_empty() {
                // Some readers take an event without its end.
                let length = rest.len();
                rest.extend_from_slice(b"\n\n");
                filter.events.push(&rest);
                if let Some(mut event) = filter.events.next() {
                    event.raw.truncate(length);
                    filter.event(event, out, rule)?;
                }
            }
            match &mut filter.inner {
                Inner::OpenAiChat(stream) => stream.end(out, rule),
                Inner::AnthropicMessages(stream) => stream.end(out, rule),
            }
        });
        self.is_over = true;
        filtered
    }

    /// What the answer was made of, as its client will send it back.
    pub fn returned(&mut self) -> Vec<Block> {
        match &mut self.inner {
            Inner::OpenAiChat(stream) => stream.returned(),
            Inner::AnthropicMessages(stream) => stream.returned(),
        }
    }

    fn run<R: CallRule>(
        &mut self,
        rule: &mut R,
        step: impl FnOnce(&mut Self, &mut Vec<u8>, &mut R) -> Result<(), WireError>,
    ) -> Filtered {
        let mut bytes = Vec::new();
        if self.is_over {
            return Filtered { bytes, cut: None };
        }
        let cut = step(self, &mut bytes, rule).err();
        self.is_over = cut.is_some();
        Filtered { bytes, cut }
    }

    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut impl CallRule,
    ) -> Result<(), WireError> {
        match &mut self.inner {
            Inner::OpenAiChat(stream) => stream.event(event, out, rule),
            Inner::AnthropicMessages(stream) => stream.event(event, out, rule),
        }
    }

    fn held(&self) -> usize {
        match &self.inner {
            Inner::OpenAiChat(stream) => stream.held(),
            Inner::AnthropicMessages(stream) => stream.held(),
        }
    }
}
