//! The cascade: rules, then n-grams, then a transformer where those are unsure.
//!
//! Two configurations. *Default* is compiled in and needs no download: the rules and two n-gram models.
//! *Full* adds a transformer that reads what the n-grams could not decide. Both give advice; what a text
//! may do is decided by where it came from.
//!
//! Source: docs/design.md §11.2; MON §5.2 (D1, D2, D5), §7.4 (ensemble).

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use custody_models::sha256::Sha256;
use serde::{Deserialize, Serialize};

use crate::calibration::{self, Calibration};
use crate::exact_math::sigmoid;
use crate::finding::{Finding, Severity, View};
use crate::language::{Language, guess};
use crate::ngram::NgramModel;
use crate::normalise::{Normalised, TextTooLong, normalise};
use crate::rules::Rules;
use crate::segments::segments;
use crate::structure::looks_like_a_document;
use crate::transformer::{Blend, Heard, ReadError, TransformerStage, most_suspicious};

/// The score from which a text is flagged. Every stage's score is moved so that its calibrated threshold
/// lies here.
pub const FLAGGED_FROM: f64 = 0.5;

/// What a text is to the assistant that will read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Words to the assistant. A request is innocent.
    Prompt,
    /// Third-party content that the assistant reads. A request to the assistant is an injection.
    Content,
    /// Nobody said; guessed from how the text is built.
    Unknown,
}

/// Which stage had the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// D1.
    Rules,
    /// D2's kind of model.
    Ngram,
    /// D4's kind of model.
    Transformer,
}

/// What the screener says of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether the score reaches [`FLAGGED_FROM`].
    pub flagged: bool,
    /// In `[0, 1]`.
    pub score: f64,
    /// What the last stage says; unsure is nearer to the threshold than ordinary text comes. No clearance.
    pub call: calibration::Verdict,
    /// Which stage had the last word.
    pub stage: Stage,
    /// What the text was taken for; never [`Kind::Unknown`].
    pub kind: Kind,
    /// Whose thresholds were used.
    pub language: Language,
    /// What was found, in the order of the text.
    pub findings: Vec<Finding>,
}

/// Why a text was not screened.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// It is too long.
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
    /// The transformer failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The operating points of one model, over its decision values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuts {
    /// For words to the assistant.
    pub prompt: Calibration,
    /// For documents.
    pub content: Calibration,
}

impl Cuts {
    fn of(&self, kind: Kind) -> &Calibration {
        match kind {
            Kind::Prompt => &self.prompt,
            Kind::Content | Kind::Unknown => &self.content,
        }
    }
}

/// The two n-gram models.
#[derive(Debug, Clone)]
pub struct NgramModels {
    /// For whole prompts.
    pub prompts: NgramModel,
    /// For sentences of documents.
    pub contents: NgramModel,
}

/// The n-gram models and their operating points.
#[derive(Debug, Clone)]
pub struct NgramStage {
    /// The models.
    pub models: NgramModels,
    /// Where they flag.
    pub cuts: Cuts,
}

/// The cascade.
#[derive(Clone)]
pub struct Screener {
    ngrams: Arc<NgramStage>,
    transformer: Option<TransformerStage>,
}

impl Screener {
    /// The cascade over these stages.
    pub fn new(ngrams: Arc<NgramStage>, transformer: Option<TransformerStage>) -> Self {
        Self { ngrams, transformer }
    }

