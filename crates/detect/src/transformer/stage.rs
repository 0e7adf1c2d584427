//! Running a transformer and averaging its decisions with those of the n-gram models.
//!
//! The n-grams know the phrasing of the training rows, the transformer what a sentence asks for. The score is a
//! weighted mean of the two decision values, and thresholds are calibrated on that mean.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::segments::{SegmentScore, chunks, windows};
use crate::text_kind::TextKind;

/// The largest number of passages of one text that the transformer reads; those with the highest n-gram scores first.
pub const MAX_PASSAGES: usize = 64;

/// A transformer that classifies short texts.
pub trait TransformerModel: Send + Sync {
    /// The log-odds that each text is an attack of that kind: `[texts]`.
    ///
    /// # Errors
    /// [`TransformerError`] when the model fails on a text.
    fn decisions(&self, texts: &[&str], kind: TextKind) -> Result<Vec<f64>, TransformerError>;
}

/// A failure of the transformer. The text counts as unscreened.
#[derive(Debug, thiserror::Error)]
#[error("the transformer could not classify the text")]
pub struct TransformerError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// A transformer, and how its decisions count.
#[derive(Clone)]
pub struct TransformerStage {
    /// The model.
    pub model: Arc<dyn TransformerModel>,
    /// How its decisions are combined with those of the n-gram models, and the thresholds.
    pub blends: Blends,
    /// Identifies the weights: a digest, or a name if they come from no file.
    pub weights: String,
}

/// One [`Blend`] for each kind of text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blends {
    /// For prompts.
    pub prompt: Blend,
    /// For documents.
    pub content: Blend,
}

/// How the decision values of both models are combined, and the thresholds over the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedBlend")]
pub struct Blend {
    /// The weight of the n-gram model, in `[0, 1)`; the transformer has the rest.
    pub ngram_share: f64,
    /// The transformer's decision value for an ordinary text, assumed where the transformer is not run.
    pub ordinary: f64,
    /// Thresholds over the weighted mean.
    pub cuts: Calibration,
}

/// A blend as stored in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedBlend {
    ngram_share: f64,
    ordinary: f64,
    cuts: Calibration,
}

impl TryFrom<UncheckedBlend> for Blend {
    type Error = &'static str;

    fn try_from(stored: UncheckedBlend) -> Result<Self, &'static str> {
        let UncheckedBlend { ngram_share, ordinary, cuts } = stored;
        if !(0.0..1.0).contains(&ngram_share) {
            return Err("`ngram_share` must be at least 0 and less than 1");
        }
        if !ordinary.is_finite() {
            return Err("`ordinary` must be a finite number");
        }
        Ok(Self { ngram_share, ordinary, cuts })
    }
}

/// The decision values of both models for one passage, as log-odds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelDecisions {
    /// The highest of the n-gram model over the segments in the passage.
    pub ngrams: f64,
    /// The transformer's for the whole passage.
    pub transformer: f64,
}

/// The result of running the transformer on a text.
pub(crate) struct BlendedScores {
    /// The combined decision values of the passages that the transformer read.
    pub(crate) read: Vec<SegmentScore>,
    /// The highest n-gram decision among the passages beyond [`MAX_PASSAGES`].
    pub(crate) unread: Option<SegmentScore>,
}

impl Blends {
    pub(crate) fn of(&self, kind: TextKind) -> &Blend {
        match kind {
            TextKind::Prompt => &self.prompt,
            TextKind::Content | TextKind::Unknown => &self.content,
        }
    }
}

impl Blend {
    /// The combined decision value of a passage that the transformer did not read.
    pub(crate) fn without_transformer(&self, ngrams: f64) -> f64 {
        ModelDecisions { ngrams, transformer: self.ordinary }.mean(self.ngram_share)
    }
}

impl ModelDecisions {
    /// The weighted mean, with weight `ngram_share` for the n-gram model.
    #[must_use]
    pub fn mean(self, ngram_share: f64) -> f64 {
        ngram_share * self.ngrams + (1.0 - ngram_share) * self.transformer
    }
}

impl TransformerStage {
    /// Runs the transformer on the passages of the normalised `text` that contain a segment of `suspicious`.
    pub(crate) fn score(
        &self,
        text: &str,
        suspicious: &[SegmentScore],
        kind: TextKind,
    ) -> Result<BlendedScores, TransformerError> {
        let mut passages = passages(text, suspicious, kind);
        passages.sort_by(|a, b| {
            b.decision.total_cmp(&a.decision).then(a.range.start.cmp(&b.range.start))
        });
        let unread = SegmentScore::highest(passages.drain(MAX_PASSAGES.min(passages.len())..));
        let decisions = decisions(self.model.as_ref(), text, &passages, kind)?;
        let share = self.blends.of(kind).ngram_share;
        let read = passages
            .into_iter()
            .zip(decisions)
            .map(|(SegmentScore { range, decision: ngrams }, transformer)| SegmentScore {
                range,
                decision: ModelDecisions { ngrams, transformer }.mean(share),
            })
            .collect();
        Ok(BlendedScores { read, unread })
    }
}

