//! The weights that are compiled in, and their operating points.
//!
//! `custody train` makes the files again from the data whose hashes stand in them.

use std::sync::{Arc, LazyLock};

use crate::ngram::NgramModel;
use crate::screen::{Cuts, NgramModels, NgramStage};

const PROMPTS: &[u8] = include_bytes!("../weights/prompts.safetensors");
const CONTENTS: &[u8] = include_bytes!("../weights/contents.safetensors");
const CUTS: &str = include_str!("../weights/ngrams.json");

/// A compiled-in file of weights or rules, for whoever made it again and compares.
pub fn built_in_file(name: &str) -> Option<&'static [u8]> {
    match name {
        "prompts.safetensors" => Some(PROMPTS),
        "contents.safetensors" => Some(CONTENTS),
        "rules.toml" => Some(crate::rules::SOURCE.as_bytes()),
        "ngrams.json" => Some(CUTS.as_bytes()),
        _ => None,
    }
}

/// The n-gram models of the default configuration, read once.
pub(crate) fn ngrams() -> Arc<NgramStage> {
    static NGRAMS: LazyLock<Arc<NgramStage>> = LazyLock::new(read_ngrams);
    Arc::clone(&NGRAMS)
}

fn read_ngrams() -> Arc<NgramStage> {
    let model = |bytes| NgramModel::from_bytes(bytes).expect("a test reads the committed weights");
    let cuts: Cuts = serde_json::from_str(CUTS).expect("a test reads the committed thresholds");
    let models = NgramModels { prompts: model(PROMPTS), contents: model(CONTENTS) };
    Arc::new(NgramStage { models, cuts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_weights_and_thresholds_can_be_read() {
        let stage = ngrams();
        for model in [&stage.models.prompts, &stage.models.contents] {
            assert!(model.feature_count() > 1_000);
            assert!(!model.origin().data.is_empty(), "the weights say what they were trained on");
        }
    }
}
