//! What is measured: detectors, and recipes that make them from labelled rows.

use super::mixture::Mixture;
use crate::recipe::corpus::Held;
use crate::sets::Labelled;

/// Why a detector could not be trained or asked, in its own words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Gives texts scores.
pub trait Detector {
    /// One score a text, in order; higher is more suspicious. Probabilities where they are meant as such.
    ///
    /// # Errors
    /// When the detector fails; the suite stops then, for a missing score is no low one.
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure>;

    /// A text is flagged from this score on. Chosen without a look at the rows it is measured on.
    fn threshold(&self) -> f64;
}

/// A detector that is told what a text is to the assistant: one for words to it, one for documents.
#[derive(Clone, Copy)]
pub struct ByKind<'a> {
    /// For words to the assistant.
    pub prompts: &'a dyn Detector,
    /// For documents that it reads.
    pub documents: &'a dyn Detector,
}

impl<'a> ByKind<'a> {
    /// A detector that does not ask.
    pub fn same(detector: &'a dyn Detector) -> Self {
        Self { prompts: detector, documents: detector }
    }

    /// The one for documents, or for words to the assistant.
    pub fn of(&self, are_documents: bool) -> &'a dyn Detector {
        if are_documents { self.documents } else { self.prompts }
    }
}

/// What a recipe is given.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The data set's name: options may differ by it, as in the papers.
    pub data_set: &'a str,
    /// The only rows it may learn from and choose thresholds on.
    pub train: &'a [Labelled],
    /// What it must not learn from either, if it learns from more than `train`.
    pub held: &'a Held,
    /// What every random draw comes from.
    pub seed: u64,
}

/// What the scores of a recipe's detectors depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Varies {
    /// Nothing: the detector is as it is.
    No,
    /// The rows it was trained on.
    WithData,
    /// The rows and the seed.
    WithDataAndSeed,
}

/// Makes detectors.
pub trait Recipe {
    /// Its name in ids of figures: `d2`.
    fn id(&self) -> &str;

    /// Its name for people: `D2: character n-grams`.
    fn title(&self) -> &str;

    /// All that its scores depend on besides the task: options, digests of weights, the version of what
    /// changed them last. Two recipes with one fingerprint are taken for the same when a run is resumed.
    fn fingerprint(&self) -> String;

    /// What its scores depend on.
    fn varies(&self) -> Varies;

    /// The data sets whose training parts it has learned from already, whatever the task. Test rows that stand
    /// there are left out of the figures without leaks: the combined corpus parts the rows of the others anew.
    fn has_learned(&self) -> &[&str] {
        &[]
    }

    /// Trains a detector.
    ///
    /// # Errors
    /// When it cannot be trained on these rows.
    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure>;
}

/// One row of the tables: a recipe, a mixture of others, or the reason why there is none.
pub enum Method<'a> {
    /// Scores of its own.
    Recipe(&'a dyn Recipe),
    /// The pooled scores of other methods that are measured before it.
    Mixture(Mixture),
    /// Cannot be measured here.
    Absent {
        /// As [`Recipe::id`].
        id: String,
        /// As [`Recipe::title`].
        title: String,
        /// Why it cannot.
        why: String,
    },
}

impl Method<'_> {
    /// As [`Recipe::id`].
    pub fn id(&self) -> &str {
        match self {
            Self::Recipe(recipe) => recipe.id(),
            Self::Mixture(mixture) => &mixture.id,
            Self::Absent { id, .. } => id,
        }
    }

    /// As [`Recipe::title`].
    pub fn title(&self) -> &str {
        match self {
            Self::Recipe(recipe) => recipe.title(),
            Self::Mixture(mixture) => &mixture.title,
            Self::Absent { title, .. } => title,
        }
    }
}
