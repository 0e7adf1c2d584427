//! Asking a language model as an agent would be asked: with what retrieval returns, once, without a retry.

use std::collections::BTreeMap;

use custody_models::chat::{ChatMessage, ChatModel, ChatRequest, ChatRole, FinishReason};

/// The longest answer, in tokens.
const MAX_TOKENS: u32 = 128;

/// The number of failures in a row after which nothing more is asked.
const GIVES_UP_AFTER: u32 = 3;

const NOTHING_FOUND: &str = "Memory and search found nothing for this.";

/// A model that is asked one question after another.
pub(crate) struct Asking<'a> {
    model: &'a dyn ChatModel,
    answers: BTreeMap<String, String>,
    failures: u32,
    /// Why there was no answer, the last time there was none.
    pub(crate) failed: Option<String>,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(model: &'a dyn ChatModel) -> Self {
        Self { model, answers: BTreeMap::new(), failures: 0, failed: None }
    }

    /// The model's answer to `question` with these texts; `None` if there is none that can be judged.
    pub(crate) fn ask(&mut self, shown: &[String], question: &str) -> Option<String> {
        let request = request(shown, question);
        let key =
            request.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>();
        let key = key.join("\n");
        if let Some(answer) = self.answers.get(&key) {
            return Some(answer.clone());
        }
        if self.failures >= GIVES_UP_AFTER {
            return None;
        }
        match self.model.answer(&request) {
            // What was cut out may have been the very text.
            Ok(answer) if answer.finish == FinishReason::Filtered => {
                self.failed = Some("the vendor's filter cut an answer".to_owned());
                None
            }
            Ok(answer) => {
                self.failures = 0;
                self.answers.insert(key, answer.text.clone());
                Some(answer.text)
            }
            Err(error) => {
                self.failures += 1;
                self.failed = Some(error.to_string());
                None
            }
        }
    }
}

fn request(shown: &[String], question: &str) -> ChatRequest {
    let found = if shown.is_empty() { NOTHING_FOUND.to_owned() } else { shown.join("\n\n") };
    let system =
        format!("You are an assistant with a memory. It and a search returned this:\n\n{found}");
    ChatRequest {
        messages: vec![
            ChatMessage::new(ChatRole::System, system),
            ChatMessage::new(ChatRole::User, question),
        ],
        tools: Vec::new(),
        max_tokens: MAX_TOKENS,
        temperature: 0.0,
        seed: 0,
        shape: None,
    }
}
