//! `custody.toml`: the one configuration file. Unknown keys are errors (R31).
//!
//! It is looked for in the user's configuration folder or where `--config` says, never in the working
//! folder: an agent's workspace is not a place to take orders from.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_gateway::memory_tools::MemoryTools;
use serde::Deserialize;

/// The whole file; every part may be left out. Its schema is `docs/reference/custody.schema.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) store: StoreConfig,
    pub(crate) session: SessionConfig,
    pub(crate) replay: ReplayConfig,
    pub(crate) models: FolderConfig,
    pub(crate) data: FolderConfig,
    pub(crate) language_model: LanguageModelConfig,
}

/// The paths of the store and of its key folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreConfig {
    pub(crate) path: Option<PathBuf>,
    pub(crate) keys: Option<PathBuf>,
}

/// How sessions of hosts are run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionConfig {
    /// Sessions in which nothing was asked for so many hours are closed when `custody session` starts for their
    /// principal.
    pub(crate) close_idle_hours: Option<NonZeroU32>,
}

/// The folder of the weights, or of the benchmark data.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FolderConfig {
    pub(crate) dir: Option<PathBuf>,
}

/// The language model of commands that name none. It holds the name of the variable with the key, never the key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LanguageModelConfig {
    pub(crate) model: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) key_variable: Option<String>,
    pub(crate) requests_per_minute: Option<NonZeroU32>,
}

/// Options of `custody replay`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplayConfig {
    /// Which tools are memory tools, and which file names are watched.
    pub(crate) memory: MemoryTools,
    /// The longest line that is read, in bytes.
    pub(crate) max_line_bytes: Option<usize>,
}

impl Config {
    /// Reads `path`, or the user's own file if there is one.
    pub(crate) fn load(path: Option<&Path>, own: &Path) -> anyhow::Result<Self> {
        let path = match path {
            Some(path) => path,
            None if own.exists() => own,
            None => return Ok(Self::default()),
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read the configuration `{}`", path.display()))?;
        toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text.get(..span.start).unwrap_or_default().matches('\n').count()
            });
            let why = error.message().lines().next().unwrap_or_default();
            anyhow::anyhow!("`{}` line {line}: {why}", path.display())
        })
    }
}
