//! The cascade: rules, then n-gram models, then a transformer for what those leave undecided.
//!
//! Two configurations. *Default* is compiled in: the rules and two n-gram models. *Full* adds a transformer, whose base
//! model is downloaded. The result is advice; what a text may do is decided by its provenance.
//!
//! Source: docs/design.md §11.2; MON §5.2 (D1, D2, D5), §7.4 (ensemble).

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use custody_models::sha256::Sha256;

use crate::built_in;
use crate::calibration::{Calibration, Classification};
use crate::exact_math::sigmoid;
use crate::finding::{DetectorFinding, Severity, TextView};
use crate::language::{Language, guess_language};
use crate::ngram_stage::{NgramModels, NgramStage};
use crate::normalise::{NormalisedText, TextTooLong, normalise};
use crate::rules::RuleSet;
use crate::segments::SegmentScore;
use crate::text_kind::TextKind;
use crate::transformer::{
    Blend, BlendedScores, ModelDecisions, TransformerError, TransformerModel, TransformerStage,
    model_decisions,
};

/// The score from which a text is flagged. Every stage's score is shifted so that its calibrated threshold lies here.
pub const FLAGGED_FROM: f64 = 0.5;

/// The stage that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScreenStage {
    /// Detector D1.
    Rules,
    /// The n-gram models, detector D2.
    Ngram,
    /// The transformer, detector D4.
    Transformer,
}

/// The result of screening a text.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreenResult {
    /// Whether the score reaches [`FLAGGED_FROM`].
    pub is_flagged: bool,
    /// In `[0, 1]`.
    pub score: f64,
    /// The last stage's classification. `Unsure` is closer to the threshold than ordinary text comes; `Clean` is no
    /// clearance.
    pub classification: Classification,
    /// The stage that decided.
    pub stage: ScreenStage,
    /// The kind that the text was screened as; never [`TextKind::Unknown`].
    pub kind: TextKind,
    /// The language whose thresholds were used.
    pub language: Language,
    /// In text order.
    pub findings: Vec<DetectorFinding>,
}

/// Why a text was not screened. It counts as unscreened, not as clean.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// The text is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// The transformer failed.
    #[error(transparent)]
    Transformer(#[from] TransformerError),
}

/// The cascade.
#[derive(Clone)]
pub struct Screener {
    ngrams: Arc<NgramStage>,
    transformer: Option<TransformerStage>,
}

impl Screener {
    /// A cascade of the compiled-in rules and these stages.
    #[must_use]
    pub fn new(ngrams: Arc<NgramStage>, transformer: Option<TransformerStage>) -> Self {
        Self { ngrams, transformer }
    }

