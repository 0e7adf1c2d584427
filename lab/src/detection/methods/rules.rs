//! D1: rules. What they find never changes; from which score on a text counts is chosen on the training rows.

use custody_detect::{RuleSet, built_in_file};
use custody_log::Digest;

use super::threshold::with_best_f1;
use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// The compiled-in rules at the threshold with the best F1 on the training rows.
///
/// A weak rule decides nothing in the cascade, where it would block the innocent; here it is weighed by how
/// often it is right on texts of this sort.
#[derive(Debug, Clone, Copy)]
pub struct RulesRecipe;

impl Recipe for RulesRecipe {
    fn id(&self) -> &str {
        "d1"
    }

    fn title(&self) -> &str {
        "D1: rules"
    }

    fn fingerprint(&self) -> String {
        let rules = built_in_file("rules.toml").unwrap_or_default();
        format!("rules, threshold with the best F1, {}", Digest::of(rules))
    }

    fn varies(&self) -> Varies {
        Varies::WithData
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        let texts: Vec<&str> = task.train.iter().map(|row| row.text.as_str()).collect();
        let threshold = with_best_f1(&scores(&texts)?, task.train);
        Ok(Box::new(RulesFrom { threshold }))
    }
}

struct RulesFrom {
    threshold: f64,
}

impl Detector for RulesFrom {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        scores(texts)
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }
}

fn scores(texts: &[&str]) -> Result<Vec<f64>, Failure> {
    texts.iter().map(|text| Ok(RuleSet::built_in().scan(text)?.score)).collect()
}
