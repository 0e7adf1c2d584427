//! The dialects of model vendors, without any network: requests into blocks, answers through a rule for tool calls.
//!
//! [`Dialect::parse`] reads a request. [`Dialect::filter`] and [`StreamFilter`] pass an answer on, whole or as
//! a stream, with every byte as it came, but for tool calls that the [`CallRule`] does not let through: a text
//! stands in the place of such a call, and what says how the answer ended is corrected.
//!
//! `block`: what is read. `openai_chat`, `openai_responses`, `anthropic`, `gemini`: the dialects. `sse`: events in
//! a stream. `stream`: what all streams share. `splice`: changing JSON without writing all of it anew.
//! `undecidable`: what is not decided here. `usage`: what vendors say that an answer took. `offered`: the tools that a
//! request offers. `forced_call`: a request that Custody makes itself.

mod anthropic;
mod block;
mod forced_call;
mod gemini;
mod offered;
mod openai_chat;
mod openai_responses;
mod splice;
mod sse;
mod stream;
mod undecidable;
mod usage;

use std::collections::BTreeSet;

use custody_runtime::advice::ClaimedTokens;
use serde_json::Value;

use crate::json::{self, Budget, JsonProblem, Numbers};

pub use block::{Block, BlockContent, WireCall, WireRole};
pub(crate) use forced_call::{ForcedCall, arguments_of};
pub use stream::{Filtered, MAX_HELD_BYTES, StreamFilter};
pub use undecidable::Undecidable;

/// The most JSON values in one request or answer.
const MAX_VALUES: usize = 4_000_000;

/// How a client and a vendor speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's `/v1/chat/completions`.
    OpenAiChat,
    /// OpenAI's `/v1/responses`.
    OpenAiResponses,
    /// Anthropic's `/v1/messages`.
    AnthropicMessages,
    /// Google's `generateContent` and `streamGenerateContent`.
    Gemini,
}

/// A request, as far as it is read here.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Every block, in order.
    pub blocks: Vec<Block>,
    /// Whether the answer is asked for as a stream. Google's clients ask by the address, so never here.
    pub is_streamed: bool,
    /// What it asks for that nobody can decide here.
    pub undecidable: BTreeSet<Undecidable>,
    /// The model, where the dialect names it in the body.
    pub model: Option<String>,
    /// The names of the tools that it offers, as calls of them name them. Those without a name of their own are left
    /// out.
    pub tools: Vec<String>,
}

/// An answer that came as a whole, after the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireAnswer {
    /// What goes on.
    pub body: Vec<u8>,
    /// What it is made of, as its client will send it back.
    pub returned: Vec<Block>,
}

/// Why a body is not understood. Nothing of it goes on then.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It is no UTF-8.
    #[error("the body is not UTF-8")]
    Encoding,
    /// It is no JSON that every reader reads alike.
    #[error("the body is not understood: {0}")]
    Json(#[from] JsonProblem),
    /// It is no request or answer of the dialect.
    #[error("the body has no `{0}` of the expected form")]
    Shape(&'static str),
    /// It holds what nobody can decide here and nobody asked for.
    #[error("the answer holds {0}, which nobody can decide here, and which may not go on")]
    Unasked(Undecidable),
    /// It is longer than what is held back for a decision.
    #[error("a tool call is longer than {MAX_HELD_BYTES} bytes, so it cannot be decided")]
    TooLong,
}

/// What becomes of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRuling {
    /// It goes on as it came.
    Pass,
    /// This text stands in its place.
    Replace(String),
}

/// Decides tool calls as they come.
pub trait CallRule {
    /// The model said this. Comes before the calls that follow it.
    fn note_text(&mut self, text: &str);

    /// What becomes of `call`.
    fn rule(&mut self, call: &WireCall) -> CallRuling;

    /// The answer holds something that nobody can decide here.
    ///
    /// # Errors
    /// [`WireError::Unasked`] when it may not go on.
    fn undecided(&mut self, what: Undecidable) -> Result<(), WireError>;

    /// What the vendor says that the answer took so far. Comes as often as it says so.
    fn note_tokens(&mut self, _claimed: ClaimedTokens) {}

    /// How many calls without an id stand in the conversation before this answer.
    fn calls_without_id(&self) -> usize {
        0
    }
}

/// Reads the answer of OpenAI's `/v1/responses/compact`: the blocks that its client sends from then on.
pub(crate) fn history(body: &[u8]) -> Result<Vec<Block>, WireError> {
    openai_responses::history(&parsed(body)?)
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::AnthropicMessages, Self::Gemini];

    /// The name in records and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::Gemini => "gemini",
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`WireError`] when it is no request of the dialect that every reader reads alike.
    pub fn parse(self, body: &[u8]) -> Result<ModelRequest, WireError> {
        let body = parsed(body)?;
        match self {
            Self::OpenAiChat => openai_chat::request(&body),
            Self::OpenAiResponses => openai_responses::request(&body),
            Self::AnthropicMessages => anthropic::request(&body),
            Self::Gemini => gemini::request(&body),
        }
    }

    /// Passes an answer on that came as a whole.
    ///
    /// # Errors
    /// [`WireError`] when it is no answer of the dialect. None of it may go on then.
    pub fn filter(self, body: Vec<u8>, rule: &mut dyn CallRule) -> Result<WireAnswer, WireError> {
        let value = parsed(&body)?;
        let text = std::str::from_utf8(&body).map_err(|_| WireError::Encoding)?;
        let (changed, returned) = match self {
            Self::OpenAiChat => openai_chat::answer(text, &value, rule)?,
            Self::OpenAiResponses => openai_responses::answer(text, &value, rule)?,
            Self::AnthropicMessages => anthropic::answer(text, &value, rule)?,
            Self::Gemini => gemini::answer(text, &value, rule)?,
        };
        let body = changed.map_or(body, String::into_bytes);
        Ok(WireAnswer { body, returned })
    }

    /// An error in the vendor's own form.
    pub fn error(self, kind: &str, message: &str) -> Value {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => serde_json::json!({
                "error": { "message": message, "type": kind, "param": null, "code": kind }
            }),
            Self::Gemini => gemini::error(kind, message),
            Self::AnthropicMessages => serde_json::json!({
                "type": "error", "error": { "type": kind, "message": message }
            }),
        }
    }

    /// An error as an event, for an answer that has begun already.
    pub fn error_event(self, kind: &str, message: &str) -> Vec<u8> {
        let error = self.error(kind, message);
        match self {
            Self::OpenAiChat | Self::Gemini => sse::written(None, &error),
            Self::OpenAiResponses => openai_responses::error_event(error),
            Self::AnthropicMessages => sse::written(Some("error"), &error),
        }
    }
}

fn parsed(body: &[u8]) -> Result<Value, WireError> {
    let text = std::str::from_utf8(body).map_err(|_| WireError::Encoding)?;
    Ok(json::parse(text, Numbers::Any, &mut Budget::new(MAX_VALUES))?)
}

/// The text of a member, if it has one.
fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// The text of a member that has to be there.
fn required<'a>(value: &'a Value, name: &'static str) -> Result<&'a str, WireError> {
    text_of(value, name).ok_or(WireError::Shape(name))
}

/// Whether a member is there and says something.
fn says(value: &Value, name: &str) -> bool {
    match value.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(array)) => !array.is_empty(),
        Some(Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Object(_)) => true,
    }
}
