//! The two configurations of the detector, opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use custody_detect::TransformerFiles;
use custody_detect::screen::Screener;
use custody_log::Digest;
use custody_models::registry::ModelStore;
use custody_models::{Embedder, Encoder, SentenceEmbedder, Tokenizer};

use crate::context::GlobalContext;
use crate::file_error::unreadable;

/// The model that the full configuration stands on.
pub const BASE_MODEL: &str = "all-minilm-l6-v2";
/// The weights of a transformer in its folder.
pub const WEIGHTS: &str = "full.safetensors";
/// Its thresholds, in the same folder.
pub const THRESHOLDS: &str = "full.json";

/// The options that choose a detector, for every command that screens.
#[derive(Debug, clap::Args)]
pub struct DetectorOptions {
    /// The detector
    #[arg(long, value_enum, default_value = "default")]
    detector: Detector,
    /// Where `custody train transformer` wrote other weights for the full detector [default: compiled in]
    #[arg(long, value_name = "DIR", env = "CUSTODY_WEIGHTS")]
    weights: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Detector {
    /// Rules and n-grams, compiled in
    Default,
    /// The same, with a transformer where they are unsure; needs `custody models fetch all-minilm-l6-v2`
    Full,
}

impl DetectorOptions {
    /// Opens the detector that was asked for.
    ///
    /// # Errors
    /// When the full one is asked for and its weights are not here, or are not what they should be. It never
    /// falls back to the other: whoever asked for it would take a weaker answer for its own.
    pub fn open(&self, context: &GlobalContext) -> anyhow::Result<Screener> {
        match self.detector {
            Detector::Default => Ok(Screener::built_in().clone()),
            Detector::Full => {
                let (base, tokenizer) = base(context)?;
                self.full(&base, tokenizer)
            }
        }
    }

    /// The flag that chooses the same detector again; empty for the default one.
    pub fn arguments(&self) -> String {
        match self.detector {
            Detector::Default => String::new(),
            Detector::Full => "--detector full".to_owned(),
        }
    }

    /// The same, and the embedder that comes with the full detector.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with_embedder(
        &self,
        context: &GlobalContext,
    ) -> anyhow::Result<(Screener, Option<Arc<dyn Embedder>>)> {
        match self.detector {
            Detector::Default => Ok((Screener::built_in().clone(), None)),
            Detector::Full => {
                let (base, tokenizer) = base(context)?;
                let screener = self.full(&base, Arc::clone(&tokenizer))?;
                Ok((screener, Some(Arc::new(SentenceEmbedder::new(Arc::new(base), tokenizer)?))))
            }
        }
    }

    fn full(&self, base: &Encoder, tokenizer: Arc<Tokenizer>) -> anyhow::Result<Screener> {
        match &self.weights {
            Some(folder) => from_folder(base, tokenizer, folder),
            None => Ok(Screener::full(TransformerFiles::built_in().open(base, tokenizer)?)),
        }
    }
}

fn from_folder(
    base: &Encoder,
    tokenizer: Arc<Tokenizer>,
    folder: &Path,
) -> anyhow::Result<Screener> {
    let (overlay, blends) = (read(&folder.join(WEIGHTS))?, read(&folder.join(THRESHOLDS))?);
    let files = TransformerFiles { overlay: &overlay, blends: &blends };
    let transformer = files
        .open(base, tokenizer)
        .with_context(|| format!("could not use the weights in `{}`", folder.display()))?;
    Ok(Screener::full(transformer))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| unreadable(path))
}

/// The base model and its tokenizer, every byte verified.
pub fn base(context: &GlobalContext) -> anyhow::Result<(Encoder, Arc<Tokenizer>)> {
    base_of(&context.models())
}

fn base_of(models: &ModelStore) -> anyhow::Result<(Encoder, Arc<Tokenizer>)> {
    let files = models.verified(BASE_MODEL)?;
    let encoder = Encoder::open(&files.dir)?;
    let tokenizer = Tokenizer::open(&files.path("tokenizer.json"))?;
    Ok((encoder, Arc::new(tokenizer)))
}

/// The embedder over the base model, with the name that its vectors are kept under.
pub fn embedder(context: &GlobalContext) -> anyhow::Result<(SentenceEmbedder, Digest)> {
    embedder_of(&context.models())
}

/// The same, among `models`.
///
/// # Errors
/// When it is not installed, or its files are not those of the list.
pub(super) fn embedder_of(models: &ModelStore) -> anyhow::Result<(SentenceEmbedder, Digest)> {
    let (encoder, tokenizer) = base_of(models)?;
    let model = Digest::of(encoder.digest().as_bytes());
    Ok((SentenceEmbedder::new(Arc::new(encoder), tokenizer)?, model))
}
