//! The two configurations of the detector, opened.

use std::sync::Arc;

use anyhow::Context as _;
use custody_detect::screen::Screener;
use custody_models::{Encoder, Tokenizer};

use crate::context::Context;

/// The model that the full configuration stands on.
pub(crate) const BASE_MODEL: &str = "all-minilm-l6-v2";

/// Which detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Detector {
    /// Rules and n-grams, compiled in
    Default,
    /// The same, with a transformer where they are unsure; needs `custody models fetch all-minilm-l6-v2`
    Full,
}

/// Opens the detector that was asked for.
///
/// # Errors
/// When the full one is asked for and its base model is not here, or is not what it should be. It never falls
/// back to the other: whoever asked for it would take a weaker answer for its own.
pub(crate) fn load(context: &Context, detector: Option<Detector>) -> anyhow::Result<Screener> {
    match detector.unwrap_or(Detector::Default) {
        Detector::Default => Ok(Screener::built_in().clone()),
        Detector::Full => {
            let (base, tokenizer) = base(context)?;
            Screener::full(&base, tokenizer).context("the full detector could not be opened")
        }
    }
}

/// The base model and its tokenizer, every byte verified.
pub(crate) fn base(context: &Context) -> anyhow::Result<(Encoder, Arc<Tokenizer>)> {
    let files = context.models().verified(BASE_MODEL)?;
    let encoder = Encoder::open(&files.dir)?;
    let tokenizer = Tokenizer::open(&files.path("tokenizer.json"))?;
    Ok((encoder, Arc::new(tokenizer)))
}
