//! The regression of the prefilter: on the shipped rows, on rows of one's own, or on those of a suite.

use std::sync::Arc;

use custody_detect::calibration::threshold;
use custody_detect::logistic::{self, FitOptions, Rows};
use custody_detect::ngram::{TrainingFile, TrainingOrigin};
use custody_detect::ngram_stage;
use custody_detect::prefilter::{self, Prefilter, PrefilterModel, PrefilterOptions};
use custody_models::Embedder as _;

use super::corpus::{Corpus, Prompt};
use super::error::RecipeError;
use super::ngrams::origin;
use crate::sets::Labelled;
use crate::sets::parts::validation;
use crate::vectors::CachedEmbedder;

/// The share of ordinary texts that the prefilter may flag.
///
/// Source: PIPE step 2.
pub const FALSE_POSITIVES: f64 = 0.05;
/// The threshold aims lower, so that the share is kept on other rows drawn alike, and not in every second draw.
const AIM: f64 = 0.045;
/// The share of one's own rows that the threshold is chosen on, and that nothing is learned from.
const CALIBRATING: f64 = 0.2;

/// A text to learn from.
struct Example<'a> {
    text: &'a str,
    is_attack: bool,
    weight: f64,
}

impl<'a> From<&'a Prompt> for Example<'a> {
    fn from(prompt: &'a Prompt) -> Self {
        Self { text: &prompt.text, is_attack: prompt.is_attack, weight: prompt.weight }
    }
}

impl<'a> From<&'a Labelled> for Example<'a> {
    fn from(row: &'a Labelled) -> Self {
        Self { text: &row.text, is_attack: row.label, weight: 1.0 }
    }
}

/// How the weights are fitted: as PIPE, with scikit-learn's defaults and balanced classes. Validation on a part
/// of the training rows of the prefilter corpus found nothing better from `C` = 0.3 to 100.
fn options() -> FitOptions {
    FitOptions { tolerance: 1e-6, ..FitOptions::default() }
}

/// The shipped regression: prompts of the corpus that train, and its calibration prompts for the threshold.
///
/// # Errors
/// [`RecipeError`] when a row cannot be used or they do not suffice.
pub fn shipped(
    corpus: &Corpus,
    embedder: &Arc<CachedEmbedder>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<PrefilterModel, RecipeError> {
    let training: Vec<Example<'_>> = corpus.prompts.iter().map(Example::from).collect();
    let calibrating: Vec<Example<'_>> =
        corpus.calibration_prompts.iter().map(Example::from).collect();
    make(&training, &calibrating, origin(corpus), embedder, progress)
}

/// A regression on `rows`, of which one in five chooses the threshold; `data` says where they come from.
///
/// # Errors
/// [`RecipeError`] when a row cannot be used or they do not suffice.
pub fn on_rows(
    rows: &[Labelled],
    data: Vec<TrainingFile>,
    seed: u64,
    embedder: &Arc<CachedEmbedder>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<PrefilterModel, RecipeError> {
    let (training, calibrating) = validation(rows, CALIBRATING, seed);
    let origin = TrainingOrigin { data, licence: "as its rows".to_owned() };
    let training: Vec<Example<'_>> = training.iter().map(Example::from).collect();
    let calibrating: Vec<Example<'_>> = calibrating.iter().map(Example::from).collect();
    make(&training, &calibrating, origin, embedder, progress)
}

fn make(
    training: &[Example<'_>],
    calibrating: &[Example<'_>],
    origin: TrainingOrigin,
    embedder: &Arc<CachedEmbedder>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<PrefilterModel, RecipeError> {
    let firsts = first_stretches(training)?;
    let read = calibrating.iter().map(|example| ngram_stage::chunks_to_embed(example.text));
    let read: Vec<Vec<String>> = read.collect::<Result<_, _>>()?;
    let all: Vec<&str> =
        firsts.iter().flatten().chain(read.iter().flatten()).map(String::as_str).collect();
    embedder.learn(&all, progress)?;
    let model = fit(training, &firsts, origin, embedder)?;
    calibrate(model, calibrating, embedder)
}

/// An attack that is longer than what the model reads at once begins as one. None for a text without words.
fn first_stretches(examples: &[Example<'_>]) -> Result<Vec<Option<String>>, RecipeError> {
    examples
        .iter()
        .map(|example: &Example<'_>| {
            Ok(ngram_stage::chunks_to_embed(example.text)?.into_iter().next())
        })
        .collect()
}

fn fit(
    examples: &[Example<'_>],
    firsts: &[Option<String>],
    origin: TrainingOrigin,
    embedder: &CachedEmbedder,
) -> Result<PrefilterModel, RecipeError> {
    let (mut texts, mut labels, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (example, first) in examples.iter().zip(firsts) {
        let Some(first) = first else { continue };
        texts.push(first.as_str());
        labels.push(example.is_attack);
        weights.push(example.weight);
    }
    let values = embedder.embed(&texts).map_err(prefilter::PrefilterError::from)?.concat();
    let rows = Rows::Dense { values: &values, columns: embedder.dimension() };
    let fit = logistic::fit(rows, &labels, Some(&weights), &options())?;
    let weights = fit.weights.into_iter().map(nearest).collect();
    Ok(PrefilterModel::new(embedder.digest(), weights, nearest(fit.intercept), origin)?)
}

#[expect(clippy::cast_possible_truncation, reason = "weights are kept in single precision")]
fn nearest(value: f64) -> f32 {
    value as f32
}

/// On the scores as they are given, rules and all.
fn calibrate(
    model: PrefilterModel,
    rows: &[Example<'_>],
    embedder: &Arc<CachedEmbedder>,
) -> Result<PrefilterModel, RecipeError> {
    let prefilter = asking_always(embedder, model.clone())?;
    let benign = rows.iter().filter(|row| !row.is_attack);
    let scores = benign.map(|row| Ok(prefilter.check(row.text)?.score));
    let scores: Vec<f64> = scores.collect::<Result<_, RecipeError>>()?;
    Ok(model.calibrated(threshold(&scores, AIM)?, AIM, scores.len()))
}

/// The prefilter without the short cut past its model, whose scores order texts with a strong rule too.
///
/// # Errors
/// [`RecipeError::Prefilter`] when model and embedder do not fit together.
pub fn asking_always(
    embedder: &Arc<CachedEmbedder>,
    model: PrefilterModel,
) -> Result<Prefilter, RecipeError> {
    let prefilter = Prefilter::new(Arc::<CachedEmbedder>::clone(embedder), model)?;
    Ok(prefilter
        .with_options(PrefilterOptions { fast_reject: false, ..PrefilterOptions::default() }))
}