    /// The compiled-in configuration.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Screener> =
            LazyLock::new(|| Screener::new(Arc::clone(NgramStage::built_in()), None));
        &BUILT_IN
    }

    /// The compiled-in configuration with a transformer as the last stage.
    #[must_use]
    pub fn full(transformer: TransformerStage) -> Self {
        Self { transformer: Some(transformer), ..Self::built_in().clone() }
    }

    /// Identifies the screener by a digest of its rules, weights and thresholds. Screeners of equal identity give equal
    /// results.
    #[must_use]
    pub fn identity(&self) -> String {
        let NgramStage { models, thresholds } = self.ngrams.as_ref();
        let mut parts = vec![
            Sha256::of(built_in::RULES.as_bytes()).to_string(),
            Sha256::of(&models.prompts.to_bytes()).to_string(),
            Sha256::of(&models.contents.to_bytes()).to_string(),
            serde_json::to_string(thresholds).expect("thresholds have a JSON form"),
        ];
        let mut last = "ngrams";
        if let Some(TransformerStage { blends, weights, .. }) = &self.transformer {
            parts.push(weights.clone());
            parts.push(serde_json::to_string(blends).expect("thresholds have a JSON form"));
            last = "transformer";
        }
        format!("{last}/sha256:{}", Sha256::of(parts.join("\n").as_bytes()))
    }

    /// Screens `text` as a text of `kind`.
    ///
    /// # Errors
    /// [`ScreenError`]; the text counts as unscreened then.
    pub fn screen(&self, text: &str, kind: TextKind) -> Result<ScreenResult, ScreenError> {
        let scan = RuleSet::built_in().scan(text)?;
        let mut result = ScreenResult {
            is_flagged: scan.score >= FLAGGED_FROM,
            score: scan.score,
            classification: Classification::Clean,
            stage: ScreenStage::Rules,
            kind: kind.resolve(text),
            language: guess_language(text),
            findings: scan.findings,
        };
        if !result.is_flagged {
            self.run_models(&normalise(text)?, &mut result)?;
        }
        if result.is_flagged {
            result.classification = Classification::Attack;
        }
        result.findings.sort_by_key(|finding| (finding.span.start, finding.span.end));
        Ok(result)
    }

    /// Screens `text` as the turn after `previous_turns`: an attack may be split over turns of which none is suspicious
    /// by itself. Spans in the result are those of `text`.
    ///
    /// # Errors
    /// As [`Self::screen`].
    pub fn screen_turn(
        &self,
        previous_turns: &[&str],
        text: &str,
        kind: TextKind,
    ) -> Result<ScreenResult, ScreenError> {
        let alone = self.screen(text, kind)?;
        if alone.is_flagged || previous_turns.is_empty() {
            return Ok(alone);
        }
        // A turn that is suspicious by itself was reported then, and must not taint every turn after it.
        let mut clean_turns = Vec::new();
        for turn in previous_turns {
            if !self.screen(turn, alone.kind)?.is_flagged {
                clean_turns.push(*turn);
            }
        }
        let clean_turns = clean_turns.join("\n");
        if !self.screen(&clean_turns, alone.kind)?.is_flagged {
            let together = self.screen(&format!("{clean_turns}\n{text}"), alone.kind)?;
            if let Some(result) = together.reaching_beyond(clean_turns.len() + 1) {
                return Ok(result);
            }
        }
        // Rules still see all turns, so that a flagged turn does not hide an attack that spans it.
        let turns = previous_turns.join("\n");
        let start = turns.len() + 1;
        let scan = RuleSet::built_in().scan_beyond(&format!("{turns}\n{text}"), start)?;
        let result = ScreenResult {
            is_flagged: scan.is_flagged(),
            score: scan.score,
            classification: Classification::Attack,
            stage: ScreenStage::Rules,
            findings: scan.findings,
            ..alone
        };
        Ok(result.reaching_beyond(start).unwrap_or(alone))
    }

    fn run_models(
        &self,
        text: &NormalisedText,
        result: &mut ScreenResult,
    ) -> Result<(), ScreenError> {
        let scores = self.ngrams.models.score(text.text(), result.kind);
        let thresholds = self.ngrams.thresholds.of(result.kind);
        let Some(transformer) = &self.transformer else {
            let highest = SegmentScore::highest(scores);
            result.add_score(ScreenStage::Ngram, thresholds, highest, text);
            return Ok(());
        };
        let blend = transformer.blends.of(result.kind);
        let (suspicious, clean): (Vec<SegmentScore>, Vec<SegmentScore>) =
            scores.into_iter().partition(|score| {
                let class = thresholds.classify(result.language, score.decision);
                class != Classification::Clean
            });
        if suspicious.is_empty() {
            result.add_clean_score(blend, SegmentScore::highest(clean));
            return Ok(());
        }
        let BlendedScores { read, unread } =
            transformer.score(text.text(), &suspicious, result.kind)?;
        // Passages that the transformer did not read keep their n-gram score: nothing cleared them.
        result.add_score(ScreenStage::Ngram, thresholds, unread, text);
        let highest = SegmentScore::highest(read);
        result.add_score(ScreenStage::Transformer, &blend.cuts, highest, text);
        Ok(())
    }
}

/// The decision values of both models for every passage of `text`, on which a [`Blend`] is calibrated.
///
/// # Errors
/// [`ScreenError`].
pub fn decisions_of_both(
    ngrams: &NgramModels,
    transformer: &dyn TransformerModel,
    text: &str,
    kind: TextKind,
) -> Result<Vec<ModelDecisions>, ScreenError> {
    let text = normalise(text)?;
    let scores = ngrams.score(text.text(), kind);
    Ok(model_decisions(transformer, text.text(), &scores, kind)?)
}

impl ScreenResult {
    /// The result with only the findings that end after `start`, their spans relative to `start`; `None` when it is not
    /// flagged or no finding is left.
    fn reaching_beyond(mut self, start: usize) -> Option<Self> {
        self.findings.retain(|finding| finding.span.end > start);
        for DetectorFinding { span, .. } in &mut self.findings {
            *span = span.start.saturating_sub(start)..span.end - start;
        }
        (self.is_flagged && !self.findings.is_empty()).then_some(self)
    }

    /// Records that the n-gram models classified every segment as clean. The score is on the scale of the blended
    /// decisions and stays below the threshold.
    fn add_clean_score(&mut self, blend: &Blend, highest: Option<SegmentScore>) {
        self.stage = ScreenStage::Ngram;
        let Some(highest) = highest else { return };
        let threshold = blend.cuts.band(self.language).upper;
        let score = sigmoid(blend.without_transformer(highest.decision) - threshold);
        self.score = self.score.max(score.min(FLAGGED_FROM.next_down()));
    }