    /// The configuration that is compiled in.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Screener> =
            LazyLock::new(|| Screener::new(crate::weights::ngrams(), None));
        &BUILT_IN
    }

    /// The compiled-in configuration with a transformer on top.
    pub fn full(transformer: TransformerStage) -> Self {
        Self { transformer: Some(transformer), ..Self::built_in().clone() }
    }

    /// What screens: the digest of its rules, its weights and its thresholds. Two screeners of one identity say the
    /// same of every text.
    pub fn identity(&self) -> String {
        let NgramStage { models, cuts } = self.ngrams.as_ref();
        let mut parts = vec![
            Sha256::of(crate::rules::SOURCE.as_bytes()).to_string(),
            Sha256::of(&models.prompts.to_bytes()).to_string(),
            Sha256::of(&models.contents.to_bytes()).to_string(),
            serde_json::to_string(cuts).expect("thresholds have a JSON form"),
        ];
        let mut last = "ngrams";
        if let Some(TransformerStage { blends, weights, .. }) = &self.transformer {
            parts.push(weights.clone());
            parts.push(serde_json::to_string(blends).expect("thresholds have a JSON form"));
            last = "transformer";
        }
        format!("{last}/sha256:{}", Sha256::of(parts.join("\n").as_bytes()))
    }

    /// Screens `text`, which is for an assistant what `kind` says.
    ///
    /// # Errors
    /// [`ScreenError`]. A text that could not be screened is not clear.
    pub fn screen(&self, text: &str, kind: Kind) -> Result<Verdict, ScreenError> {
        let kind = match kind {
            Kind::Unknown if looks_like_a_document(text) => Kind::Content,
            Kind::Unknown => Kind::Prompt,
            known @ (Kind::Prompt | Kind::Content) => known,
        };
        let scan = Rules::builtin().scan(text)?;
        let mut verdict = Verdict {
            flagged: scan.score >= FLAGGED_FROM,
            score: scan.score,
            call: calibration::Verdict::Clean,
            stage: Stage::Rules,
            kind,
            language: guess(text),
            findings: scan.findings,
        };
        if !verdict.flagged {
            self.ask_models(&normalise(text)?, &mut verdict)?;
        }
        if verdict.flagged {
            verdict.call = calibration::Verdict::Attack;
        }
        verdict.findings.sort_by_key(|finding| (finding.span.start, finding.span.end));
        Ok(verdict)
    }

    /// Screens `text` as what comes after the turns `before`: an attack may be split over turns of which none looks
    /// like one. What is found reaches into `text`, and its place is counted there.
    ///
    /// # Errors
    /// As [`Self::screen`].
    pub fn screen_after(
        &self,
        before: &[&str],
        text: &str,
        kind: Kind,
    ) -> Result<Verdict, ScreenError> {
        let alone = self.screen(text, kind)?;
        if alone.flagged || before.is_empty() {
            return Ok(alone);
        }
        let mut quiet = Vec::new();
        for turn in before {
            if !self.screen(turn, alone.kind)?.flagged {
                quiet.push(*turn);
            }
        }
        // What was suspicious by itself was said so then, and is no reason against everything after it.
        let quiet = quiet.join("\n");
        if !self.screen(&quiet, alone.kind)?.flagged {
            let together = self.screen(&format!("{quiet}\n{text}"), alone.kind)?;
            if let Some(finished) = together.reaching_beyond(quiet.len() + 1) {
                return Ok(finished);
            }
        }
        // Nor does it hide what a later turn began and `text` finishes.
        let before = before.join("\n");
        let start = before.len() + 1;
        let scan = Rules::builtin().scan_beyond(&format!("{before}\n{text}"), start)?;
        let finished = Verdict {
            flagged: scan.is_flagged(),
            score: scan.score,
            call: calibration::Verdict::Attack,
            stage: Stage::Rules,
            findings: scan.findings,
            ..alone
        };
        Ok(finished.reaching_beyond(start).unwrap_or(alone))
    }

    fn ask_models(&self, text: &Normalised, verdict: &mut Verdict) -> Result<(), ScreenError> {
        let heard = self.ngrams.models.read(text.text(), verdict.kind);
        let cuts = self.ngrams.cuts.of(verdict.kind);
        let Some(transformer) = &self.transformer else {
            verdict.hear(Stage::Ngram, cuts, most_suspicious(heard), text);
            return Ok(());
        };
        let blend = transformer.blends.of(verdict.kind);
        let is_asked = |heard: &Heard| {
            cuts.verdict(verdict.language, heard.decision) != calibration::Verdict::Clean
        };
        let (asked, cleared): (Vec<Heard>, Vec<Heard>) = heard.into_iter().partition(is_asked);
        if asked.is_empty() {
            verdict.clear(blend, most_suspicious(cleared));
            return Ok(());
        }
        let read = transformer.read(text.text(), &asked, verdict.kind)?;
        // What there was no room for keeps what the n-grams said of it: nobody cleared it.
        verdict.hear(Stage::Ngram, cuts, read.left, text);
        verdict.hear(Stage::Transformer, &blend.cuts, most_suspicious(read.heard), text);
        Ok(())
    }
}

