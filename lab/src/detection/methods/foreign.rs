//! D3: a classifier that others published, as they published it.

use std::path::Path;
use std::sync::Arc;

use custody_log::Digest;
#[cfg(feature = "rten")]
use custody_models::onnx::Defender;
use custody_models::registry::{ModelFiles, ModelStore};
use custody_models::{DebertaClassifier, ModelError};

use super::{MethodError, verified};
use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// A published classifier that can stand for D3.
struct Checkpoint {
    name: &'static str,
    title: &'static str,
    open: fn(&Path) -> Result<Opened, ModelError>,
}

/// The paper's first.
const CHECKPOINTS: &[Checkpoint] = &[
    Checkpoint {
        name: "deberta-v3-base-prompt-injection-v2",
        title: "D3: protectai v2",
        open: deberta,
    },
    Checkpoint { name: "deberta-v3-base-injection", title: "D3: deepset", open: deberta },
    #[cfg(feature = "rten")]
    Checkpoint { name: "stackone-defender", title: "D3: stackone-defender", open: defender },
];

/// A published classifier at its authors' threshold.
pub struct ForeignRecipe {
    title: &'static str,
    fingerprint: String,
    opened: Opened,
}

/// D3 from the first checkpoint that is in `models`, every byte verified; else the reason why there is none.
///
/// # Errors
/// [`MethodError`] when a checkpoint is there and not what it should be.
pub fn find(models: &ModelStore) -> Result<Result<ForeignRecipe, String>, MethodError> {
    for Checkpoint { name, title, open } in CHECKPOINTS {
        let Some(files) = verified(models, name)? else { continue };
        let fingerprint = fingerprint(name, &files);
        return Ok(Ok(ForeignRecipe { title, fingerprint, opened: open(&files.dir)? }));
    }
    let names: Vec<String> = CHECKPOINTS.iter().map(|one| format!("`{}`", one.name)).collect();
    let first = CHECKPOINTS.first().map_or("", |one| one.name);
    Ok(Err(format!(
        "none of {} is on this machine; run `custody models fetch {first}`",
        names.join(", ")
    )))
}

/// The name and the hash of each file.
fn fingerprint(name: &str, model: &ModelFiles) -> String {
    let hashes: Vec<String> = model
        .files
        .iter()
        .map(|file: &String| {
            let bytes = std::fs::read(model.path(file)).unwrap_or_default();
            Digest::of(&bytes).to_string()
        })
        .collect();
    format!("{name} {}", hashes.join(" "))
}

fn deberta(folder: &Path) -> Result<Opened, ModelError> {
    Ok(Opened::Deberta(Arc::new(DebertaClassifier::open(folder)?)))
}

#[cfg(feature = "rten")]
fn defender(folder: &Path) -> Result<Opened, ModelError> {
    Ok(Opened::Defender(Arc::new(Defender::open(folder)?)))
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
        Ok(Box::new(self.opened.clone()))
    }
}

#[derive(Clone)]
enum Opened {
    Deberta(Arc<DebertaClassifier>),
    #[cfg(feature = "rten")]
    Defender(Arc<Defender>),
}

impl Detector for Opened {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        match self {
            Self::Deberta(classifier) => Ok(classifier.probabilities(texts)?),
            // A text that its authors do not ask about is harmless to them.
            #[cfg(feature = "rten")]
            Self::Defender(classifier) => Ok(classifier
                .scores(texts)?
                .into_iter()
                .map(|score| score.map_or(0.0, |score| score.main))
                .collect()),
        }
    }

    fn threshold(&self) -> f64 {
        match self {
            Self::Deberta(_) => 0.5,
            #[cfg(feature = "rten")]
            Self::Defender(classifier) => classifier.threshold(),
        }
    }
}
