//! A language model in this process: no server, no network, the same answer every time.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::chat::ChatModel;
use crate::chat::error::ChatError;
use crate::chat::message::{Message, Role};
use crate::chat::pieces::Pieces;
use crate::chat::request::{Answer, Finish, Request, Usage};
use crate::chat::sampling::Sampler;
use crate::chat::shape::Guide;
use crate::chat::template::{Refused, Template};
use crate::decoder::{Adapter, Decoder, Token, Vocabulary};
use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::sha256::Sha256;

/// Names how this engine rounds. Whatever changes an answer to a request changes it too.
const ENGINE: &str = "embedded-1";

/// A model from a GGUF file, with its tokenizer and its template. Clones share the weights.
///
/// It answers in text only, and refuses requests with tools: their calls would have to be read out of its text, where
/// anything it was shown could imitate them. It keeps to a [`Shape`](super::Shape) to the token. A mark that is no text ends an answer, so that no answer holds the
/// beginning of another turn.
#[derive(Clone)]
pub struct EmbeddedModel {
    name: String,
    file: String,
    identity: String,
    decoder: Decoder,
    language: Arc<Language>,
}

struct Language {
    vocabulary: Vocabulary,
    template: Template,
}

impl fmt::Debug for EmbeddedModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddedModel")
            .field("identity", &self.identity)
            .field("decoder", &self.decoder)
            .finish_non_exhaustive()
    }
}

impl EmbeddedModel {
    /// Opens a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Read`], or as [`Self::from_bytes`].
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(path)
            .map_err(|cause| ModelError::Read { path: path.to_owned(), cause })?;
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
        Self::from_bytes(&name.unwrap_or_default(), &bytes)
    }

    /// The model in the content of a GGUF file, called `name` in messages and in its identity.
    ///
    /// # Errors
    /// [`ModelError`] when this is no model that the engine runs, or says not how it converses.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, ModelError> {
        let gguf = Gguf::parse(bytes)?;
        let vocabulary = Vocabulary::from_gguf(&gguf)?;
        let template = Template::from_gguf(&gguf, &vocabulary)?;
        let decoder = Decoder::from_gguf(&gguf)?;
        let file = format!("{ENGINE}/{name}/sha256:{}", Sha256::of(bytes));
        Ok(Self {
            name: name.to_owned(),
            identity: file.clone(),
            file,
            decoder,
            language: Arc::new(Language { vocabulary, template }),
        })
    }

    /// The weights.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.language.vocabulary
    }

    /// Lets `adapter` change the answers, as [`Decoder::attach`]; the identity then names it.
    ///
    /// # Errors
    /// As [`Decoder::attach`].
    pub fn attach(
        &mut self,
        name: &str,
        adapter: Arc<Adapter>,
        scale: f32,
    ) -> Result<(), ModelError> {
        self.decoder.attach(name, adapter, scale)?;
        self.identify();
        Ok(())
    }

    /// Takes the adapter `name` away; answers and identity are then as if it had never been there. Says whether there
    /// was one.
    pub fn detach(&mut self, name: &str) -> bool {
        let detached = self.decoder.detach(name);
        self.identify();
        detached
    }

    fn identify(&mut self) {
        self.identity = self
            .decoder
            .identities()
            .fold(self.file.clone(), |identity, adapter| format!("{identity}+{adapter}"));
    }

    /// The tokens of the conversation of `request`, as the model reads it.
    ///
    /// # Errors
    /// [`ChatError::Request`] for what the model cannot be told; [`ChatError::TooLong`] when it leaves no room for an
    /// answer.
    pub fn prompt(&self, request: &Request) -> Result<Vec<u32>, ChatError> {
        self.check(request)?;
        let Language { vocabulary, template } = &*self.language;
        let limit = self.decoder.config().context;
        let too_long = |tokens| ChatError::TooLong { model: self.name.clone(), tokens, limit };
        // A text that cannot fit is not tokenised first.
        let bytes = request.messages.iter().map(|message| message.content.len()).sum();
        let least = vocabulary.least_tokens(bytes);
        if least >= limit {
            return Err(too_long(least));
        }
        let ids = template.tokens(&request.messages, vocabulary).map_err(|why| match why {
            Refused::Template(detail) => self.refuse(format!("its template says: {detail}")),
            Refused::Engine(cause) => self.failed(cause),
        })?;
        if ids.is_empty() {
            return Err(self.refuse("its template makes nothing of this conversation".to_owned()));
        }
        if ids.len() >= limit {
            return Err(too_long(ids.len()));
        }
        Ok(ids)
    }

    fn check(&self, request: &Request) -> Result<(), ChatError> {
        let Request { messages, tools, max_tokens, temperature, .. } = request;
        let uses_tools = |message: &Message| {
            message.role == Role::Tool
                || !message.tool_calls.is_empty()
                || message.tool_call_id.is_some()
        };
        let detail = if messages.is_empty() {
            "the conversation is empty".to_owned()
        } else if !tools.is_empty() || messages.iter().any(uses_tools) {
            "it knows no tools; leave them out or take a hosted model".to_owned()
        } else if *max_tokens == 0 {
            "an answer of 0 tokens is none".to_owned()
        } else if !(0.0..=2.0).contains(temperature) {
            format!("the temperature is {temperature}, and must be between 0 and 2")
        } else {
            return Ok(());
        };
        Err(self.refuse(detail))
    }

    fn refuse(&self, detail: String) -> ChatError {
        ChatError::Request { model: self.name.clone(), detail }
    }

    fn failed(&self, cause: ModelError) -> ChatError {
        ChatError::Engine { model: self.name.clone(), cause }
    }

    fn guide(&self, request: &Request) -> Result<Option<Guide>, ChatError> {
        let Some(shape) = &request.shape else { return Ok(None) };
        let guide = Guide::new(shape);
        guide.map(Some).ok_or_else(|| self.refuse("no answer can have the shape".to_owned()))
    }

    /// The next token: its id, and what it says.
    fn next(&self, sampler: &mut Sampler, logits: &[f32]) -> Result<(u32, &Token), ChatError> {
        let broken = |detail: &str| self.failed(ModelError::Tokens { detail: detail.to_owned() });
        let index = sampler.choose(logits).ok_or_else(|| broken("no next one is a number"))?;
        let id = u32::try_from(index).map_err(|_| broken("the next one has no id"))?;
        let token = self.vocabulary().token(id).ok_or_else(|| broken("the next one is unknown"))?;
        Ok((id, token))
    }
}

