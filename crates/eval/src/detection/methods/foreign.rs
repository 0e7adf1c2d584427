//! D3: a classifier that others published, as they published it.

use std::sync::Arc;

use custody_kernel::digest::Digest;
use custody_models::DebertaClassifier;
use custody_models::registry::{ModelFiles, Models};

use super::{MethodError, verified};
use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// The published checkpoints that can stand for D3, the paper's first.
const CHECKPOINTS: [(&str, &str); 2] = [
    ("deberta-v3-base-prompt-injection-v2", "D3: protectai v2"),
    ("deberta-v3-base-injection", "D3: deepset"),
];

/// A published DeBERTa classifier at its authors' threshold.
#[derive(Debug)]
pub struct ForeignRecipe {
    title: &'static str,
    fingerprint: String,
    classifier: Arc<DebertaClassifier>,
}

/// D3 from the first checkpoint that is in `models`, every byte verified; else the reason why there is none.
///
/// # Errors
/// [`MethodError`] when a checkpoint is there and not what it should be.
pub fn find(models: &Models) -> Result<Result<ForeignRecipe, String>, MethodError> {
    for (name, title) in CHECKPOINTS {
        let Some(files) = verified(models, name)? else { continue };
        let classifier = DebertaClassifier::open(&files.dir)?;
        return Ok(Ok(ForeignRecipe {
            title,
            fingerprint: fingerprint(name, &files),
            classifier: Arc::new(classifier),
        }));
    }
    let [(first, _), (second, _)] = CHECKPOINTS;
    Ok(Err(format!(
        "neither `{first}` nor `{second}` is on this machine; run `custody models fetch {first}`"
    )))
}

/// The name and the hash of each file.
fn fingerprint(name: &str, model: &ModelFiles) -> String {
    let of = |file: &String| {
        let bytes = std::fs::read(model.path(file)).unwrap_or_default();
        Digest::of(&bytes).to_string()
    };
    let hashes: Vec<String> = model.files.iter().map(of).collect();
    format!("{name} {}", hashes.join(" "))
}

impl Recipe for ForeignRecipe {
    fn id(&self) -> &str {
        "d3"
    }

    fn title(&self) -> &str {
        self.title
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
