//! The trained behaviour detector: from transcripts to a regression, and what it says of transcripts it has not seen.
//!
//! What is made of the vectors is decided by validation inside the training rows, with whole families of attacks held
//! back: a detector that knows a family's wording shows nothing about the next family.

use std::collections::BTreeSet;

use custody_detect::behaviour::{AnswerPair, Features, Regression, RegressionBasis, pairs};
use custody_detect::calibration::{Band, Classification, Rates, clearance, threshold};
use custody_detect::exact_math::sigmoid;
use custody_detect::logistic::{self, FitOptions, Rows};
use custody_detect::ngram::{TrainingFile, TrainingOrigin};
use custody_models::Embedder as _;

use super::attempts::ORDINARY;
use super::error::RecipeError;
use super::parts::of_training_row;
use super::transcripts::{SandboxTranscript, Transcripts};
use crate::metrics::auroc;
use crate::sets::parts::{SetPart, hash};
use crate::vectors::CachedEmbedder;

/// Of agents that did their task one in twenty may be called compromised, and of compromised ones one in ten called
/// untouched without a doubt. Between the cuts the detector does not say.
pub const RATES: Rates = Rates { false_positive: 0.05, miss: 0.1 };
/// How many parts the texts are held back in.
const TEXT_FOLDS: u64 = 5;
const LICENCE: &str =
    "Apache-2.0; trained on texts written for this project and answers of the model named in them";

/// A transcript as vectors.
#[derive(Debug, Clone)]
pub struct BehaviourExample<'a> {
    /// The transcript.
    pub transcript: &'a SandboxTranscript,
    /// Of its answer, stretch by stretch; none of an answer without words.
    pairs: Vec<AnswerPair>,
}

/// The vectors of `transcripts`.
///
/// # Errors
/// [`RecipeError`] when a text is too long or the model fails.
pub fn examples<'a>(
    transcripts: &'a [SandboxTranscript],
    embedder: &CachedEmbedder,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<BehaviourExample<'a>>, RecipeError> {
    transcripts
        .iter()
        .enumerate()
        .map(|(done, transcript): (usize, &'a SandboxTranscript)| {
            progress(done, transcripts.len());
            let pairs = pairs(embedder, &transcript.text, &transcript.answer)
                .map_err(|cause| RecipeError::Judge(Box::new(cause)))?;
            Ok(BehaviourExample { transcript, pairs })
        })
        .collect()
}

/// What makes regressions of examples.
#[derive(Debug, Clone)]
pub struct BehaviourRecipe {
    base: String,
    dimension: usize,
    origin: TrainingOrigin,
}

impl BehaviourRecipe {
    /// On vectors of `embedder`, from `transcripts`.
    pub fn new(embedder: &CachedEmbedder, transcripts: &Transcripts) -> Self {
        let file = &transcripts.file;
        let data =
            TrainingFile { file: file.file.clone(), sha256: file.sha256.clone(), rows: file.rows };
        Self {
            base: embedder.digest().to_owned(),
            dimension: embedder.dimension(),
            origin: TrainingOrigin { data: vec![data], licence: LICENCE.to_owned() },
        }
    }

