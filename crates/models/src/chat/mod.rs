//! Chat models, hosted or embedded, behind one trait.
//!
//! A model produces text; whether the text is trusted or acted on is decided elsewhere. A missing answer
//! is always an error and never an empty answer, so that callers can distinguish silence from consent.

pub mod hosted;
pub mod text_tools;

mod embedded;
mod error;
mod language;
#[cfg(feature = "llama-cpp")]
mod llama_cpp;
mod message;
mod pieces;
mod request;
mod sampling;
mod scripted;
mod shape;
mod template;

pub use embedded::EmbeddedModel;
pub use error::ChatError;
#[cfg(feature = "llama-cpp")]
pub use llama_cpp::LlamaCppModel;
pub use message::{ChatMessage, ChatRole, ChatToolCall, ToolSpec, texts_to_assistant};
pub use request::{ChatAnswer, ChatRequest, FinishReason, Usage};
pub use scripted::{Recorder, RecordingError, ScriptedModel};
pub use shape::{AnswerShape, FieldType};

use std::ops::ControlFlow;
use std::sync::Arc;

/// A chat model.
pub trait ChatModel: Send + Sync {
    /// The cache key of the model: engine, name and, if there are any, the digest of
    /// its weights. Models with equal identities give equal answers to a request at temperature 0.
    fn identity(&self) -> &str;

    /// Whether it supports tools, with calls that no text can imitate.
    fn supports_tools(&self) -> bool {
        false
    }

    /// Returns the complete answer.
    ///
    /// # Errors
    /// [`ChatError`] if there is no complete answer.
    fn answer(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        self.answer_streaming(request, &mut |_| ControlFlow::Continue(()))
    }

    /// Same as `answer`, but calls `show` with each piece of the text. `Break` stops the generation; the
    /// text so far is the
    /// answer, with [`FinishReason::Stopped`].
    ///
    /// # Errors
    /// Those of [`Self::answer`]. Pieces that were shown before an error are not an answer.
    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError>;
}

impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn identity(&self) -> &str {
        (**self).identity()
    }

    fn supports_tools(&self) -> bool {
        (**self).supports_tools()
    }

    fn answer(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        (**self).answer(request)
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        (**self).answer_streaming(request, show)
    }
}
