//! A model that is listened to: what it was asked and answered, stage by stage.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use custody_models::chat::{ChatAnswer, ChatError, ChatModel, ChatRequest};

/// One question and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// What was asked.
    pub request: ChatRequest,
    /// What was answered.
    pub answer: ChatAnswer,
}

/// Keeps the requests to another model and its answers, until they are taken.
///
/// The pipeline takes every error of a model for an undecided stage, as it must. For a measurement only one of them is
/// a result: a conversation that the model has no room for. After any other, what was measured is not kept.
pub struct Listener {
    model: Arc<dyn ChatModel>,
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    exchanges: Vec<Exchange>,
    failure: Option<ChatError>,
}

impl Listener {
    /// Records the conversations with `model`.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model, recorded: Mutex::default() }
    }

    /// The exchanges since the last call.
    ///
    /// # Errors
    /// The first failure of the model since then.
    pub fn take(&self) -> Result<Vec<Exchange>, ChatError> {
        let Recorded { exchanges, failure } = std::mem::take(&mut *self.recorded());
        failure.map_or(Ok(exchanges), Err)
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        // A list that a panic cut short is still a list.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatModel for Listener {
    fn identity(&self) -> &str {
        self.model.identity()
    }

    fn supports_tools(&self) -> bool {
        self.model.supports_tools()
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        match self.model.answer_streaming(request, show) {
            Ok(answer) => {
                let exchange = Exchange { request: request.clone(), answer: answer.clone() };
                self.recorded().exchanges.push(exchange);
                Ok(answer)
            }
            Err(too_long @ ChatError::TooLong { .. }) => Err(too_long),
            Err(cause) => {
                let model = self.identity().to_owned();
                let told = ChatError::Request { model, detail: cause.to_string() };
                self.recorded().failure.get_or_insert(cause);
                Err(told)
            }
        }
    }
}