impl NgramModels {
    /// The decision on the most suspicious stretch of `text`, which is what thresholds are calibrated on; none
    /// for a text without words.
    ///
    /// # Errors
    /// [`TextTooLong`].
    pub fn decision(&self, text: &str, kind: Kind) -> Result<Option<f64>, TextTooLong> {
        let heard = self.read(normalise(text)?.text(), kind);
        Ok(most_suspicious(heard).map(|heard| heard.decision))
    }

    /// A prompt as a whole; a document sentence by sentence.
    pub(crate) fn read(&self, text: &str, kind: Kind) -> Vec<Heard> {
        match kind {
            Kind::Prompt => {
                vec![Heard { range: 0..text.len(), decision: self.prompts.decision(text) }]
            }
            Kind::Content | Kind::Unknown => segments(text)
                .into_iter()
                .map(|range| Heard {
                    decision: self.contents.decision(&text[range.clone()]),
                    range,
                })
                .collect(),
        }
    }
}

impl Verdict {
    /// The verdict, with its findings that end after `start` counted from there; none when they are no reason to flag.
    fn reaching_beyond(mut self, start: usize) -> Option<Self> {
        self.findings.retain(|finding| finding.span.end > start);
        for Finding { span, .. } in &mut self.findings {
            *span = span.start.saturating_sub(start)..span.end - start;
        }
        (self.flagged && !self.findings.is_empty()).then_some(self)
    }

    /// Takes in that the n-grams cleared everything: the score is on the scale of what is read, and below it.
    fn clear(&mut self, blend: &Blend, heard: Option<Heard>) {
        self.stage = Stage::Ngram;
        let Some(heard) = heard else { return };
        let threshold = blend.cuts.band(self.language).upper;
        let score = sigmoid(blend.unread(heard.decision) - threshold);
        self.score = self.score.max(score.min(FLAGGED_FROM.next_down()));
    }

    /// Takes in the most suspicious thing a model said: the higher score stands, and the worse call.
    fn hear(&mut self, stage: Stage, cuts: &Calibration, heard: Option<Heard>, text: &Normalised) {
        if !self.flagged {
            self.stage = stage;
        }
        let Some(Heard { range, decision }) = heard else { return };
        let threshold = cuts.band(self.language).upper;
        self.call = self.call.max(cuts.verdict(self.language, decision));
        // Moved so that the threshold of every language lies at one half.
        let score = sigmoid(decision - threshold);
        self.score = self.score.max(score);
        if cuts.verdict(self.language, decision) == calibration::Verdict::Attack {
            self.flagged = true;
            self.findings.push(finding(self.kind, score, text.original(range)));
        }
    }
}

fn finding(kind: Kind, score: f64, span: Range<usize>) -> Finding {
    let (rule, explanation) = match kind {
        Kind::Prompt => ("model.prompt", "reads like an attempt to change what the assistant does"),
        Kind::Content | Kind::Unknown => {
            ("model.content", "reads like an instruction to the assistant inside a document")
        }
    };
    Finding {
        rule: rule.to_owned(),
        family: "model".to_owned(),
        severity: if score >= 0.9 { Severity::High } else { Severity::Medium },
        confidence: score,
        span,
        view: View::Plain,
        explanation: explanation.to_owned(),
    }
}

impl Stage {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Ngram => "ngram",
            Self::Transformer => "transformer",
        }
    }
}
