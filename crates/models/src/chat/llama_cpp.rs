//! llama.cpp as the engine of a model in this process: more architectures, weights in more formats.
//!
//! Tokenisation, template and sampling are those of [`EmbeddedModel`](super::EmbeddedModel), so that no text
//! can imitate a special token here either. llama.cpp computes the logits. It is a large
//! C++ program that parses the file: use weights only from sources from which you would run a program.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;

use crate::chat::ChatModel;
use crate::chat::error::ChatError;
use crate::chat::language::{InferenceContext, Language, read_file};
use crate::chat::request::{ChatAnswer, ChatRequest};
use crate::error::ModelError;
use crate::gguf::Gguf;
use crate::sha256::Sha256;

/// The engine and its settings. The version is that of the bindings, which include its source.
const ENGINE: &str = "llama.cpp-2-0.1.160";
/// The batch size in tokens.
const BATCH: usize = 512;

/// The backend, which must be started only once per process; its logging is off.
static BACKEND: LazyLock<Option<LlamaBackend>> = LazyLock::new(|| {
    let mut backend = LlamaBackend::init().ok()?;
    backend.void_logs();
    Some(backend)
});

/// A model from a GGUF file, run by llama.cpp.
pub struct LlamaCppModel {
    identity: String,
    language: Language,
    model: LlamaModel,
    /// Two contexts of one model must not be created at the same time.
    making: Mutex<()>,
}

impl fmt::Debug for LlamaCppModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LlamaCppModel")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl LlamaCppModel {
    /// Opens a GGUF file.
    ///
    /// # Errors
    /// [`ModelError`] if it cannot be read, has no chat template, or is not supported by llama.cpp.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let (name, bytes) = read_file(path)?;
        let gguf = Gguf::parse(&bytes)?;
        let parameters = LlamaModelParams::default().with_n_gpu_layers(0);
        let model = LlamaModel::load_from_file(backend()?, path, &parameters)
            .map_err(|why| failed(&why))?;
        let context = usize::try_from(model.n_ctx_train()).unwrap_or(usize::MAX);
        let language = Language::from_gguf(&name, &gguf, context)?;
        if usize::try_from(model.n_vocab()) != Ok(language.vocabulary.size()) {
            return Err(failed(&"it counts another number of tokens than the file"));
        }
        let identity = format!("{ENGINE}/{name}/sha256:{}", Sha256::of(&bytes));
        Ok(Self { identity, language, model, making: Mutex::new(()) })
    }

    /// A context with room for `tokens`.
    fn start(&self, tokens: usize) -> Result<Conversation<'_>, ModelError> {
        let threads = i32::try_from(rayon::current_num_threads()).unwrap_or(1);
        let parameters = LlamaContextParams::default()
            .with_n_ctx(u32::try_from(tokens).ok().and_then(NonZeroU32::new))
            .with_n_threads(threads)
            .with_n_threads_batch(threads);
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let context = self.model.new_context(backend()?, parameters).map_err(|why| failed(&why))?;
        Ok(Conversation { context, tokens: 0 })
    }
}

impl ChatModel for LlamaCppModel {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        let longest = usize::try_from(request.max_tokens).unwrap_or(usize::MAX);
        let tokens = self.language.prompt(request)?.len().saturating_add(longest);
        let reading = self.start(tokens.min(self.language.context));
        let mut reading = reading.map_err(|cause| self.language.failed(cause))?;
        self.language.answer(request, &mut reading, show)
    }
}

/// The inference state in llama.cpp.
struct Conversation<'a> {
    context: LlamaContext<'a>,
    tokens: usize,
}

impl InferenceContext for Conversation<'_> {
    fn read(&mut self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        let mut last = 0;
        for part in ids.chunks(BATCH) {
            let mut batch = LlamaBatch::new(part.len(), 1);
            for (at, id) in part.iter().enumerate() {
                let token = LlamaToken(i32::try_from(*id).map_err(|why| failed(&why))?);
                let place = i32::try_from(self.tokens + at).map_err(|why| failed(&why))?;
                let is_last = at + 1 == part.len();
                batch.add(token, place, &[0], is_last).map_err(|why| failed(&why))?;
            }
            self.context.decode(&mut batch).map_err(|why| failed(&why))?;
            self.tokens += part.len();
            last = batch.n_tokens() - 1;
        }
        if ids.is_empty() {
            return Err(failed(&"it was given nothing to read"));
        }
        Ok(self.context.get_logits_ith(last).to_vec())
    }

    fn tokens(&self) -> usize {
        self.tokens
    }
}

fn backend() -> Result<&'static LlamaBackend, ModelError> {
    BACKEND.as_ref().ok_or_else(|| failed(&"it was started already"))
}

fn failed(why: &impl fmt::Display) -> ModelError {
    ModelError::LlamaCpp { detail: why.to_string() }
}