impl ChatModel for EmbeddedModel {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn answer_in_pieces(
        &self,
        request: &Request,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Answer, ChatError> {
        let prompt = self.prompt(request)?;
        let mut reading = self.decoder.start();
        let mut logits = reading.read(&prompt).map_err(|cause| self.failed(cause))?;
        let mut sampler = Sampler::new(request.temperature, request.seed);
        let mut guide = self.guide(request)?;
        let (mut pieces, mut written) = (Pieces::default(), 0);
        let finish = loop {
            if let Some(guide) = &guide {
                guide.restrict(&mut logits, self.vocabulary().tokens());
            }
            let (id, token) = self.next(&mut sampler, &logits)?;
            let bytes = match token {
                Token::Text(bytes) => bytes,
                Token::Spelt(text) => text.as_bytes(),
                Token::Control => break Finish::Done,
            };
            if let Some(guide) = &mut guide {
                guide.push(bytes);
            }
            written += 1;
            let piece = pieces.push(bytes);
            if !piece.is_empty() && show(piece).is_break() {
                break Finish::Stopped;
            }
            if written >= u64::from(request.max_tokens)
                || reading.tokens() >= self.decoder.config().context
            {
                break Finish::Length;
            }
            logits = reading.read(&[id]).map_err(|cause| self.failed(cause))?;
        };
        let (last, text) = pieces.finish();
        // Whoever broke it off has seen enough.
        if !last.is_empty() && finish != Finish::Stopped {
            let _ = show(last);
        }
        let usage = Usage { prompt_tokens: prompt.len() as u64, completion_tokens: written };
        Ok(Answer { text, tool_calls: Vec::new(), finish, usage })
    }
}
