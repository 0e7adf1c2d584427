//! The second stage of the cascade: an n-gram model for prompts, one for documents, and their thresholds.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::built_in;
use crate::calibration::Calibration;
use crate::ngram::NgramModel;
use crate::normalise::{TextTooLong, normalise};
use crate::segments::{SegmentScore, chunks, segments};
use crate::text_kind::TextKind;

/// The largest number of chunks of one text that are embedded, about 70 kB.
const MAX_CHUNKS: usize = 64;

/// The thresholds of one model over its decision values, by kind of text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindThresholds {
    /// For prompts.
    pub prompt: Calibration,
    /// For documents.
    pub content: Calibration,
}

/// The two n-gram models.
#[derive(Debug, Clone)]
pub struct NgramModels {
    /// For whole prompts.
    pub prompts: NgramModel,
    /// For single sentences of documents.
    pub contents: NgramModel,
}

/// The n-gram models and their thresholds.
#[derive(Debug, Clone)]
pub struct NgramStage {
    /// The models.
    pub models: NgramModels,
    /// The thresholds over the models' decision values.
    pub thresholds: KindThresholds,
}

impl KindThresholds {
    pub(crate) fn of(&self, kind: TextKind) -> &Calibration {
        match kind {
            TextKind::Prompt => &self.prompt,
            TextKind::Content | TextKind::Unknown => &self.content,
        }
    }
}

impl NgramModels {
    /// The decision value of the highest-scored segment of `text`, on which thresholds are calibrated; `None` for a
    /// text without words.
    ///
    /// # Errors
    /// [`TextTooLong`].
    pub fn decision(&self, text: &str, kind: TextKind) -> Result<Option<f64>, TextTooLong> {
        let scores = self.score(normalise(text)?.text(), kind);
        Ok(SegmentScore::highest(scores).map(|score| score.decision))
    }

    /// Scores a normalised prompt as a whole, a normalised document sentence by sentence.
    pub(crate) fn score(&self, text: &str, kind: TextKind) -> Vec<SegmentScore> {
        match kind {
            TextKind::Prompt => {
                vec![SegmentScore { range: 0..text.len(), decision: self.prompts.decision(text) }]
            }
            TextKind::Content | TextKind::Unknown => segments(text)
                .into_iter()
                .map(|range| SegmentScore {
                    decision: self.contents.decision(&text[range.clone()]),
                    range,
                })
                .collect(),
        }
    }
}

impl NgramStage {
    /// The compiled-in models and thresholds, read on first use.
    pub(crate) fn built_in() -> &'static Arc<Self> {
        static BUILT_IN: LazyLock<Arc<NgramStage>> = LazyLock::new(read_built_in);
        &BUILT_IN
    }
}

fn read_built_in() -> Arc<NgramStage> {
    let models = NgramModels {
        prompts: read_model(built_in::PROMPT_NGRAMS),
        contents: read_model(built_in::CONTENT_NGRAMS),
    };
    let thresholds = serde_json::from_str(built_in::NGRAM_THRESHOLDS)
        .expect("a test reads the committed thresholds");
    Arc::new(NgramStage { models, thresholds })
}

fn read_model(bytes: &[u8]) -> NgramModel {
    NgramModel::from_bytes(bytes).expect("a test reads the committed weights")
}

/// The chunks of `text` that a sentence embedder is given, in order: chunks of the normalised text, each short enough
/// to be read whole, 64 at most.
///
/// # Errors
/// [`TextTooLong`].
pub fn chunks_to_embed(text: &str) -> Result<Vec<String>, TextTooLong> {
    let text = normalise(text)?;
    let text = text.text();
    Ok(select_chunks(text).into_iter().map(|range| text[range].to_owned()).collect())
}

/// The ranges of [`chunks_to_embed`] in a normalised text. Of a text with more than 64 chunks, those that the n-gram
/// model of prompts scores highest, so that no padding hides an attack.
pub(crate) fn select_chunks(text: &str) -> Vec<Range<usize>> {
    let chunks = chunks(text);
    if chunks.len() <= MAX_CHUNKS {
        return chunks;
    }
    let model = &NgramStage::built_in().models.prompts;
    let mut ranked: Vec<(f64, Range<usize>)> =
        chunks.into_iter().map(|range| (model.decision(&text[range.clone()]), range)).collect();
    ranked.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.start.cmp(&second.start)));
    ranked.truncate(MAX_CHUNKS);
    let mut chosen: Vec<Range<usize>> = ranked.into_iter().map(|(_, range)| range).collect();
    chosen.sort_by_key(|range| range.start);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_weights_and_thresholds_can_be_read() {
        let stage = NgramStage::built_in();
        for model in [&stage.models.prompts, &stage.models.contents] {
            assert!(model.feature_count() > 1_000);
            assert!(!model.origin().data.is_empty(), "the weights record their training data");
        }
    }
}
