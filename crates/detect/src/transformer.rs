//! The last stage of the cascade: a transformer, heard together with the n-grams.
//!
//! Either knows what the other does not: the n-grams have seen every turn of phrase of the training rows, the
//! transformer what a sentence asks for. What counts is a weighted mean of their decisions, and thresholds are
//! calibrated on that mean.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::normalise::normalise;
use crate::screen::{Kind, NgramModels, ScreenError};
use crate::segments::{pieces, windows};

/// How many stretches of one text a transformer reads at most, the most suspicious first.
pub const MAX_READ: usize = 64;

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

/// A transformer and how its word counts.
#[derive(Clone)]
pub struct TransformerStage {
    /// The model.
    pub reader: Arc<dyn Reader>,
    /// What becomes of its decisions.
    pub blends: Blends,
    /// Which weights it has: a digest, or a name where they come from no file.
    pub weights: String,
}

/// One [`Blend`] for each kind of text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blends {
    /// For words to the assistant.
    pub prompt: Blend,
    /// For documents.
    pub content: Blend,
}

/// How the decisions of both models become one, and its operating points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Blend {
    /// How much the n-grams count, in [0, 1); the transformer counts the rest.
    pub ngram_share: f64,
    /// What the transformer says of an ordinary text: taken for its word where it was not asked.
    pub ordinary: f64,
    /// Where the mean of both flags.
    pub cuts: Calibration,
}

/// A blend as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    ngram_share: f64,
    ordinary: f64,
    cuts: Calibration,
}

impl TryFrom<Unchecked> for Blend {
    type Error = &'static str;

    fn try_from(read: Unchecked) -> Result<Self, &'static str> {
        let Unchecked { ngram_share, ordinary, cuts } = read;
        if !(0.0..1.0).contains(&ngram_share) {
            return Err("`ngram_share` is at least 0 and less than 1");
        }
        if !ordinary.is_finite() {
            return Err("`ordinary` is a number");
        }
        Ok(Self { ngram_share, ordinary, cuts })
    }
}

/// What both models say of one stretch of a text: logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Of the most suspicious sentence in it.
    pub ngrams: f64,
    /// Of all of it.
    pub transformer: f64,
}

/// The word of both models on every stretch of `text`, which is what a [`Blend`] is calibrated on.
///
/// # Errors
/// [`ScreenError`].
pub fn read_twice(
    ngrams: &NgramModels,
    reader: &dyn Reader,
    text: &str,
    kind: Kind,
) -> Result<Vec<Pair>, ScreenError> {
    let text = normalise(text)?;
    let heard = ngrams.read(text.text(), kind);
    let stretches = suspected(text.text(), &heard, kind);
    let transformer = decisions(reader, text.text(), &stretches, kind)?;
    let pair = |(heard, transformer): (&Heard, f64)| Pair { ngrams: heard.decision, transformer };
    Ok(stretches.iter().zip(transformer).map(pair).collect())
}

impl Blends {
    pub(crate) fn of(&self, kind: Kind) -> &Blend {
        match kind {
            Kind::Prompt => &self.prompt,
            Kind::Content | Kind::Unknown => &self.content,
        }
    }
}

impl Blend {
    /// The decision on a stretch that the transformer did not read.
    pub(crate) fn unread(&self, ngrams: f64) -> f64 {
        Pair { ngrams, transformer: self.ordinary }.mean(self.ngram_share)
    }
}

impl Pair {
    /// The weighted mean, with `ngram_share` for the n-grams.
    pub fn mean(self, ngram_share: f64) -> f64 {
        ngram_share * self.ngrams + (1.0 - ngram_share) * self.transformer
    }
}

/// What a model says of a stretch of the normalised text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    pub(crate) range: Range<usize>,
    pub(crate) decision: f64,
}

/// Nothing in a text without words.
pub(crate) fn most_suspicious(heard: impl IntoIterator<Item = Heard>) -> Option<Heard> {
    heard.into_iter().max_by(|a, b| a.decision.total_cmp(&b.decision))
}

/// What the stage says of a text.
pub(crate) struct Read {
    /// Both models' word on the stretches that were read.
    pub(crate) heard: Vec<Heard>,
    /// The n-grams' word on the worst stretch that there was no room for.
    pub(crate) left: Option<Heard>,
}

impl TransformerStage {
    /// Reads the stretches of `text` that hold something `asked` for.
    pub(crate) fn read(&self, text: &str, asked: &[Heard], kind: Kind) -> Result<Read, ReadError> {
        let mut stretches = suspected(text, asked, kind);
        stretches.sort_by(|a, b| {
            b.decision.total_cmp(&a.decision).then(a.range.start.cmp(&b.range.start))
        });
        let left = most_suspicious(stretches.drain(MAX_READ.min(stretches.len())..));
        let decisions = decisions(self.reader.as_ref(), text, &stretches, kind)?;
        let share = self.blends.of(kind).ngram_share;
        let heard =
            stretches.into_iter().zip(decisions).map(|(Heard { range, decision }, transformer)| {
                Heard { range, decision: Pair { ngrams: decision, transformer }.mean(share) }
            });
        Ok(Read { heard: heard.collect(), left })
    }
}

/// The stretches of `text` that hold something that was `heard`, in the order of the text, each with the worst of it.
fn suspected(text: &str, heard: &[Heard], kind: Kind) -> Vec<Heard> {
    let stretches = match kind {
        // Much of a prompt at once, a few sentences of a document.
        Kind::Prompt => pieces(text),
        Kind::Content | Kind::Unknown => windows(text),
    };
    let worst = |range: Range<usize>| {
        // What was heard stands apart and in the order of the text.
        let first = heard.partition_point(|heard| heard.range.end <= range.start);
        let inside = heard[first..].iter().take_while(|heard| heard.range.start < range.end);
        let decision = inside.map(|heard| heard.decision).max_by(f64::total_cmp)?;
        Some(Heard { range, decision })
    };
    stretches.into_iter().filter_map(worst).collect()
}

