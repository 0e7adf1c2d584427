//! D4: MiniLM, fine-tuned on the training rows of each data set.

use std::ops::ControlFlow;
use std::sync::Arc;

use custody_models::train::{Options, Progress, Sample, fine_tune};
use custody_models::{Classifier, Encoder, EncoderClassifier, ModelError, Tokenizer};

use super::threshold::with_best_f1;
use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};
use crate::detection::sets::Labelled;
use crate::detection::sets::parts::validation;

/// The share of the training rows that decides when to stop and where to flag.
const VALIDATION: f64 = 0.125;
/// Epochs that may be worse than the best before it is given up.
const PATIENCE: usize = 2;

/// D4: all layers, one head. The epoch and the threshold are chosen on rows of the training part.
#[derive(Debug, Clone)]
pub struct FineTunedRecipe {
    base: Encoder,
    tokenizer: Arc<Tokenizer>,
}

impl FineTunedRecipe {
    /// Fine-tunes `base`, whose tokenizer is `tokenizer`.
    pub fn new(base: Encoder, tokenizer: Arc<Tokenizer>) -> Self {
        Self { base, tokenizer }
    }
}

/// More epochs for fewer rows.
fn options(data_set: &str, seed: u64) -> Options {
    let epochs = match data_set {
        "deepset" => 8,
        "jackhhao" => 3,
        _ => 4,
    };
    Options {
        epochs,
        batch: 16,
        learning_rate: 5e-5,
        // Half of what the paper reads: jailbreaks show themselves early, and a run takes half as long.
        max_tokens: 128,
        freeze_embeddings: false,
        heads: 1,
        seed,
        ..Options::default()
    }
}

impl Recipe for FineTunedRecipe {
    fn id(&self) -> &str {
        "d4"
    }

    fn title(&self) -> &str {
        "D4: MiniLM"
    }

    fn fingerprint(&self) -> String {
        let options = ["deepset", "jackhhao", "combined"].map(|set| options(set, 0));
        format!("{} {VALIDATION} {PATIENCE} {options:?}", self.base.digest())
    }

    fn varies(&self) -> Varies {
        Varies::WithDataAndSeed
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        let (learn, kept) = validation(task.train, VALIDATION, task.seed);
        let sample = |row: &Labelled| -> (String, f32) {
            (row.text.clone(), if row.label { 1.0 } else { 0.0 })
        };
        let rows: Vec<(String, f32)> = learn.iter().map(sample).collect();
        let samples: Vec<Sample<'_>> = rows
            .iter()
            .map(|(text, target)| Sample { text, targets: vec![Some(*target)], weight: 1.0 })
            .collect();
        let mut best = Best::default();
        let options = options(task.data_set, task.seed);
        let mut watch = |progress: Progress<'_>| match progress {
            Progress::Batch { .. } => ControlFlow::Continue(()),
            Progress::Epoch { classifier, .. } => best.consider(classifier, &kept),
        };
        let last = fine_tune(&self.base, &self.tokenizer, &samples, &options, &mut watch)?;
        best.finish(last, &kept)
    }
}

/// The epoch with the lowest loss on the validation rows so far.
#[derive(Default)]
struct Best {
    found: Option<(f64, EncoderClassifier)>,
    worse_since: usize,
    /// What went wrong inside the training, where nothing can be returned.
    failure: Option<ModelError>,
}

impl Best {
    fn consider(&mut self, classifier: &EncoderClassifier, kept: &[Labelled]) -> ControlFlow<()> {
        let logits = match logits(classifier, kept) {
            Ok(logits) => logits,
            Err(failure) => {
                self.failure = Some(failure);
                return ControlFlow::Break(());
            }
        };
        let loss = loss(&logits, kept);
        if self.found.as_ref().is_none_or(|(best, _)| loss < *best) {
            self.found = Some((loss, classifier.clone()));
            self.worse_since = 0;
        } else {
            self.worse_since += 1;
        }
        if self.worse_since < PATIENCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn finish(
        self,
        last: EncoderClassifier,
        kept: &[Labelled],
    ) -> Result<Box<dyn Detector>, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure.into());
        }
        let classifier = self.found.map_or(last, |(_, best)| best);
        let scores: Vec<f64> = logits(&classifier, kept)?.into_iter().map(sigmoid).collect();
        let threshold = with_best_f1(&scores, kept);
        Ok(Box::new(Trained { classifier, threshold }))
    }
}

fn logits(classifier: &EncoderClassifier, rows: &[Labelled]) -> Result<Vec<f64>, ModelError> {
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    first_head(classifier, &texts)
}

fn first_head(classifier: &EncoderClassifier, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
    let logits = classifier.logits(texts)?;
    Ok(logits.iter().map(|heads| heads.first().map_or(f64::NAN, |logit| (*logit).into())).collect())
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Mean binary cross-entropy in nats: `ln(1 + e^-z)` for an injection, `ln(1 + e^z)` for another text.
fn loss(logits: &[f64], rows: &[Labelled]) -> f64 {
    let of = |(logit, row): (&f64, &Labelled)| {
        let wrong = if row.label { -logit } else { *logit };
        // Without the largest term inside, a confident mistake would overflow.
        wrong.max(0.0) + (-wrong.abs()).exp().ln_1p()
    };
    logits.iter().zip(rows).map(of).sum::<f64>() / rows.len().max(1) as f64
}

struct Trained {
    classifier: EncoderClassifier,
    threshold: f64,
}

impl Detector for Trained {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        Ok(first_head(&self.classifier, texts)?.into_iter().map(sigmoid).collect())
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(labels: &[bool]) -> Vec<Labelled> {
        let row = |label: &bool| Labelled { id: String::new(), text: String::new(), label: *label };
        labels.iter().map(row).collect()
    }

    #[test]
    fn the_loss_of_a_confident_mistake_is_finite() {
        let rows = rows(&[true, false]);
        assert!((loss(&[0.0, 0.0], &rows) - std::f64::consts::LN_2).abs() < 1e-12);
        assert!((loss(&[-1e4, 1e4], &rows) - 1e4).abs() < 1e-9);
        assert!(loss(&[40.0, -40.0], &rows) < 1e-12);
    }
}
