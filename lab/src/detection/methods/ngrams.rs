//! D2: character n-grams and a logistic regression, with the paper's options.

use custody_detect::ngram::{NgramModel, NgramOptions, train};

use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// D2 as MON §5.2 has it: 15,000 n-grams, 20,000 for the combined corpus, threshold one half, texts as they
/// are.
#[derive(Debug, Clone, Copy)]
pub struct NgramRecipe;

/// How many n-grams are kept for a data set.
pub(in crate::detection) fn max_features(data_set: &str) -> usize {
    if data_set == "combined" { 20_000 } else { 15_000 }
}

impl Recipe for NgramRecipe {
    fn id(&self) -> &str {
        "d2"
    }

    fn title(&self) -> &str {
        "D2: n-grams"
    }

    fn fingerprint(&self) -> String {
        let features = ["deepset", "combined"].map(max_features);
        format!("{:?} {features:?}", NgramOptions::default())
    }

    fn varies(&self) -> Varies {
        Varies::WithData
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        let texts: Vec<&str> = task.train.iter().map(|row| row.text.as_str()).collect();
        let labels: Vec<bool> = task.train.iter().map(|row| row.label).collect();
        let options =
            NgramOptions { max_features: max_features(task.data_set), ..NgramOptions::default() };
        Ok(Box::new(Trained(train(&texts, &labels, None, &options)?)))
    }
}

struct Trained(NgramModel);

impl Detector for Trained {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        Ok(texts.iter().map(|text| self.0.probability(text)).collect())
    }

    fn threshold(&self) -> f64 {
        0.5
    }
}