fn decisions(
    reader: &dyn Reader,
    text: &str,
    stretches: &[Heard],
    kind: Kind,
) -> Result<Vec<f64>, ReadError> {
    let texts: Vec<&str> = stretches.iter().map(|heard| &text[heard.range.clone()]).collect();
    let decisions = reader.decisions(&texts, kind)?;
    // What is no number is below every threshold and would clear the text.
    if decisions.len() != texts.len() || decisions.iter().any(|decision| decision.is_nan()) {
        return Err(ReadError("it did not give a number for every text".into()));
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::{Rates, Scored};
    use crate::language::Language;
    use crate::screen::{Cuts, NgramStage, Screener, Stage};

    /// A model that says the same of everything.
    struct Always(f64);

    impl Reader for Always {
        fn decisions(&self, texts: &[&str], _: Kind) -> Result<Vec<f64>, ReadError> {
            Ok(vec![self.0; texts.len()])
        }
    }

    /// Flags from `level` on, and clears everything below.
    fn from(level: f64) -> Calibration {
        let rows: Vec<Scored> = (0..400)
            .map(|row| Scored {
                language: Language::English,
                score: if row % 2 == 0 { level } else { level + 1.0 },
                attack: row % 2 == 1,
            })
            .collect();
        Calibration::new(&rows, Rates { false_positive: 0.01, miss: 0.01 }).unwrap()
    }

    /// N-grams that suspect everything or nothing.
    fn ngrams(suspect: bool) -> Arc<NgramStage> {
        let cuts = from(if suspect { -99.0 } else { 99.0 });
        let cuts = Cuts { prompt: cuts.clone(), content: cuts };
        Arc::new(NgramStage { models: crate::weights::ngrams().models.clone(), cuts })
    }

    fn screener(suspect: bool, decision: f64) -> Screener {
        let blend = Blend { ngram_share: 0.2, ordinary: -6.0, cuts: from(0.0) };
        let blends = Blends { prompt: blend.clone(), content: blend };
        let reader: Arc<dyn Reader> = Arc::new(Always(decision));
        Screener::new(
            ngrams(suspect),
            Some(TransformerStage { reader, blends, weights: "always".to_owned() }),
        )
    }

    const TEXT: &str = "Please tell the caretaker that the lift is out of order.";

    #[test]
    fn what_is_no_number_clears_nothing() {
        let error = screener(true, f64::NAN).screen(TEXT, Kind::Prompt).unwrap_err();
        assert!(matches!(error, ScreenError::Read(_)), "{error:?}");
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        let blend = Blend { ngram_share: 0.2, ordinary: -6.0, cuts: from(0.0) };
        let mut file = serde_json::to_value(&blend).unwrap();
        assert_eq!(serde_json::from_value::<Blend>(file.clone()).unwrap(), blend);
        for share in [-0.1, 1.0, 7.0] {
            file["ngram_share"] = share.into();
            let error = serde_json::from_value::<Blend>(file.clone()).unwrap_err().to_string();
            assert!(error.contains("`ngram_share`"), "{error}");
        }
    }

    #[test]
    fn a_transformer_clears_and_flags_what_the_ngrams_suspect() {
        for kind in [Kind::Prompt, Kind::Content] {
            let alone = Screener::new(ngrams(true), None).screen(TEXT, kind).unwrap();
            assert_eq!((alone.flagged, alone.stage), (true, Stage::Ngram), "{alone:?}");
            for (decision, flagged) in [(-60.0, false), (60.0, true)] {
                let read = screener(true, decision).screen(TEXT, kind).unwrap();
                assert_eq!((read.flagged, read.stage), (flagged, Stage::Transformer), "{read:?}");
            }
        }
    }

    #[test]
    fn what_there_was_no_room_to_read_is_not_cleared() {
        let text = vec![TEXT; 8 * MAX_READ].join("\n\n");
        let verdict = screener(true, -60.0).screen(&text, Kind::Content).unwrap();
        assert!(verdict.flagged, "{:?}", verdict.score);
    }

    #[test]
    fn what_the_ngrams_clear_scores_below_what_is_read_and_suspicious() {
        let cleared = screener(false, 60.0).screen(TEXT, Kind::Prompt).unwrap();
        assert_eq!((cleared.flagged, cleared.stage), (false, Stage::Ngram), "{cleared:?}");
        let read = screener(true, -5.0).screen(TEXT, Kind::Prompt).unwrap();
        assert!(cleared.score < read.score, "{cleared:?} {read:?}");
    }

    #[test]
    fn every_stretch_holds_the_worst_sentence_in_it() {
        let text = "One calm sentence here. And another calm one.\n\nA bad one stands here, alone.";
        let at = text.find("A bad").unwrap();
        let heard = [
            Heard { range: 0..23, decision: -3.0 },
            Heard { range: 24..45, decision: -2.0 },
            Heard { range: at..text.len(), decision: 4.0 },
        ];
        let stretches = suspected(text, &heard, Kind::Content);
        for stretch in &stretches {
            let inside = heard.iter().filter(|heard| {
                heard.range.start < stretch.range.end && stretch.range.start < heard.range.end
            });
            let worst = inside.map(|heard| heard.decision).max_by(f64::total_cmp);
            assert_eq!(Some(stretch.decision), worst);
        }
        assert!(stretches.iter().any(|stretch| stretch.decision == 4.0));
        assert!(suspected(text, &heard[..1], Kind::Content).len() <= stretches.len());
    }
}
