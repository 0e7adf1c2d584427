//! A language model in this process: no server, no network, the same answer every time.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::chat::ChatModel;
use crate::chat::error::ChatError;
use crate::chat::language::{InferenceContext, Language, read_file};
use crate::chat::request::{ChatAnswer, ChatRequest};
use crate::decoder::{self, Decoder, LoraAdapter, TokenVocabulary};
use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::sha256::Sha256;

/// Names how this engine rounds. Whatever changes an answer to a request changes it too.
const ENGINE: &str = "embedded-1";

/// A model from a GGUF file, with its tokenizer and its template. Clones share the weights.
///
/// It answers in text only, and refuses requests with tools: their calls would have to be read out of its text, where
/// anything it was shown could imitate them. A mark that is no text ends an answer, so that no answer holds the
/// beginning of another turn. To a [`AnswerShape`](super::AnswerShape) it keeps to the token.
#[derive(Clone)]
pub struct EmbeddedModel {
    file: String,
    identity: String,
    decoder: Decoder,
    language: Arc<Language>,
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
        let (name, bytes) = read_file(path)?;
        Self::from_bytes(&name, &bytes)
    }

    /// The model in the content of a GGUF file, called `name` in messages and in its identity.
    ///
    /// # Errors
    /// [`ModelError`] when this is no model that the engine runs, or says not how it converses.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, ModelError> {
        let gguf = Gguf::parse(bytes)?;
        let decoder = Decoder::from_gguf(&gguf)?;
        let language = Language::from_gguf(name, &gguf, decoder.config().context)?;
        let file = format!("{ENGINE}/{name}/sha256:{}", Sha256::of(bytes));
        Ok(Self { identity: file.clone(), file, decoder, language: Arc::new(language) })
    }

    /// The weights.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The tokens.
    pub fn vocabulary(&self) -> &TokenVocabulary {
        &self.language.vocabulary
    }

    /// Lets `adapter` change the answers, as [`Decoder::attach`]; the identity then names it.
    ///
    /// # Errors
    /// As [`Decoder::attach`].
    pub fn attach(
        &mut self,
        name: &str,
        adapter: Arc<LoraAdapter>,
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
    pub fn prompt(&self, request: &ChatRequest) -> Result<Vec<u32>, ChatError> {
        self.language.prompt(request)
    }
}

impl InferenceContext for decoder::DecoderContext<'_> {
    fn read(&mut self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.read(ids)
    }

    fn tokens(&self) -> usize {
        self.tokens()
    }
}

impl ChatModel for EmbeddedModel {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        self.language.answer(request, &mut self.decoder.start(), show)
    }
}
