//! The trained detector: the probability that a text is an attack.

use std::ops::Range;

use super::folding::FoldedText;
use super::vocabulary::{Vocabulary, as_f32};
use super::{NgramOptions, NgramTrainError};
use crate::exact_math::sigmoid;
use crate::logistic::{self, Rows, SparseRows};

/// The largest number of spans of one n-gram in an explanation.
const MAX_SPANS: usize = 32;

/// Detector D2: TF-IDF of character n-grams within words, and logistic regression.
#[derive(Debug, Clone)]
pub struct NgramModel {
    options: NgramOptions,
    origin: TrainingOrigin,
    vocabulary: Vocabulary,
    coefficients: Vec<f32>,
    intercept: f64,
    /// The numbers that scoring needs of each n-gram, side by side.
    weights: Vec<Weight>,
}

/// The training data of a model, recorded in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingOrigin {
    /// The files, in the order of reading.
    pub data: Vec<TrainingFile>,
    /// The licences of the data.
    pub licence: String,
}

/// One file of training data.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFile {
    /// Its name, without folders of the machine that trained.
    pub file: String,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// The number of rows used.
    pub rows: u64,
}

/// The contribution of one n-gram to a score.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// The n-gram after folding: lower case, without accents; spaces are word boundaries.
    pub ngram: String,
    /// Its part of the decision value.
    pub contribution: f64,
    /// The number of occurrences.
    pub count: u32,
    /// The bytes of the first 32 occurrences in the text, without word boundaries.
    pub spans: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
struct Weight {
    /// The inverse document frequency times the coefficient.
    push: f64,
    /// The square of the inverse document frequency.
    square: f64,
}

/// Trains a model; `labels` are true for attacks, and `weights` are the weights of the texts in the regression (not in
/// the choice of n-grams).
///
/// # Errors
/// [`NgramTrainError`].
///
/// Source: MON §5.2, detector D2; docs/papers.md §2.4 has the published figures.
pub fn train(
    texts: &[&str],
    labels: &[bool],
    weights: Option<&[f64]>,
    options: &NgramOptions,
) -> Result<NgramModel, NgramTrainError> {
    options.check()?;
    if texts.is_empty() {
        return Err(NgramTrainError::Empty);
    }
    let vocabulary = Vocabulary::learn(texts, options)?;
    if vocabulary.len() == 0 {
        return Err(NgramTrainError::NoFeatures { texts: texts.len() });
    }
    let mut rows = SparseRows::new(vocabulary.len());
    for text in texts {
        rows.push(&vocabulary.row(text)).map_err(NgramTrainError::Fit)?;
    }
    let fit = logistic::fit(Rows::Sparse(&rows), labels, weights, &options.fit)
        .map_err(NgramTrainError::Fit)?;
    let coefficients = fit.weights.into_iter().map(as_f32).collect();
    Ok(NgramModel::new(
        *options,
        TrainingOrigin::default(),
        vocabulary,
        coefficients,
        fit.intercept,
    ))
}

impl NgramModel {
    /// A model from its parts; `coefficients` has one number per n-gram.
    pub(super) fn new(
        options: NgramOptions,
        origin: TrainingOrigin,
        vocabulary: Vocabulary,
        coefficients: Vec<f32>,
        intercept: f64,
    ) -> Self {
        let weights = vocabulary
            .idf()
            .iter()
            .zip(&coefficients)
            .map(|(&idf, &coefficient)| Weight {
                push: f64::from(idf) * f64::from(coefficient),
                square: f64::from(idf) * f64::from(idf),
            })
            .collect();
        Self { options, origin, vocabulary, coefficients, intercept, weights }
    }

    /// The same model with a record of its training data.
    #[must_use]
    pub fn with_origin(self, origin: TrainingOrigin) -> Self {
        Self { origin, ..self }
    }

    /// The probability that `text` is an attack, in `[0, 1]`. The time is linear in the text.
    #[must_use]
    pub fn probability(&self, text: &str) -> f64 {
        sigmoid(self.decision(text))
    }

    /// The log-odds that `text` is an attack.
    #[must_use]
    pub fn decision(&self, text: &str) -> f64 {
        let (mut push, mut square) = (0.0, 0.0);
        for (feature, count) in self.vocabulary.count(&FoldedText::new(text)).iter() {
            let (frequency, weight) =
                (self.vocabulary.frequency(count), self.weights[feature as usize]);
            push += frequency * weight.push;
            square += frequency * frequency * weight.square;
        }
        if square > 0.0 { push / square.sqrt() + self.intercept } else { self.intercept }
    }

    /// The `limit` n-grams with the largest positive contributions, in descending order.
    #[must_use]
    pub fn contributions(&self, text: &str, limit: usize) -> Vec<Contribution> {
        let folded = FoldedText::with_origins(text);
        let counts = self.vocabulary.count(&folded);
        let mut square = 0.0;
        let mut pushes: Vec<(f64, u32, u32)> = Vec::new();
        for (feature, count) in counts.iter() {
            let (frequency, weight) =
                (self.vocabulary.frequency(count), self.weights[feature as usize]);
            square += frequency * frequency * weight.square;
            if weight.push > 0.0 {
                pushes.push((frequency * weight.push, feature, count));
            }
        }
        pushes.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        pushes.truncate(limit);
        let norm = f64::sqrt(square);
        let mut found: Vec<Contribution> = pushes
            .iter()
            .map(|&(push, feature, count)| Contribution {
                ngram: self.vocabulary.grams()[feature as usize].characters().collect(),
                contribution: push / norm,
                count,
                spans: Vec::new(),
            })
            .collect();
        folded.each_gram(self.vocabulary.lengths(), |from, length, gram| {
            let Some(feature) = self.vocabulary.find(gram) else { return };
            let index = pushes.iter().position(|push| push.1 == feature);
            if let Some(found) = index.map(|index| &mut found[index])
                && found.spans.len() < MAX_SPANS
            {
                found.spans.push(folded.span(from, from + length));
            }
        });
        found
    }

    /// The options of its training.
    #[must_use]
    pub fn options(&self) -> &NgramOptions {
        &self.options
    }

    /// Its training data.
    #[must_use]
    pub fn origin(&self) -> &TrainingOrigin {
        &self.origin
    }

    /// The number of n-grams.
    #[must_use]
    pub fn feature_count(&self) -> usize {
        self.vocabulary.len()
    }

    /// Every n-gram in ascending order, with its inverse document frequency and its coefficient.
    pub fn features(&self) -> impl Iterator<Item = (String, f32, f32)> {
        let weights = self.vocabulary.idf().iter().zip(&self.coefficients);
        self.vocabulary
            .grams()
            .iter()
            .zip(weights)
            .map(|(gram, (&idf, &coefficient))| (gram.characters().collect(), idf, coefficient))
    }

    /// The intercept of the regression.
    #[must_use]
    pub fn intercept(&self) -> f64 {
        self.intercept
    }

    /// The row of `text` in the regression: its n-grams in ascending order, with weights whose squares sum to 1.
    #[must_use]
    pub fn row(&self, text: &str) -> Vec<(String, f64)> {
        let grams = self.vocabulary.grams();
        self.vocabulary
            .row(text)
            .into_iter()
            .map(|(feature, value)| (grams[feature as usize].characters().collect(), value))
            .collect()
    }
}
