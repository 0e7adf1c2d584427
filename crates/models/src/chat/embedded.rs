//! A language model in this process: no server, no network, deterministic answers.

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

/// The version of this engine's arithmetic. Any change that can alter an answer changes it.
const ENGINE: &str = "embedded-1";

/// A model from a GGUF file with its tokenizer and template. Clones share the weights.
///
/// It answers in text only and rejects requests with tools: calls would have to be parsed from its text, where
/// untrusted input could imitate them. A special token ends an answer, so no answer contains the
/// beginning of another turn. An [`AnswerShape`](super::AnswerShape) is enforced for every token.
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
    /// [`ModelError::Read`] if a file cannot be read; those of [`Self::from_bytes`].
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let (name, bytes) = read_file(path)?;
        Self::from_bytes(&name, &bytes)
    }

    /// A model from the bytes of a GGUF file; `name` is used in messages and in its identity.
    ///
    /// # Errors
    /// [`ModelError`] if the model is not supported or has no chat template.
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

    /// Attaches `adapter`, as [`Decoder::attach`] does, and adds it to the identity.
    ///
    /// # Errors
    /// Those of [`Decoder::attach`].
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

    /// Detaches the adapter `name`; answers and identity are then the same as before it was attached. Returns whether
    /// it was attached.
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

    /// The prompt tokens of `request`.
    ///
    /// # Errors
    /// [`ChatError::Request`] for a request that the model does not support; [`ChatError::TooLong`] if it
    /// leaves no room for an
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