/// The decision values of both models for every passage of the normalised `text` that contains one of `scores`.
pub(crate) fn model_decisions(
    model: &dyn TransformerModel,
    text: &str,
    scores: &[SegmentScore],
    kind: TextKind,
) -> Result<Vec<ModelDecisions>, TransformerError> {
    let passages = passages(text, scores, kind);
    let decisions = decisions(model, text, &passages, kind)?;
    Ok(passages
        .iter()
        .zip(decisions)
        .map(|(passage, transformer)| ModelDecisions { ngrams: passage.decision, transformer })
        .collect())
}

/// The passages of `text` that contain one of `scores`, in text order, each with the highest decision value in it.
///
/// `scores` are in text order and do not overlap.
fn passages(text: &str, scores: &[SegmentScore], kind: TextKind) -> Vec<SegmentScore> {
    let ranges = match kind {
        // Long parts of a prompt, a few sentences of a document.
        TextKind::Prompt => chunks(text),
        TextKind::Content | TextKind::Unknown => windows(text),
    };
    ranges.into_iter().filter_map(|range| passage(range, scores)).collect()
}

fn passage(range: Range<usize>, scores: &[SegmentScore]) -> Option<SegmentScore> {
    let first = scores.partition_point(|score| score.range.end <= range.start);
    let inside = scores[first..].iter().take_while(|score| score.range.start < range.end);
    let decision = inside.map(|score| score.decision).max_by(f64::total_cmp)?;
    Some(SegmentScore { range, decision })
}

fn decisions(
    model: &dyn TransformerModel,
    text: &str,
    passages: &[SegmentScore],
    kind: TextKind,
) -> Result<Vec<f64>, TransformerError> {
    let texts: Vec<&str> = passages.iter().map(|passage| &text[passage.range.clone()]).collect();
    let decisions = model.decisions(&texts, kind)?;
    // NaN is below every threshold and would clear the text.
    if decisions.len() != texts.len() || decisions.iter().any(|decision| decision.is_nan()) {
        return Err(TransformerError("it did not return one number for each text".into()));
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{Rates, ScoredRow};
    use crate::language::Language;

    /// Thresholds that flag from 0 on and clear everything below.
    fn thresholds() -> Calibration {
        let rows: Vec<ScoredRow> = (0..400)
            .map(|row| ScoredRow {
                language: Language::English,
                score: if row % 2 == 0 { 0.0 } else { 1.0 },
                is_attack: row % 2 == 1,
            })
            .collect();
        Calibration::new(&rows, Rates { false_positive: 0.01, miss: 0.01 }).unwrap()
    }

    #[test]
    fn a_share_outside_its_range_is_refused() {
        let blend = Blend { ngram_share: 0.2, ordinary: -6.0, cuts: thresholds() };
        let mut file = serde_json::to_value(&blend).unwrap();
        assert_eq!(serde_json::from_value::<Blend>(file.clone()).unwrap(), blend);
        for share in [-0.1, 1.0, 7.0] {
            file["ngram_share"] = share.into();
            let error = serde_json::from_value::<Blend>(file.clone()).unwrap_err().to_string();
            assert!(error.contains("`ngram_share`"), "{error}");
        }
    }

    #[test]
    fn every_passage_has_the_highest_score_of_the_sentences_in_it() {
        let text = "One calm sentence here. And another calm one.\n\nA bad one stands here, alone.";
        let at = text.find("A bad").unwrap();
        let scores = [
            SegmentScore { range: 0..23, decision: -3.0 },
            SegmentScore { range: 24..45, decision: -2.0 },
            SegmentScore { range: at..text.len(), decision: 4.0 },
        ];
        let found = passages(text, &scores, TextKind::Content);
        for passage in &found {
            let inside = scores.iter().filter(|score| {
                score.range.start < passage.range.end && passage.range.start < score.range.end
            });
            let highest = inside.map(|score| score.decision).max_by(f64::total_cmp);
            assert_eq!(Some(passage.decision), highest);
        }
        assert!(found.iter().any(|passage| passage.decision == 4.0));
        assert!(passages(text, &scores[..1], TextKind::Content).len() <= found.len());
    }
}
