//! The cascade: rules, then n-grams, then a transformer where those are unsure.
//!
//! Two configurations. *Default* is compiled in and needs no download: the rules and two n-gram models.
//! *Full* adds a transformer that reads what the n-grams could not decide. Both give advice; what a text
//! may do is decided by where it came from.
//!
//! Source: DESIGN section 6; MON §5.2 (D1, D2, D5), §7.4 (ensemble).

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::calibration::{self, Calibration};
use crate::exact_math::sigmoid;
use crate::finding::{Finding, Severity, View};
use crate::language::{Language, guess};
use crate::ngram::NgramModel;
use crate::normalise::{Normalised, TextTooLong, normalise};
use crate::rules::Rules;
use crate::segments::{pieces, segments, windows};
use crate::structure::looks_like_a_document;

/// How many stretches of one text a transformer reads at most, the most suspicious first. The others keep
/// what the n-grams said of them.
pub const MAX_READ: usize = 64;

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

/// A transformer that reads short texts; D4's kind of model.
pub trait Reader: Send + Sync {
    /// For each text how sure the model is that it is an attack of that kind: the logit of a probability.
    ///
    /// # Errors
    /// [`ReadError`] when the model cannot read a text.
    fn decisions(&self, texts: &[&str], kind: Kind) -> Result<Vec<f64>, ReadError>;
}

/// A model that could not read a text. The text is not clear for that.
#[derive(Debug, thiserror::Error)]
#[error("the transformer could not read the text")]
pub struct ReadError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

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

/// The decision of `reader` on the most suspicious stretch of `text`, every stretch read.
///
/// # Errors
/// [`ScreenError`].
pub fn read_whole(reader: &dyn Reader, text: &str, kind: Kind) -> Result<Option<f64>, ScreenError> {
    let text = normalise(text)?;
    let stretches = stretches(text.text(), kind);
    let texts: Vec<&str> = stretches.iter().map(|range| &text.text()[range.clone()]).collect();
    Ok(reader.decisions(&texts, kind)?.into_iter().max_by(f64::total_cmp))
}

/// What a transformer reads at once: much of a prompt, a few sentences of a document.
fn stretches(text: &str, kind: Kind) -> Vec<Range<usize>> {
    match kind {
        Kind::Prompt => pieces(text),
        Kind::Content | Kind::Unknown => windows(text),
    }
}

/// A transformer and its operating points.
#[derive(Clone)]
pub struct TransformerStage {
    /// The model.
    pub reader: Arc<dyn Reader>,
    /// Where it flags.
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

    fn ask_models(&self, text: &Normalised, verdict: &mut Verdict) -> Result<(), ScreenError> {
        let heard = self.ngrams.models.read(text.text(), verdict.kind);
        let cuts = self.ngrams.cuts.of(verdict.kind);
        let call = |decision: f64| cuts.verdict(verdict.language, decision);
        let asked: Vec<&Heard> = heard
            .iter()
            .filter(|heard| call(heard.decision) != calibration::Verdict::Clean)
            .collect();
        let Some(transformer) = self.transformer.as_ref().filter(|_| !asked.is_empty()) else {
            verdict.hear(Stage::Ngram, cuts, most_suspicious(heard), text);
            return Ok(());
        };
        let again = transformer.read(text.text(), &asked, verdict.kind)?;
        verdict.hear(
            Stage::Transformer,
            transformer.cuts.of(verdict.kind),
            most_suspicious(again),
            text,
        );
        Ok(())
    }
}

/// What a model says of a stretch of the normalised text.
struct Heard {
    range: Range<usize>,
    decision: f64,
}

/// Nothing in a text without words.
fn most_suspicious(heard: Vec<Heard>) -> Option<Heard> {
    heard.into_iter().max_by(|a, b| a.decision.total_cmp(&b.decision))
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
    fn read(&self, text: &str, kind: Kind) -> Vec<Heard> {
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

impl TransformerStage {
    /// The stretches of `text` that hold something `asked` for.
    fn read(&self, text: &str, asked: &[&Heard], kind: Kind) -> Result<Vec<Heard>, ReadError> {
        let suspicion = |stretch: &Range<usize>| {
            let inside = asked.iter().filter(|heard| overlap(&heard.range, stretch));
            inside.map(|heard| heard.decision).max_by(f64::total_cmp)
        };
        let mut chosen: Vec<(f64, Range<usize>)> = stretches(text, kind)
            .into_iter()
            .filter_map(|stretch| Some((suspicion(&stretch)?, stretch)))
            .collect();
        chosen
            .sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.start.cmp(&second.start)));
        chosen.truncate(MAX_READ);
        let texts: Vec<&str> = chosen.iter().map(|(_, range)| &text[range.clone()]).collect();
        let decisions = self.reader.decisions(&texts, kind)?;
        let ranges = chosen.into_iter().map(|(_, range)| range);
        Ok(ranges.zip(decisions).map(|(range, decision)| Heard { range, decision }).collect())
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Verdict {
    /// Takes in the most suspicious thing a model said: the higher score stands.
    fn hear(&mut self, stage: Stage, cuts: &Calibration, heard: Option<Heard>, text: &Normalised) {
        self.stage = stage;
        let Some(Heard { range, decision }) = heard else { return };
        let threshold = cuts.band(self.language).upper;
        self.call = cuts.verdict(self.language, decision);
        // Moved so that the threshold of every language lies at one half.
        let score = sigmoid(decision - threshold);
        self.score = self.score.max(score);
        if self.call == calibration::Verdict::Attack {
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