    /// Takes in the highest score of a stage: the higher score and the worse classification stand.
    fn add_score(
        &mut self,
        stage: ScreenStage,
        thresholds: &Calibration,
        highest: Option<SegmentScore>,
        text: &NormalisedText,
    ) {
        if !self.is_flagged {
            self.stage = stage;
        }
        let Some(SegmentScore { range, decision }) = highest else { return };
        let threshold = thresholds.band(self.language).upper;
        let class = thresholds.classify(self.language, decision);
        self.classification = self.classification.max(class);
        // Shifted so that the threshold of every language lies at one half.
        let score = sigmoid(decision - threshold);
        self.score = self.score.max(score);
        if class == Classification::Attack {
            self.is_flagged = true;
            self.findings.push(model_finding(self.kind, score, text.original(range)));
        }
    }
}

fn model_finding(kind: TextKind, score: f64, span: Range<usize>) -> DetectorFinding {
    let (rule, explanation) = match kind {
        TextKind::Prompt => {
            ("model.prompt", "reads like an attempt to change what the assistant does")
        }
        TextKind::Content | TextKind::Unknown => {
            ("model.content", "reads like an instruction to the assistant inside a document")
        }
    };
    DetectorFinding {
        rule: rule.to_owned(),
        family: "model".to_owned(),
        severity: if score >= 0.9 { Severity::High } else { Severity::Medium },
        confidence: score,
        span,
        view: TextView::Plain,
        explanation: explanation.to_owned(),
    }
}

impl ScreenStage {
    /// The stage's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Ngram => "ngram",
            Self::Transformer => "transformer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{Rates, ScoredRow};
    use crate::ngram_stage::KindThresholds;
    use crate::transformer::{Blends, MAX_PASSAGES};

    /// A model that gives every text the same decision value.
    struct Constant(f64);

    impl TransformerModel for Constant {
        fn decisions(&self, texts: &[&str], _: TextKind) -> Result<Vec<f64>, TransformerError> {
            Ok(vec![self.0; texts.len()])
        }
    }

    /// Flags from `level` on, and clears everything below.
    fn thresholds(level: f64) -> Calibration {
        let rows: Vec<ScoredRow> = (0..400)
            .map(|row| ScoredRow {
                language: Language::English,
                score: if row % 2 == 0 { level } else { level + 1.0 },
                is_attack: row % 2 == 1,
            })
            .collect();
        Calibration::new(&rows, Rates { false_positive: 0.01, miss: 0.01 }).unwrap()
    }

    /// N-gram models that suspect every text or none.
    fn ngrams(suspect_all: bool) -> Arc<NgramStage> {
        let thresholds = thresholds(if suspect_all { -99.0 } else { 99.0 });
        let thresholds = KindThresholds { prompt: thresholds.clone(), content: thresholds };
        Arc::new(NgramStage { models: NgramStage::built_in().models.clone(), thresholds })
    }

    fn screener(suspect_all: bool, decision: f64) -> Screener {
        let blend = Blend { ngram_share: 0.2, ordinary: -6.0, cuts: thresholds(0.0) };
        let blends = Blends { prompt: blend.clone(), content: blend };
        let model: Arc<dyn TransformerModel> = Arc::new(Constant(decision));
        Screener::new(
            ngrams(suspect_all),
            Some(TransformerStage { model, blends, weights: "constant".to_owned() }),
        )
    }

    const TEXT: &str = "Please tell the caretaker that the lift is out of order.";

    #[test]
    fn a_decision_that_is_not_a_number_is_an_error() {
        let error = screener(true, f64::NAN).screen(TEXT, TextKind::Prompt).unwrap_err();
        assert!(matches!(error, ScreenError::Transformer(_)), "{error:?}");
    }

    #[test]
    fn a_transformer_clears_and_flags_what_the_ngrams_suspect() {
        for kind in [TextKind::Prompt, TextKind::Content] {
            let alone = Screener::new(ngrams(true), None).screen(TEXT, kind).unwrap();
            assert_eq!((alone.is_flagged, alone.stage), (true, ScreenStage::Ngram), "{alone:?}");
            for (decision, flagged) in [(-60.0, false), (60.0, true)] {
                let result = screener(true, decision).screen(TEXT, kind).unwrap();
                let expected = (flagged, ScreenStage::Transformer);
                assert_eq!((result.is_flagged, result.stage), expected, "{result:?}");
            }
        }
    }

    #[test]
    fn passages_beyond_the_limit_are_not_cleared() {
        let text = vec![TEXT; 8 * MAX_PASSAGES].join("\n\n");
        let result = screener(true, -60.0).screen(&text, TextKind::Content).unwrap();
        assert!(result.is_flagged, "{:?}", result.score);
    }

    #[test]
    fn a_text_that_the_ngrams_clear_scores_below_a_suspicious_one_that_the_transformer_reads() {
        let cleared = screener(false, 60.0).screen(TEXT, TextKind::Prompt).unwrap();
        assert_eq!((cleared.is_flagged, cleared.stage), (false, ScreenStage::Ngram), "{cleared:?}");
        let read = screener(true, -5.0).screen(TEXT, TextKind::Prompt).unwrap();
        assert!(cleared.score < read.score, "{cleared:?} {read:?}");
    }
}
