//! The chat part of a local model: its tokens, its template, and the generation of answers.

use std::ops::ControlFlow;
use std::path::Path;

use crate::chat::error::ChatError;
use crate::chat::message::{ChatMessage, ChatRole};
use crate::chat::pieces::Pieces;
use crate::chat::request::{ChatAnswer, ChatRequest, FinishReason, Usage};
use crate::chat::sampling::Sampler;
use crate::chat::shape::Guide;
use crate::chat::template::{Template, TemplateError};
use crate::decoder::{Token, TokenVocabulary};
use crate::error::ModelError;
use crate::gguf::Gguf;

/// The contents of a GGUF file except the weights.
pub(super) struct Language {
    name: String,
    pub(super) vocabulary: TokenVocabulary,
    template: Template,
    /// The context length in tokens, prompt and answer.
    pub(super) context: usize,
}

/// The inference state of one conversation.
pub(super) trait InferenceContext {
    /// Processes tokens and returns the logits of the next one.
    fn read(&mut self, ids: &[u32]) -> Result<Vec<f32>, ModelError>;

    /// The number of processed tokens.
    fn tokens(&self) -> usize;
}

/// The file name without its extension, and the bytes.
pub(super) fn read_file(path: &Path) -> Result<(String, Vec<u8>), ModelError> {
    let bytes =
        std::fs::read(path).map_err(|cause| ModelError::Read { path: path.to_owned(), cause })?;
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    Ok((name.unwrap_or_default(), bytes))
}

impl Language {
    pub(super) fn from_gguf(
        name: &str,
        gguf: &Gguf<'_>,
        context: usize,
    ) -> Result<Self, ModelError> {
        let vocabulary = TokenVocabulary::from_gguf(gguf)?;
        let template = Template::from_gguf(gguf, &vocabulary)?;
        Ok(Self { name: name.to_owned(), vocabulary, template, context })
    }

    /// The prompt tokens of `request`.
    ///
    /// # Errors
    /// [`ChatError::Request`] for a request that the model does not support; [`ChatError::TooLong`] if the prompt
    /// leaves no room for an answer.
    pub(super) fn prompt(&self, request: &ChatRequest) -> Result<Vec<u32>, ChatError> {
        self.check(request)?;
        let Self { vocabulary, template, context: limit, .. } = self;
        let limit = *limit;
        // A text that cannot fit is not tokenised.
        let bytes = request.messages.iter().map(|message| message.content.len()).sum();
        let least = vocabulary.least_tokens(bytes);
        if least >= limit {
            return Err(self.too_long(least));
        }
        let ids = template.tokens(&request.messages, vocabulary).map_err(|why| match why {
            TemplateError::Template(detail) => {
                self.refuse(format!("its template reports: {detail}"))
            }
            TemplateError::Engine(cause) => self.failed(cause),
        })?;
        if ids.is_empty() {
            return Err(self.refuse("its template renders the conversation as empty".to_owned()));
        }
        if ids.len() >= limit {
            return Err(self.too_long(ids.len()));
        }
        Ok(ids)
    }

    /// Generates an answer with `reading`, a fresh context.
    pub(super) fn answer(
        &self,
        request: &ChatRequest,
        reading: &mut dyn InferenceContext,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        let prompt = self.prompt(request)?;
        let mut logits = reading.read(&prompt).map_err(|cause| self.failed(cause))?;
        let mut sampler = Sampler::new(request.temperature, request.seed);
        let mut guide = self.guide(request)?;
        let (mut pieces, mut written) = (Pieces::default(), 0);
        let finish = loop {
            if let Some(guide) = &guide {
                guide.restrict(&mut logits, self.vocabulary.tokens());
            }
            let (id, token) = self.next(&mut sampler, &logits)?;
            let bytes = match token {
                Token::Text(bytes) => bytes,
                Token::Spelt(text) => text.as_bytes(),
                Token::Control => break FinishReason::Done,
            };
            if let Some(guide) = &mut guide {
                guide.push(bytes);
            }
            written += 1;
            let piece = pieces.push(bytes);
            if !piece.is_empty() && show(piece).is_break() {
                break FinishReason::Stopped;
            }
            if written >= u64::from(request.max_tokens) || reading.tokens() >= self.context {
                break FinishReason::Length;
            }
            logits = reading.read(&[id]).map_err(|cause| self.failed(cause))?;
        };
        let (last, text) = pieces.finish();
        // A caller that stopped the answer receives no more pieces.
        if !last.is_empty() && finish != FinishReason::Stopped {
            let _ = show(last);
        }
        let usage = Usage { prompt_tokens: prompt.len() as u64, completion_tokens: written };
        Ok(ChatAnswer { text, tool_calls: Vec::new(), finish, usage })
    }

    fn check(&self, request: &ChatRequest) -> Result<(), ChatError> {
        let ChatRequest { messages, tools, max_tokens, temperature, .. } = request;
        let detail = if messages.is_empty() {
            "the conversation is empty".to_owned()
        } else if !tools.is_empty() || messages.iter().any(uses_tools) {
            "it does not support tools; use a hosted model".to_owned()
        } else if *max_tokens == 0 {
            "`max_tokens` must be at least 1".to_owned()
        } else if !(0.0..=2.0).contains(temperature) {
            format!("the temperature is {temperature}; it must be between 0 and 2")
        } else {
            return Ok(());
        };
        Err(self.refuse(detail))
    }

    fn too_long(&self, tokens: usize) -> ChatError {
        ChatError::TooLong { model: self.name.clone(), tokens, limit: self.context }
    }

    fn invalid_logits(&self, detail: &str) -> ChatError {
        self.failed(ModelError::Tokens { detail: detail.to_owned() })
    }

    fn refuse(&self, detail: String) -> ChatError {
        ChatError::Request { model: self.name.clone(), detail }
    }

    pub(super) fn failed(&self, cause: ModelError) -> ChatError {
        ChatError::Engine { model: self.name.clone(), cause }
    }

    fn guide(&self, request: &ChatRequest) -> Result<Option<Guide>, ChatError> {
        let Some(shape) = &request.shape else { return Ok(None) };
        let guide = Guide::new(shape);
        guide.map(Some).ok_or_else(|| self.refuse("no answer can have the shape".to_owned()))
    }

    /// The next token and its id.
    fn next(&self, sampler: &mut Sampler, logits: &[f32]) -> Result<(u32, &Token), ChatError> {
        let index =
            sampler.choose(logits).ok_or_else(|| self.invalid_logits("no logit is a number"))?;
        let id =
            u32::try_from(index).map_err(|_| self.invalid_logits("the next token has no id"))?;
        let token = self
            .vocabulary
            .token(id)
            .ok_or_else(|| self.invalid_logits("the next token is not in the vocabulary"))?;
        Ok((id, token))
    }
}

fn uses_tools(message: &ChatMessage) -> bool {
    message.role == ChatRole::Tool
        || !message.tool_calls.is_empty()
        || message.tool_call_id.is_some()
}
