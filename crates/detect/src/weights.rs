//! The weights that are compiled in, and their operating points.
//!
//! `custody train` makes the files again from the data whose hashes stand in them.

use std::sync::{Arc, LazyLock};

use custody_models::sha256::Sha256;
use custody_models::{Encoder, EncoderClassifier, ModelError, Tokenizer};

use crate::behaviour::Regression;
use crate::ngram::NgramModel;
use crate::prefilter::PrefilterModel;
use crate::reader::{EncoderReader, WrongHeads};
use crate::screen::{Cuts, NgramModels, NgramStage};
use crate::transformer::TransformerStage;

// `static`, not `const`: the compiler stores a constant's bytes again wherever it is used.
static PROMPTS: &[u8] = include_bytes!("../weights/prompts.safetensors");
static CONTENTS: &[u8] = include_bytes!("../weights/contents.safetensors");
static CUTS: &str = include_str!("../weights/ngrams.json");
static FULL: &[u8] = include_bytes!("../weights/full.safetensors");
static FULL_BLENDS: &[u8] = include_bytes!("../weights/full.json");
static PREFILTER: &[u8] = include_bytes!("../weights/prefilter.json");
static BEHAVIOUR: &[u8] = include_bytes!("../weights/behaviour.json");

/// A compiled-in file of weights or rules, for whoever made it again and compares.
pub fn built_in_file(name: &str) -> Option<&'static [u8]> {
    match name {
        "prompts.safetensors" => Some(PROMPTS),
        "contents.safetensors" => Some(CONTENTS),
        "rules.toml" => Some(crate::rules::SOURCE.as_bytes()),
        "ngrams.json" => Some(CUTS.as_bytes()),
        "full.safetensors" => Some(FULL),
        "full.json" => Some(FULL_BLENDS),
        "prefilter.json" => Some(PREFILTER),
        "behaviour.json" => Some(BEHAVIOUR),
        _ => None,
    }
}

/// The n-gram models of the default configuration, read once.
pub(crate) fn ngrams() -> Arc<NgramStage> {
    static NGRAMS: LazyLock<Arc<NgramStage>> = LazyLock::new(read_ngrams);
    Arc::clone(&NGRAMS)
}

/// The prefilter's regression, read once.
pub(crate) fn prefilter() -> PrefilterModel {
    static PREFILTER_MODEL: LazyLock<PrefilterModel> = LazyLock::new(|| {
        PrefilterModel::from_bytes(PREFILTER).expect("a test reads the committed weights")
    });
    PREFILTER_MODEL.clone()
}

/// The regression of the trained behaviour detector, read once.
pub(crate) fn behaviour() -> Regression {
    static REGRESSION: LazyLock<Regression> = LazyLock::new(|| {
        Regression::from_bytes(BEHAVIOUR).expect("a test reads the committed weights")
    });
    REGRESSION.clone()
}

fn read_ngrams() -> Arc<NgramStage> {
    let model = |bytes| NgramModel::from_bytes(bytes).expect("a test reads the committed weights");
    let cuts: Cuts = serde_json::from_str(CUTS).expect("a test reads the committed thresholds");
    let models = NgramModels { prompts: model(PROMPTS), contents: model(CONTENTS) };
    Arc::new(NgramStage { models, cuts })
}

/// A transformer's changes to the public base model, and its operating points.
#[derive(Debug, Clone, Copy)]
pub struct TransformerFiles<'a> {
    /// The tensors that differ from the base model, as `EncoderClassifier::overlay` writes them.
    pub overlay: &'a [u8],
    /// [`Blends`](crate::transformer::Blends) as JSON.
    pub blends: &'a [u8],
}

/// Weights of a transformer that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// They are damaged, or belong on another base model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// They answer other questions.
    #[error(transparent)]
    Heads(#[from] WrongHeads),
    /// The thresholds cannot be read.
    #[error("the thresholds are not as `custody train transformer` writes them")]
    Blends(#[from] serde_json::Error),
}

impl TransformerFiles<'static> {
    /// The files of the full configuration, which are compiled in. The base model, all-MiniLM-L6-v2, is not.
    ///
    /// A function and not a constant: a constant would store the weights again in every crate that uses it.
    #[must_use]
    pub fn built_in() -> Self {
        Self { overlay: FULL, blends: FULL_BLENDS }
    }
}

impl TransformerFiles<'_> {
    /// Puts the weights onto `base`.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub fn open(
        &self,
        base: &Encoder,
        tokenizer: Arc<Tokenizer>,
    ) -> Result<TransformerStage, WeightsError> {
        let blends = serde_json::from_slice(self.blends)?;
        let classifier = EncoderClassifier::load(base, tokenizer, self.overlay)?;
        let reader = Arc::new(EncoderReader::new(classifier)?);
        let weights = format!("sha256:{}", Sha256::of(self.overlay));
        Ok(TransformerStage { reader, blends, weights })
    }
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
        assert!(!prefilter().origin().data.is_empty());
        assert!(!behaviour().origin().data.is_empty());
        serde_json::from_slice::<crate::transformer::Blends>(FULL_BLENDS).expect("thresholds");
        assert!((1 << 20..25_000_000).contains(&FULL.len()), "{} bytes", FULL.len());
    }
}
