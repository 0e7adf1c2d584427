//! Naive Bayes over words: a small detector that really learns.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::cell::Cell;
use std::collections::BTreeMap;

use custody_lab::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// The recipe, which counts how often it was asked to train.
pub struct Words {
    id: &'static str,
    varies: Varies,
    pub trained: Cell<usize>,
}

/// What it makes.
pub struct TrainedWords {
    weights: BTreeMap<String, f64>,
    threshold: f64,
}

impl Words {
    pub fn new(id: &'static str, varies: Varies) -> Self {
        Self { id, varies, trained: Cell::new(0) }
    }
}

/// The words of a text without case and punctuation.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

impl Recipe for Words {
    fn id(&self) -> &str {
        self.id
    }

    fn title(&self) -> &str {
        self.id
    }

    fn fingerprint(&self) -> String {
        "words 1".to_owned()
    }

    fn varies(&self) -> Varies {
        self.varies
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        self.trained.set(self.trained.get() + 1);
        let mut counts: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        let mut totals = [1.0, 1.0];
        // The seed leaves one row out, so that seeds differ as they do in real training.
        for (at, row) in task.train.iter().enumerate() {
            if at as u64 == task.seed {
                continue;
            }
            for word in words(&row.text) {
                counts.entry(word).or_insert([0.5, 0.5])[usize::from(row.label)] += 1.0;
                totals[usize::from(row.label)] += 1.0;
            }
        }
        let weight = |[no, yes]: [f64; 2]| (yes / totals[1]).ln() - (no / totals[0]).ln();
        let weights = counts.into_iter().map(|(word, counts)| (word, weight(counts))).collect();
        Ok(Box::new(TrainedWords { weights, threshold: 0.5 }))
    }
}

impl Detector for TrainedWords {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        let score = |text: &&str| {
            let known: Vec<f64> =
                words(text).filter_map(|word| self.weights.get(&word).copied()).collect();
            // The mean and not the sum: long texts would all be certain.
            let mean = known.iter().sum::<f64>() / (known.len() as f64 + 1.0);
            1.0 / (1.0 + (-4.0 * mean).exp())
        };
        Ok(texts.iter().map(score).collect())
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }
}
