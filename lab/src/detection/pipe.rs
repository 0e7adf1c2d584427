//! PIPE's prefilter as a recipe and as a detector, for the suites.

use std::sync::Arc;

use custody_detect::ngram_stage;
use custody_detect::prefilter::{Prefilter, PrefilterModel};

use super::detector::{Detector, Failure, Recipe, Task, Varies};
use crate::recipe::embedding;
use crate::vectors::CachedEmbedder;

/// Trains the prefilter's regression on the rows of a task.
pub struct PrefilterRecipe {
    embedder: Arc<CachedEmbedder>,
}

impl PrefilterRecipe {
    /// On the vectors of `embedder`.
    pub fn new(embedder: Arc<CachedEmbedder>) -> Self {
        Self { embedder }
    }
}

impl Recipe for PrefilterRecipe {
    fn id(&self) -> &str {
        "prefilter"
    }

    fn title(&self) -> &str {
        "Prefilter: sentence vector, logistic regression, rules"
    }

    fn fingerprint(&self) -> String {
        let rules = custody_detect::built_in_file("rules.toml").unwrap_or_default();
        let rules = custody_log::Digest::of(rules);
        format!("embedding 1, vectors {}, rules {rules}", self.embedder.digest())
    }

    fn varies(&self) -> Varies {
        Varies::WithData
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        let model =
            embedding::on_rows(task.train, Vec::new(), task.seed, &self.embedder, &mut |_, _| {})?;
        Ok(Box::new(PrefilterDetector::new(&self.embedder, model)?))
    }
}

/// A prefilter that gives scores.
pub struct PrefilterDetector {
    embedder: Arc<CachedEmbedder>,
    /// From known vectors.
    remembering: Prefilter,
    /// Embeds every time.
    computing: Prefilter,
}

impl PrefilterDetector {
    /// With `model` on the vectors of `embedder`.
    ///
    /// # Errors
    /// When they do not fit together.
    pub fn new(embedder: &Arc<CachedEmbedder>, model: PrefilterModel) -> Result<Self, Failure> {
        let computing = Prefilter::new(embedder.without_memory(), model.clone())?;
        let remembering = embedding::asking_always(embedder, model)?;
        Ok(Self { embedder: Arc::clone(embedder), remembering, computing })
    }
}

impl Detector for PrefilterDetector {
    /// One text alone is judged as in service: that is how a call is timed.
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        if let [text] = texts {
            return Ok(vec![self.computing.check(text)?.score]);
        }
        let mut stretches = Vec::new();
        for text in texts {
            stretches.extend(ngram_stage::chunks_to_embed(text)?);
        }
        let stretches: Vec<&str> = stretches.iter().map(String::as_str).collect();
        self.embedder.learn(&stretches, &mut |_, _| {})?;
        texts.iter().map(|text| Ok(self.remembering.check(text)?.score)).collect()
    }

    fn threshold(&self) -> f64 {
        self.remembering.model().threshold()
    }
}
