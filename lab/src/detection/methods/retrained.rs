//! The shipped recipes, made again without the attacks that are to be measured.
//!
//! They plant attacks in documents by themselves, from the same data: of a task they take only what must be
//! held back, and not its rows.

use std::path::PathBuf;
use std::sync::Arc;

use custody_detect::ngram_stage::{KindThresholds, NgramStage};
use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;

use super::shipped::{ShippedScreening, default_fingerprint};
use crate::data::DataFolder;
use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};
use crate::recipe::corpus::{self, Corpus};
use crate::recipe::{cuts, ngrams};

/// The recipe of the default detector, for documents.
#[derive(Debug, Clone)]
pub struct RetrainedDefault {
    data: PathBuf,
}

impl RetrainedDefault {
    /// Learns from the folder `data`.
    pub fn new(data: PathBuf) -> Self {
        Self { data }
    }
}

impl Recipe for RetrainedDefault {
    fn id(&self) -> &str {
        "default"
    }

    fn title(&self) -> &str {
        "default"
    }

    fn fingerprint(&self) -> String {
        default_fingerprint()
    }

    fn varies(&self) -> Varies {
        Varies::WithData
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        let stage = ngram_stage(&corpus_without(&self.data, task)?)?;
        Ok(Box::new(ShippedScreening::new(Screener::new(Arc::new(stage), None), TextKind::Content)))
    }
}

fn corpus_without(data: &std::path::Path, task: Task<'_>) -> Result<Corpus, Failure> {
    // The shipped seed: the fold differs from the shipped detector in what is held back, and in nothing else.
    Ok(corpus::build(&DataFolder::open(data), task.held, corpus::SEED)?)
}

fn ngram_stage(corpus: &Corpus) -> Result<NgramStage, Failure> {
    let models = ngrams::train(corpus)?;
    let cuts: KindThresholds = cuts::calibrate(corpus, |text, kind| models.decision(text, kind))?;
    Ok(NgramStage { models, thresholds: cuts })
}

pub use full::RetrainedFull;

mod full {
    use std::ops::ControlFlow;

    use custody_detect::transformer::{EncoderTransformer, TransformerStage};

    use super::*;
    use crate::detection::methods::shipped::{Base, full_fingerprint};
    use crate::recipe::transformer;

    /// The recipe of the full detector, for documents. Takes about half an hour a fold on two cores.
    #[derive(Debug, Clone)]
    pub struct RetrainedFull {
        data: PathBuf,
        base: Base,
    }

    impl RetrainedFull {
        /// Learns from the folder `data`, on top of `base`.
        pub fn new(data: PathBuf, base: Base) -> Self {
            Self { data, base }
        }
    }

    impl Recipe for RetrainedFull {
        fn id(&self) -> &str {
            "full"
        }

        fn title(&self) -> &str {
            "full"
        }

        fn fingerprint(&self) -> String {
            format!("{} {}", full_fingerprint(), self.base.encoder.digest())
        }

        fn varies(&self) -> Varies {
            Varies::WithData
        }

        fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
            let corpus = corpus_without(&self.data, task)?;
            let ngrams = ngram_stage(&corpus)?;
            let Base { encoder, tokenizer } = &self.base;
            let options = transformer::options(corpus::SEED);
            let classifier =
                transformer::train(&corpus, encoder, tokenizer, &options, &mut |_| {
                    ControlFlow::Continue(())
                })?;
            let reader = Arc::new(EncoderTransformer::new(classifier)?);
            let blends = transformer::calibrate(&corpus, &ngrams.models, reader.as_ref())?;
            let weights = "retrained".to_owned();
            let transformer = TransformerStage { model: reader, blends, weights };
            let screener = Screener::new(Arc::new(ngrams), Some(transformer));
            Ok(Box::new(ShippedScreening::new(screener, TextKind::Content)))
        }
    }
}
