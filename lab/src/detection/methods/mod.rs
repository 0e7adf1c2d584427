//! The detectors that are measured, D1 to D5 and the two that are shipped.
//!
//! - [`rules`], [`ngrams`], [`foreign`], [`fine_tuned`]: D1 to D4.
//! - [`shipped`]: *default* and *full*. [`retrained`]: the same recipes without the attacks measured.

pub mod rules;

pub mod ngrams;

pub mod foreign;

pub mod fine_tuned;

pub mod shipped;

pub mod retrained;

mod threshold;

use custody_detect::TransformerFilesError;
use custody_models::ModelError;
use custody_models::registry::{ModelFiles, ModelStore, ModelStoreError};
use shipped::{Base, ShippedRecipe};

use super::detector::{Method, Recipe};
use super::mixture::{Mixture, MixturePart};

/// The ids of all methods, in the order of the report.
pub const METHODS: [&str; 7] = ["d1", "d2", "d3", "d4", "d5", "default", "full"];

/// What D5 pools, with weights and how many trainings of each: n-grams and transformer, chosen on training rows
/// (`docs/decisions/0012-how-the-fine-tuned-transformer-is-trained.md`).
const MIXTURE: [(&str, f64, usize); 2] = [("d2", 0.2, 1), ("d4", 0.8, 2)];

/// Weights that are on this machine and cannot be used. Weights that are not here are no error.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// Their bytes are not what they should be.
    #[error(transparent)]
    ModelStore(#[from] ModelStoreError),
    /// They cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Ours do not fit the base model.
    #[error(transparent)]
    Weights(#[from] TransformerFilesError),
}

/// The folder of a model, every byte verified; `None` when it is not here.
fn verified(models: &ModelStore, name: &str) -> Result<Option<ModelFiles>, ModelStoreError> {
    match models.verified(name) {
        Ok(files) => Ok(Some(files)),
        Err(ModelStoreError::Absent { .. }) => Ok(None),
        Err(damaged) => Err(damaged),
    }
}

/// Methods that are ready, or absent with a reason.
pub struct Methods(Vec<Owned>);

enum Owned {
    Recipe(Box<dyn Recipe>),
    Mixture(Mixture),
    Absent { id: &'static str, title: &'static str, why: String },
}

impl Methods {
    /// The methods among `wanted` (ids of [`METHODS`]), and those that a wanted mixture is made of. What needs
    /// weights looks for them in `models`.
    ///
    /// # Errors
    /// [`MethodError`] when weights are there and are not what they should be.
    pub fn open(models: &ModelStore, wanted: &[String]) -> Result<Self, MethodError> {
        let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        if wanted.contains(&"d5") {
            wanted.extend(MIXTURE.iter().map(|(part, ..)| *part));
        }
        let base = if wanted.contains(&"d4") || wanted.contains(&"full") {
            shipped::base(models)?
        } else {
            Err("it was not asked for".to_owned())
        };
        let mut found = Vec::new();
        for id in METHODS.into_iter().filter(|id| wanted.contains(id)) {
            found.push(match id {
                "d1" => Owned::Recipe(Box::new(rules::RulesRecipe)),
                "d2" => Owned::Recipe(Box::new(ngrams::NgramRecipe)),
                "d3" => Owned::of(id, "D3: off-the-shelf", foreign::find(models)?),
                "d4" => Owned::of(id, "D4: MiniLM", fine_tuned(&base)),
                "d5" => Owned::Mixture(mixture()),
                "default" => Owned::Recipe(Box::new(shipped::default())),
                _ => Owned::of(id, "full (shipped)", full(&base)?),
            });
        }
        Ok(Self(found))
    }

    /// As the suite takes them.
    pub fn list(&self) -> Vec<Method<'_>> {
        self.0.iter().map(Owned::as_method).collect()
    }
}

impl Owned {
    fn as_method(&self) -> Method<'_> {
        match self {
            Self::Recipe(recipe) => Method::Recipe(recipe.as_ref()),
            Self::Mixture(mixture) => Method::Mixture(mixture.clone()),
            Self::Absent { id, title, why } => Method::Absent {
                id: (*id).to_owned(),
                title: (*title).to_owned(),
                why: why.clone(),
            },
        }
    }

    fn of(
        id: &'static str,
        title: &'static str,
        found: Result<impl Recipe + 'static, String>,
    ) -> Self {
        match found {
            Ok(recipe) => Self::Recipe(Box::new(recipe)),
            Err(why) => Self::Absent { id, title, why },
        }
    }
}

fn fine_tuned(base: &Result<Base, String>) -> Result<fine_tuned::FineTunedRecipe, String> {
    let Base { encoder, tokenizer } = base.clone()?;
    Ok(fine_tuned::FineTunedRecipe::new(encoder, tokenizer))
}

fn full(base: &Result<Base, String>) -> Result<Result<ShippedRecipe, String>, MethodError> {
    match base {
        Ok(base) => Ok(Ok(shipped::full(base)?)),
        Err(why) => Ok(Err(why.clone())),
    }
}

fn mixture() -> Mixture {
    Mixture {
        id: "d5".to_owned(),
        title: "D5: D2 and D4".to_owned(),
        parts: MIXTURE
            .map(|(id, weight, trainings)| MixturePart { id: id.to_owned(), weight, trainings })
            .to_vec(),
        threshold: 0.5,
    }
}
