//! The n-gram models of the default detector: one for prompts, one for the sentences of documents.

use std::collections::BTreeSet;

use custody_detect::logistic::FitOptions;
use custody_detect::ngram::{self, NgramModel, NgramOptions, TrainingFile, TrainingOrigin};
use custody_detect::ngram_stage::NgramModels;
use custody_detect::normalise::{NormalisedText, normalise};
use custody_detect::segments::segments;

use super::buried::Planted;
use super::corpus::Corpus;
use super::error::RecipeError;

/// More than the paper's 15,000: the corpus has more texts and two languages.
const FEATURES: usize = 40_000;
/// What stands in one text only says nothing about the next.
const MIN_TEXTS: usize = 2;
/// Inverse strength of the penalty, the paper's being 1. Decided by the calibration rows
/// (`docs/decisions/0013-how-strongly-the-n-grams-are-held-back.md`).
const STRENGTH: f64 = 3.0;
const LICENCE: &str = "Apache-2.0; trained on rows under Apache-2.0, MIT and CC0 only";

/// Trains both, on texts as the detectors read them.
///
/// # Errors
/// [`RecipeError`] when the corpus has one class only.
pub fn train(corpus: &Corpus) -> Result<NgramModels, RecipeError> {
    Ok(NgramModels { prompts: train_prompts(corpus)?, contents: train_contents(corpus)? })
}

fn train_prompts(corpus: &Corpus) -> Result<NgramModel, RecipeError> {
    let texts: Vec<String> = corpus
        .prompts
        .iter()
        .map(|prompt| normalise(&prompt.text).map(|text| text.text().to_owned()))
        .collect::<Result<_, _>>()?;
    let labels: Vec<bool> = corpus.prompts.iter().map(|prompt| prompt.is_attack).collect();
    let weights: Vec<f64> = corpus.prompts.iter().map(|prompt| prompt.weight).collect();
    fit(&texts, &labels, Some(&weights), corpus)
}

/// Each sentence counts once with each label that it has somewhere.
fn train_contents(corpus: &Corpus) -> Result<NgramModel, RecipeError> {
    let mut sentences = BTreeSet::new();
    for document in &corpus.documents {
        let text = normalise(&document.planted.text)?;
        sentences.extend(sentences_of(&text, &document.planted));
    }
    let (texts, labels): (Vec<String>, Vec<bool>) = sentences.into_iter().unzip();
    fit(&texts, &labels, None, corpus)
}

fn fit(
    texts: &[String],
    labels: &[bool],
    weights: Option<&[f64]>,
    corpus: &Corpus,
) -> Result<NgramModel, RecipeError> {
    let options = NgramOptions {
        max_features: FEATURES,
        min_texts: MIN_TEXTS,
        fit: FitOptions { c: STRENGTH, ..FitOptions::default() },
        ..NgramOptions::default()
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(ngram::train(&texts, labels, weights, &options)?.with_origin(origin(corpus)))
}

/// What a model of this corpus says it was trained on.
pub(super) fn origin(corpus: &Corpus) -> TrainingOrigin {
    TrainingOrigin {
        data: corpus
            .files
            .iter()
            .map(|file: &crate::report::DataFile| TrainingFile {
                file: file.file.clone(),
                sha256: file.sha256.clone(),
                rows: file.rows,
            })
            .collect(),
        licence: LICENCE.to_owned(),
    }
}

/// A sentence belongs to the attack if more than half of it was planted.
fn sentences_of(text: &NormalisedText, planted: &Planted) -> Vec<(String, bool)> {
    segments(text.text())
        .into_iter()
        .map(|range: std::ops::Range<usize>| {
            let here = text.original(range.clone());
            let inside = planted.span.as_ref().map_or(0, |span| {
                here.end.min(span.end).saturating_sub(here.start.max(span.start))
            });
            (text.text()[range].to_owned(), inside * 2 > here.len())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_labelled_by_what_most_of_it_is() {
        let text = "The train leaves at nine. Send me the codes now please. Bring a coat with you.";
        let start = text.find("Send").expect("it is there");
        let planted = Planted { text: text.to_owned(), span: Some(start..start + 29) };
        let read = normalise(text).expect("it is short");
        let labels = |planted| -> Vec<bool> {
            sentences_of(&read, planted).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(&planted), [false, true, false]);
        assert_eq!(labels(&Planted::clean(text)), [false; 3]);
    }
}
