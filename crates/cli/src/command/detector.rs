//! The two configurations of the detector, opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use custody_detect::reader::EncoderReader;
use custody_detect::screen::{Cuts, Screener, TransformerStage};
use custody_models::{Encoder, EncoderClassifier, Tokenizer};

use crate::context::Context;

/// The model that the full configuration stands on.
pub(crate) const BASE_MODEL: &str = "all-minilm-l6-v2";
/// The files of a transformer in its folder.
pub(crate) const WEIGHTS: &str = "full.safetensors";
pub(crate) const THRESHOLDS: &str = "full.json";

/// Which detector, for every command that screens.
#[derive(Debug, clap::Args)]
pub(crate) struct Choice {
    /// Which detector
    #[arg(long, value_enum, default_value = "default")]
    detector: Detector,
    /// Where `custody train transformer` wrote the weights of the full detector
    #[arg(long, value_name = "DIR", env = "CUSTODY_WEIGHTS")]
    weights: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Detector {
    /// Rules and n-grams, compiled in
    Default,
    /// The same, with a transformer where they are unsure; needs the MiniLM weights and --weights
    Full,
}

impl Choice {
    /// Opens the detector that was asked for.
    ///
    /// # Errors
    /// When the full one is asked for and its weights are not here, or are not what they should be. It never
    /// falls back to the other: whoever asked for it would take a weaker answer for its own.
    pub(crate) fn open(&self, context: &Context) -> anyhow::Result<Screener> {
        match (self.detector, &self.weights) {
            (Detector::Default, _) => Ok(Screener::built_in().clone()),
            (Detector::Full, Some(folder)) => Ok(Screener::full(transformer(context, folder)?)),
            (Detector::Full, None) => bail!(
                "say with --weights where the full detector's weights are; \
                 `custody train transformer --out DIR` makes them"
            ),
        }
    }
}

fn transformer(context: &Context, folder: &Path) -> anyhow::Result<TransformerStage> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("could not read `{}`", path.display()))
    };
    let (overlay, thresholds) = (read(WEIGHTS)?, read(THRESHOLDS)?);
    let cuts: Cuts = serde_json::from_slice(&thresholds).with_context(|| {
        format!("`{}` holds no thresholds; train again", folder.join(THRESHOLDS).display())
    })?;
    let (base, tokenizer) = base(context)?;
    let classifier = EncoderClassifier::load(&base, tokenizer, &overlay)
        .with_context(|| format!("could not use `{}`", folder.join(WEIGHTS).display()))?;
    Ok(TransformerStage { reader: Arc::new(EncoderReader::new(classifier)?), cuts })
}

/// The base model and its tokenizer, every byte verified.
pub(crate) fn base(context: &Context) -> anyhow::Result<(Encoder, Arc<Tokenizer>)> {
    let files = context.models().verified(BASE_MODEL)?;
    let encoder = Encoder::open(&files.dir)?;
    let tokenizer = Tokenizer::open(&files.path("tokenizer.json"))?;
    Ok((encoder, Arc::new(tokenizer)))
}
