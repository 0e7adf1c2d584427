//! The language model that a command asks: hosted, embedded or recorded.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use custody_models::ModelError;
#[cfg(feature = "llama-cpp")]
use custody_models::chat::LlamaCppModel;
use custody_models::chat::hosted::{DEFAULT_KEY_VARIABLE, HostedModel, HostedOptions, Secret};
use custody_models::chat::{ChatModel, EmbeddedModel, Recorder, ScriptedModel};

use crate::context::GlobalContext;

/// The extension of the files that the embedded engine reads.
const GGUF: &str = "gguf";

/// The options that choose a language model, for every command that asks one. They override the configuration.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Language model")]
#[group(id = "language_model")]
pub struct LanguageModelOptions {
    /// A model of `custody models list`, a GGUF file, or with `--endpoint` the name of a model there
    /// [default: as configured, else none]
    #[arg(long, value_name = "MODEL", env = "CUSTODY_MODEL")]
    model: Option<String>,
    /// A server that speaks OpenAI's protocol, such as http://localhost:11434/v1
    #[arg(long, value_name = "URL", env = "CUSTODY_ENDPOINT")]
    endpoint: Option<String>,
    /// The environment variable that holds the server's key [default: OPENAI_API_KEY]
    #[arg(long, value_name = "NAME")]
    key_variable: Option<String>,
    /// What runs a model in this process
    #[cfg(feature = "llama-cpp")]
    #[arg(long, value_enum, default_value = "built-in")]
    engine: Engine,
    /// How many requests a minute the server is sent [default: no limit]
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<NonZeroU32>,
    /// Keep the model's answers in this file, and take those that are there from it
    #[arg(long, value_name = "FILE", conflicts_with = "recording")]
    record: Option<PathBuf>,
    /// Take all answers from this file and ask no model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "endpoint"])]
    recording: Option<PathBuf>,
}

/// What runs a model in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Custody's own, in Rust
    #[default]
    BuiltIn,
    /// llama.cpp
    #[cfg(feature = "llama-cpp")]
    LlamaCpp,
}

impl Engine {
    /// The flag that chooses it; none for what is chosen without.
    fn argument(self) -> Option<String> {
        match self {
            Self::BuiltIn => None,
            #[cfg(feature = "llama-cpp")]
            Self::LlamaCpp => Some("--engine llama-cpp".to_owned()),
        }
    }

    fn open(self, path: &Path) -> Result<Arc<dyn ChatModel>, ModelError> {
        Ok(match self {
            Self::BuiltIn => Arc::new(EmbeddedModel::open(path)?),
            #[cfg(feature = "llama-cpp")]
            Self::LlamaCpp => Arc::new(LlamaCppModel::open(path)?),
        })
    }
}

impl LanguageModelOptions {
    #[cfg(feature = "llama-cpp")]
    fn engine(&self) -> Engine {
        self.engine
    }

    #[cfg(not(feature = "llama-cpp"))]
    #[expect(clippy::unused_self, reason = "one engine is no choice")]
    fn engine(&self) -> Engine {
        Engine::BuiltIn
    }

    /// Opens the model that was chosen; none when none was, here or in the configuration.
    ///
    /// # Errors
    /// When the chosen model is not here or cannot be used, or the options do not fit together.
    pub fn open(&self, context: &GlobalContext) -> anyhow::Result<Option<Arc<dyn ChatModel>>> {
        if let Some(path) = &self.recording {
            return Ok(Some(Arc::new(ScriptedModel::open(path)?)));
        }
        let configured = &context.config.language_model;
        // An endpoint belongs to the model it was configured with, not to one that is named here.
        let endpoint = match &self.model {
            Some(_) => self.endpoint.as_ref(),
            None => self.endpoint.as_ref().or(configured.endpoint.as_ref()),
        };
        let model: Arc<dyn ChatModel> =
            match (self.model.as_ref().or(configured.model.as_ref()), endpoint) {
                (Some(name), Some(endpoint)) => Arc::new(self.hosted(context, endpoint, name)?),
                (Some(name), None) => embedded(context, name, self.engine())?,
                (None, Some(_)) => bail!("an endpoint serves several models; add `--model NAME`"),
                (None, None) if self.record.is_some() => {
                    bail!("there is no model to record; add `--model NAME`")
                }
                (None, None) => return Ok(None),
            };
        Ok(Some(match &self.record {
            Some(path) => Arc::new(Recorder::open(model, path)?),
            None => model,
        }))
    }

    /// The flags that choose the same model again; empty for the one that is configured. Of a file only its name.
    pub fn arguments(&self) -> String {
        let model = self.model.iter().map(|model| format!("--model {}", without_folder(model)));
        let endpoint = self.endpoint.iter().map(|url| format!("--endpoint {url}"));
        model.chain(endpoint).chain(self.engine().argument()).collect::<Vec<_>>().join(" ")
    }

    fn hosted(
        &self,
        context: &GlobalContext,
        endpoint: &str,
        name: &str,
    ) -> anyhow::Result<HostedModel> {
        let configured = &context.config.language_model;
        let variable = self.key_variable.as_deref().or(configured.key_variable.as_deref());
        let api_key = Secret::from_environment(variable.unwrap_or(DEFAULT_KEY_VARIABLE))?;
        if let (Some(variable), None) = (variable, &api_key) {
            bail!("`{variable}` is not set; set it to the key of `{endpoint}`");
        }
        let per_minute = self.requests_per_minute.or(configured.requests_per_minute);
        Ok(HostedModel::new(HostedOptions {
            api_key,
            requests_per_minute: per_minute,
            ..HostedOptions::new(endpoint, name)
        })?)
    }
}

/// A model of the registry, on the built-in engine.
///
/// # Errors
/// When it is not here or cannot be used.
pub fn built_in(context: &GlobalContext, name: &str) -> anyhow::Result<Arc<dyn ChatModel>> {
    embedded(context, name, Engine::BuiltIn)
}

/// A model of the registry, every byte verified, or a GGUF file.
fn embedded(
    context: &GlobalContext,
    name: &str,
    engine: Engine,
) -> anyhow::Result<Arc<dyn ChatModel>> {
    let path = Path::new(name);
    if is_gguf(path) {
        return engine.open(path).with_context(|| format!("could not use `{name}`"));
    }
    let files = context.models().verified(name)?;
    let Some(file) = files.files.iter().find(|file| is_gguf(Path::new(file))) else {
        bail!("`{name}` is no language model; see `custody models list`, or name a GGUF file");
    };
    engine.open(&files.path(file)).with_context(|| format!("could not use `{name}`"))
}

/// The name of a GGUF file without its folder; any other model as it is named.
fn without_folder(model: &str) -> String {
    let file = Path::new(model).file_name().filter(|_| is_gguf(Path::new(model)));
    file.map_or_else(|| model.to_owned(), |file| file.to_string_lossy().into_owned())
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == GGUF)
}
