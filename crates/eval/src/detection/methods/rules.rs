//! D1: rules. They learn nothing, so every task gets the same detector.

use custody_detect::screen::FLAGGED_FROM;
use custody_detect::{Rules, built_in_file};
use custody_kernel::digest::Digest;

use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};

/// The compiled-in rules.
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
        format!("rules {}", Digest::of(rules))
    }

    fn varies(&self) -> Varies {
        Varies::No
    }

    fn train(&self, _: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(Self))
    }
}

impl Detector for RulesRecipe {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        texts.iter().map(|text| Ok(Rules::builtin().scan(text)?.score)).collect()
    }

    fn threshold(&self) -> f64 {
        FLAGGED_FROM
    }
}
