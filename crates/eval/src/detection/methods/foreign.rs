//! D3: a classifier that others published, as they published it.

use std::sync::Arc;

use custody_kernel::digest::Digest;
use custody_models::registry::Models;
use custody_models::{DebertaClassifier, ModelError};

use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// The published checkpoints that can stand for D3, the paper's first.
const CHECKPOINTS: [&str; 2] = ["deberta-v3-base-prompt-injection-v2", "deberta-v3-base-injection"];

/// A published DeBERTa classifier at its authors' threshold.
#[derive(Debug)]
pub struct ForeignRecipe {
    title: String,
    fingerprint: String,
    classifier: Arc<DebertaClassifier>,
}

/// D3 from the first checkpoint that is in `models`, every byte verified; else the reason why there is none.
///
/// # Errors
/// [`ModelError`] when a checkpoint is there and cannot be read.
pub fn find(models: &Models) -> Result<Result<ForeignRecipe, String>, ModelError> {
    for name in CHECKPOINTS {
        let Ok(files) = models.verified(name) else { continue };
        let classifier = DebertaClassifier::open(&files.dir)?;
        return Ok(Ok(ForeignRecipe {
            title: format!("D3: {name}"),
            fingerprint: pins(models, name),
            classifier: Arc::new(classifier),
        }));
    }
    let [first, second] = CHECKPOINTS;
    Ok(Err(format!(
        "neither `{first}` nor `{second}` is on this machine; run `custody models fetch {first}`"
    )))
}

/// The hashes and lengths of a model that is here.
fn pins(models: &Models, name: &str) -> String {
    let files = models.find(name).map(|files| files.files).unwrap_or_default();
    let of = |file: &String| {
        let path = models.folder().join(name).join(file);
        std::fs::read(path).map(|bytes| Digest::of(&bytes).to_string())
    };
    let hashes: Vec<String> = files.iter().filter_map(|file| of(file).ok()).collect();
    format!("{name} {}", hashes.join(" "))
}

impl Recipe for ForeignRecipe {
    fn id(&self) -> &str {
        "d3"
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn varies(&self) -> Varies {
        Varies::No
    }

    fn train(&self, _: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(Opened(Arc::clone(&self.classifier))))
    }
}

struct Opened(Arc<DebertaClassifier>);

impl Detector for Opened {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        Ok(self.0.probabilities(texts)?)
    }

    fn threshold(&self) -> f64 {
        0.5
    }
}
