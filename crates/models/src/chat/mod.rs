//! Language models that answer a conversation, hosted or embedded, behind one trait.
//!
//! A model gives text; whether that text may be believed or acted on is decided elsewhere. Every way in which
//! no answer came is an error and never an empty answer: whoever asks must be able to tell silence from consent.

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

/// A model that answers conversations.
pub trait ChatModel: Send + Sync {
    /// What is asked, so that a verdict can be kept under it: engine, model and, where there are any, the digest of
    /// its weights. Two models of one identity give the same answer to a request that leaves nothing to chance.
    fn identity(&self) -> &str;

    /// Whether it can be told of tools, and calls them in a form that no text can imitate.
    fn supports_tools(&self) -> bool {
        false
    }

    /// The model's answer, all at once.
    ///
    /// # Errors
    /// [`ChatError`] whenever there is no whole answer.
    fn answer(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        self.answer_streaming(request, &mut |_| ControlFlow::Continue(()))
    }

    /// The same, showing pieces of the text as they come. `Break` ends the generation; what came so far is then the
    /// answer, with [`FinishReason::Stopped`].
    ///
    /// # Errors
    /// As [`Self::answer`]. Pieces that were shown before an error are no answer.
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