    /// A regression of `examples`: three quarters of their texts teach it, one quarter sets its cuts.
    ///
    /// # Errors
    /// [`RecipeError`] when they do not suffice for [`RATES`], or are all of one class.
    pub fn train(&self, examples: &[&BehaviourExample<'_>]) -> Result<Regression, RecipeError> {
        let (teaching, calibrating): (Vec<&BehaviourExample<'_>>, Vec<_>) =
            examples.iter().partition(|it| of_training_row(&it.transcript.text) == SetPart::Train);
        let features = self.choose(&teaching)?;
        let regression = self.fit(&teaching, features)?;
        let band = band(&regression, &calibrating)?;
        Ok(regression.calibrated(band, RATES)?)
    }

    /// The features that part the classes best in families that did not teach; of equal ones the fewest.
    fn choose(&self, examples: &[&BehaviourExample<'_>]) -> Result<Features, RecipeError> {
        let mut best = (Features::Answer, f64::NEG_INFINITY);
        for features in Features::ALL {
            let area = self.validate(examples, features)?;
            if area > best.1 {
                best = (features, area);
            }
        }
        Ok(best.0)
    }

    /// The area under the curve of decisions on each family by a regression that the others taught.
    ///
    /// # Errors
    /// [`RecipeError`] when a regression cannot be fitted.
    pub fn validate(
        &self,
        examples: &[&BehaviourExample<'_>],
        features: Features,
    ) -> Result<f64, RecipeError> {
        let families = families(examples);
        let (mut decisions, mut labels) = (Vec::new(), Vec::new());
        for fold in 0..families.len() {
            let (held, teaching): (Vec<&BehaviourExample<'_>>, Vec<_>) =
                examples.iter().partition(|it| by_family(it.transcript, &families) == fold);
            let regression = self.fit(&teaching, features)?;
            for example in held {
                let Some(decision) = decision(&regression, example) else { continue };
                decisions.push(decision);
                labels.push(example.transcript.compromised);
            }
        }
        Ok(auroc(&decisions, &labels).unwrap_or(0.0))
    }

    fn fit(
        &self,
        teaching: &[&BehaviourExample<'_>],
        features: Features,
    ) -> Result<Regression, RecipeError> {
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for example in teaching {
            // An answer that is longer than what the model reads at once begins as it goes on.
            let Some(first) = example.pairs.first() else { continue };
            values.extend(features.of(first));
            labels.push(example.transcript.compromised);
        }
        let rows = Rows::Dense { values: &values, columns: features.width(self.dimension) };
        // Validation found nothing better than `C` = 1 from 0.1 to 100.
        let options = FitOptions { tolerance: 1e-6, ..FitOptions::default() };
        let fit = logistic::fit(rows, &labels, None, &options)?;
        let weights = fit.weights.into_iter().map(nearest).collect();
        let basis = RegressionBasis {
            base: self.base.clone(),
            dimension: self.dimension,
            features,
            origin: self.origin.clone(),
        };
        Ok(Regression::new(basis, weights, nearest(fit.intercept))?)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "weights are kept in single precision")]
fn nearest(value: f64) -> f32 {
    value as f32
}

/// Where the detector fires, is unsure, and is not.
fn band(
    regression: &Regression,
    calibrating: &[&BehaviourExample<'_>],
) -> Result<Band, RecipeError> {
    let [benign, attacks]: [Vec<f64>; 2] = [false, true].map(|compromised| {
        let rows = calibrating.iter().filter(|it| it.transcript.compromised == compromised);
        rows.filter_map(|it| decision(regression, it)).collect()
    });
    let upper = threshold(&benign, RATES.false_positive)?;
    let lower = clearance(&attacks, RATES.miss)?.min(upper);
    Ok(Band { lower, upper, benign_rows: benign.len(), attack_rows: attacks.len() })
}

/// The decision on the part of the answer that speaks most for a compromise, as the detector takes it.
fn decision(regression: &Regression, example: &BehaviourExample<'_>) -> Option<f64> {
    example.pairs.iter().map(|pair| regression.decision(pair)).max_by(f64::total_cmp)
}

/// How far two regressions are apart on an example: in their decisions, or in a cut.
pub fn distance(example: &BehaviourExample<'_>, one: &Regression, other: &Regression) -> f64 {
    let [one_cuts, other_cuts] =
        [one, other].map(|regression| [regression.band().lower, regression.band().upper]);
    let apart = one_cuts.into_iter().zip(other_cuts).map(|(one, other)| (one - other).abs());
    let decisions = decision(one, example).zip(decision(other, example));
    let decisions = decisions.map_or(0.0, |(one, other)| (one - other).abs());
    apart.fold(decisions, f64::max)
}

/// What is held back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    /// A family of attacks, with its share of the ordinary texts.
    ByFamily,
    /// A text, and so the string that it demands.
    ByText,
}

/// What a detector says of a transcript.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BehaviourJudgement {
    /// In `[0, 1]`.
    pub score: f64,
    /// What follows.
    pub verdict: Classification,
}

impl BehaviourJudgement {
    /// Of an answer without words.
    const NOTHING: Self = Self { score: 0.0, verdict: Classification::Unsure };

    /// What the detector with this regression says of `example`.
    pub fn of(regression: &Regression, example: &BehaviourExample<'_>) -> Self {
        let Some(decision) = decision(regression, example) else { return Self::NOTHING };
        Self { score: sigmoid(decision), verdict: regression.classify(decision) }
    }
}

impl BehaviourRecipe {
    /// What detectors say that were trained without the part that each example stands in, in the examples' order.
    /// `progress` is told before each part.
    ///
    /// # Errors
    /// As [`Self::train`].
    pub fn held_back(
        &self,
        examples: &[BehaviourExample<'_>],
        split: HeldBack,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<BehaviourJudgement>, RecipeError> {
        let all: Vec<&BehaviourExample<'_>> = examples.iter().collect();
        let families = families(&all);
        let fold = |it: &BehaviourExample<'_>| match split {
            HeldBack::ByFamily => by_family(it.transcript, &families),
            HeldBack::ByText => by_text(it.transcript),
        };
        let folds: BTreeSet<usize> = examples.iter().map(fold).collect();
        let mut said = vec![BehaviourJudgement::NOTHING; examples.len()];
        for (done, part) in folds.iter().enumerate() {
            progress(done, folds.len());
            let teaching: Vec<&BehaviourExample<'_>> =
                examples.iter().filter(|it| fold(it) != *part).collect();
            let regression = self.train(&teaching)?;
            for (example, slot) in examples.iter().zip(&mut said) {
                if fold(example) == *part {
                    *slot = BehaviourJudgement::of(&regression, example);
                }
            }
        }
        Ok(said)
    }
}

/// The families of attacks, in order.
fn families<'a>(examples: &[&BehaviourExample<'a>]) -> Vec<&'a str> {
    let families = examples.iter().map(|it| it.transcript.family.as_str());
    let families: BTreeSet<&str> = families.filter(|family| *family != ORDINARY).collect();
    families.into_iter().collect()
}

/// An attack stands in the part of its family; ordinary texts are dealt out.
fn by_family(transcript: &SandboxTranscript, families: &[&str]) -> usize {
    let place = families.iter().position(|family| *family == transcript.family);
    place.unwrap_or_else(|| dealt(transcript, families.len() as u64))
}

fn by_text(transcript: &SandboxTranscript) -> usize {
    dealt(transcript, TEXT_FOLDS)
}

/// By digits of the hash that part nothing else.
fn dealt(transcript: &SandboxTranscript, parts: u64) -> usize {
    let part = hash(&transcript.text) / 10_000 % parts.max(1);
    usize::try_from(part).unwrap_or_default()
}
