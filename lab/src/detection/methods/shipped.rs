//! The detectors as they are shipped: *default* and *full*.

use std::sync::Arc;

use custody_detect::screen::{FLAGGED_FROM, Screener};
use custody_detect::text_kind::TextKind;
use custody_detect::{TransformerFiles, built_in_file};
use custody_log::Digest;
use custody_models::registry::ModelStore;
use custody_models::{Encoder, Tokenizer};

use super::rules::RulesRecipe;
use super::{MethodError, verified};
use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// The model that the full configuration stands on.
pub const BASE_MODEL: &str = "all-minilm-l6-v2";

/// A cascade that takes every text for the same kind.
#[derive(Clone)]
pub struct ShippedScreening {
    screener: Screener,
    kind: TextKind,
}

impl ShippedScreening {
    /// Screens texts of `kind`.
    pub fn new(screener: Screener, kind: TextKind) -> Self {
        Self { screener, kind }
    }
}

impl Detector for ShippedScreening {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        texts.iter().map(|text| Ok(self.screener.screen(text, self.kind)?.score)).collect()
    }

    fn threshold(&self) -> f64 {
        FLAGGED_FROM
    }
}

/// A shipped detector among the recipes: it learns nothing from a task.
#[derive(Clone)]
pub struct ShippedRecipe {
    id: &'static str,
    title: &'static str,
    files: &'static [&'static str],
    screener: Screener,
}

/// The compiled-in configuration.
pub fn default() -> ShippedRecipe {
    let screener = Screener::built_in().clone();
    ShippedRecipe { id: "default", title: "default (shipped)", files: &NGRAM_FILES, screener }
}

/// The compiled-in configuration with the transformer, which stands on `base`.
///
/// # Errors
/// [`MethodError`] when the weights do not fit `base`.
pub fn full(base: &Base) -> Result<ShippedRecipe, MethodError> {
    let stage = TransformerFiles::built_in().open(&base.encoder, Arc::clone(&base.tokenizer))?;
    let screener = Screener::full(stage);
    Ok(ShippedRecipe { id: "full", title: "full (shipped)", files: &FULL_FILES, screener })
}

const NGRAM_FILES: [&str; 3] = ["prompts.safetensors", "contents.safetensors", "ngrams.json"];
const FULL_FILES: [&str; 5] =
    ["prompts.safetensors", "contents.safetensors", "ngrams.json", "full.safetensors", "full.json"];

/// The digests of what the default configuration is made of.
///
/// A change of the recipe changes them too: every change is checked to make the same weights again.
pub(super) fn default_fingerprint() -> String {
    digests(&NGRAM_FILES)
}

/// The same of the full configuration: its weights are made again by hand when its recipe changes.
pub(super) fn full_fingerprint() -> String {
    digests(&FULL_FILES)
}

fn digests(files: &[&str]) -> String {
    let digests: Vec<String> = files
        .iter()
        .map(|name: &&str| Digest::of(built_in_file(name).unwrap_or_default()).to_string())
        .collect();
    format!("{} {}", RulesRecipe.fingerprint(), digests.join(" "))
}

/// The base model with its tokenizer.
#[derive(Debug, Clone)]
pub struct Base {
    /// The model.
    pub encoder: Encoder,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
}

/// The base model from `models`, every byte verified; else the reason why it is not here, without a path of
/// this machine.
///
/// # Errors
/// [`MethodError`] when it is there and not what it should be.
pub fn base(models: &ModelStore) -> Result<Result<Base, String>, MethodError> {
    let Some(files) = verified(models, BASE_MODEL)? else {
        return Ok(Err(format!(
            "the model `{BASE_MODEL}` is not on this machine; run `custody models fetch {BASE_MODEL}`"
        )));
    };
    let encoder = Encoder::open(&files.dir)?;
    let tokenizer = Arc::new(Tokenizer::open(&files.path("tokenizer.json"))?);
    Ok(Ok(Base { encoder, tokenizer }))
}

impl ShippedRecipe {
    /// The detector, taking every text for `kind`.
    pub fn screening(&self, kind: TextKind) -> ShippedScreening {
        ShippedScreening::new(self.screener.clone(), kind)
    }
}

impl Recipe for ShippedRecipe {
    fn id(&self) -> &str {
        self.id
    }

    fn title(&self) -> &str {
        self.title
    }

    fn fingerprint(&self) -> String {
        digests(self.files)
    }

    fn varies(&self) -> Varies {
        Varies::No
    }

    fn has_learned(&self) -> &[&str] {
        &["deepset", "jackhhao"]
    }

    /// The rows of these data sets are words to an assistant.
    fn train(&self, _: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(self.screening(TextKind::Prompt)))
    }
}
