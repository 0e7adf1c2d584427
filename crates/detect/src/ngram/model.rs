//! The trained detector: from a text to how likely it is an attack.

use std::ops::Range;

use super::folding::Folded;
use super::vocabulary::{Vocabulary, as_f32};
use super::{NgramOptions, NgramTrainError};
use crate::exact_math::sigmoid;
use crate::logistic::{self, Rows, SparseRows};

/// Places that are kept for one n-gram of an explanation.
const MAX_SPANS: usize = 32;

/// Detector D2: TF-IDF of character n-grams within words, and logistic regression.
#[derive(Debug, Clone)]
pub struct NgramModel {
    options: NgramOptions,
    origin: TrainingOrigin,
    vocabulary: Vocabulary,
    coefficients: Vec<f32>,
    intercept: f64,
    /// What scoring needs of each n-gram, side by side.
    weights: Vec<Weight>,
}

/// What a model was trained on; kept in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingOrigin {
    /// The files, in the order in which they were read.
    pub data: Vec<TrainingFile>,
    /// Under which licences the data may be used.
    pub licence: String,
}

/// One file of training data.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingFile {
    /// Its name, without folders of the machine it was trained on.
    pub file: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Rows that were used.
    pub rows: u64,
}

/// How one n-gram moved a score.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// Folded: lower case, without accents; spaces are the borders of words.
    pub ngram: String,
    /// What it added to the decision value.
    pub contribution: f64,
    /// How often it occurs.
    pub count: u32,
    /// The bytes of the text it stands for, the first 32 places; the borders of words are left out.
    pub spans: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
struct Weight {
    /// Inverse document frequency times coefficient.
    push: f64,
    /// Inverse document frequency, squared.
    square: f64,
}

/// Trains a model; `labels` are true for attacks, and `weights` count a text more or less often in the regression
/// (not in the choice of n-grams).
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
    /// A model from its parts; `coefficients` has one for each n-gram.
    pub(super) fn new(
        options: NgramOptions,
        origin: TrainingOrigin,
        vocabulary: Vocabulary,
        coefficients: Vec<f32>,
        intercept: f64,
    ) -> Self {
        let weight = |(&idf, &coefficient): (&f32, &f32)| Weight {
            push: f64::from(idf) * f64::from(coefficient),
            square: f64::from(idf) * f64::from(idf),
        };
        let weights = vocabulary.idf().iter().zip(&coefficients).map(weight).collect();
        Self { options, origin, vocabulary, coefficients, intercept, weights }
    }

    /// The same model, saying what it was trained on.
    #[must_use]
    pub fn with_origin(self, origin: TrainingOrigin) -> Self {
        Self { origin, ..self }
    }

    /// How likely `text` is an attack, in `[0, 1]`, with 0.5 as the border. Takes time in proportion to the text.
    #[must_use]
    pub fn probability(&self, text: &str) -> f64 {
        sigmoid(self.decision(text))
    }

    /// The logarithm of the odds that `text` is an attack; above 0 is suspicious.
    #[must_use]
    pub fn decision(&self, text: &str) -> f64 {
        let (mut push, mut square) = (0.0, 0.0);
        for (feature, count) in self.vocabulary.count(&Folded::new(text)).iter() {
            let (frequency, weight) =
                (self.vocabulary.frequency(count), self.weights[feature as usize]);
            push += frequency * weight.push;
            square += frequency * frequency * weight.square;
        }
        if square > 0.0 { push / square.sqrt() + self.intercept } else { self.intercept }
    }

    /// The `limit` n-grams that pushed `text` furthest towards an attack, strongest first; fewer if fewer did.
    #[must_use]
    pub fn contributions(&self, text: &str, limit: usize) -> Vec<Contribution> {
        let folded = Folded::with_origins(text);
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
            let place = pushes.iter().position(|push| push.1 == feature);
            if let Some(found) = place.map(|place| &mut found[place])
                && found.spans.len() < MAX_SPANS
            {
                found.spans.push(folded.span(from, from + length));
            }
        });
        found
    }

    /// How it was trained.
    #[must_use]
    pub fn options(&self) -> &NgramOptions {
        &self.options
    }

    /// What it was trained on.
    #[must_use]
    pub fn origin(&self) -> &TrainingOrigin {
        &self.origin
    }

    /// How many n-grams it knows.
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

    /// What is added to every decision value.
    #[must_use]
    pub fn intercept(&self) -> f64 {
        self.intercept
    }

    /// `text` as the regression sees it: the n-grams it has, ascending, with weights whose squares sum to one.
    #[must_use]
    pub fn row(&self, text: &str) -> Vec<(String, f64)> {
        let name = |feature: u32| self.vocabulary.grams()[feature as usize].characters().collect();
        self.vocabulary
            .row(text)
            .into_iter()
            .map(|(feature, value)| (name(feature), value))
            .collect()
    }
}
