//! Methods pooled to one, as D5 is.

use std::collections::BTreeMap;

use custody_detect::exact_math::{logit, sigmoid};

use super::figures::{Fold, Runs};
use super::unit::{LengthTime, MeasuredUnit};

/// No part is surer of a text than this, so that none outvotes all others for ever.
const LEAST_DOUBT: f64 = 1e-6;

/// The weighted mean of the log-odds of other methods' scores, as a probability.
///
/// The paper's D5 adds probabilities, where a part that is nearly certain counts no more than one that is fairly sure.
///
/// Source: Genest and Zidek 1986, "Combining probability distributions", *logarithmic opinion pool*;
/// `docs/decisions/0012-how-the-fine-tuned-transformer-is-trained.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// As [`Recipe::id`](super::detector::Recipe::id).
    pub id: String,
    /// As [`Recipe::title`](super::detector::Recipe::title).
    pub title: String,
    /// What is pooled. The weights add up to one.
    pub parts: Vec<MixturePart>,
    /// A text is flagged from this probability on.
    pub threshold: f64,
}

/// A method in a mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct MixturePart {
    /// The id of a method whose scores are probabilities.
    pub id: String,
    /// What it counts beside the others.
    pub weight: f64,
    /// How many of its trainings share that weight. They differ by their seed; a method without a seed has one.
    ///
    /// Source: Lakshminarayanan et al. 2017, "Simple and scalable predictive uncertainty estimation using deep
    /// ensembles".
    pub trainings: usize,
}

/// The runs of a mixture, one for every pool of trainings that its parts have.
pub(super) fn mixed(mixture: &Mixture, runs: &BTreeMap<String, Runs>) -> Option<Runs> {
    let parts: Option<Vec<(&Runs, &MixturePart)>> =
        mixture.parts.iter().map(|part| Some((runs.get(&part.id)?, part))).collect();
    let parts = parts?;
    let pools = parts.iter().map(|(runs, part)| pools(runs.fixed.len(), part)).max()?;
    let fixed = (0..pools).map(|first| {
        let members = parts.iter().flat_map(|(runs, part)| members(&runs.fixed, part, first));
        pooled(&members.collect::<Vec<_>>(), mixture.threshold)
    });
    let folds = parts.iter().map(|(runs, _)| runs.folds.len()).min()?;
    let folds = (0..folds).map(|fold| {
        let members =
            parts.iter().flat_map(|(runs, part)| members(&runs.folds[fold].trainings, part, 0));
        let trainings = vec![pooled(&members.collect::<Vec<_>>(), mixture.threshold)];
        Some(Fold { labels: parts.first()?.0.folds[fold].labels.clone(), trainings })
    });
    Some(Runs { fixed: fixed.collect(), folds: folds.collect::<Option<_>>()? })
}

/// How many pools of neighbours there are among `trainings` that stand in a circle. One of all is the same from
/// wherever it begins.
fn pools(trainings: usize, part: &MixturePart) -> usize {
    if trainings > part.trainings { trainings } else { 1 }
}

/// The pool that begins at `first`, with the weight of each training.
fn members<'a>(
    trainings: &'a [MeasuredUnit],
    part: &MixturePart,
    first: usize,
) -> impl Iterator<Item = (&'a MeasuredUnit, f64)> {
    let pooled = part.trainings.min(trainings.len());
    let weight = part.weight / pooled as f64;
    trainings.iter().cycle().skip(first).take(pooled).map(move |training| (training, weight))
}

/// The pooled scores, and the sum of times: one part is asked after the other.
fn pooled(parts: &[(&MeasuredUnit, f64)], threshold: f64) -> MeasuredUnit {
    let mut pool = MeasuredUnit { threshold, ..MeasuredUnit::default() };
    for (at, (part, weight)) in parts.iter().enumerate() {
        if at == 0 {
            pool.scores = vec![0.0; part.scores.len()];
            pool.latencies_us = vec![0.0; part.latencies_us.len()];
            pool.by_length = part
                .by_length
                .iter()
                .map(|time: &LengthTime| LengthTime { median_us: 0.0, p95_us: 0.0, ..*time })
                .collect();
        }
        pool.training_seconds += part.training_seconds;
        pool.unit_seconds += part.unit_seconds;
        for (odds, score) in pool.scores.iter_mut().zip(&part.scores) {
            *odds += weight * logit(score.clamp(LEAST_DOUBT, 1.0 - LEAST_DOUBT));
        }
        for (sum, time) in pool.latencies_us.iter_mut().zip(&part.latencies_us) {
            *sum += time;
        }
        for (sum, time) in pool.by_length.iter_mut().zip(&part.by_length) {
            sum.median_us += time.median_us;
            sum.p95_us += time.p95_us;
        }
    }
    pool.scores.iter_mut().for_each(|score| *score = sigmoid(*score));
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(of: &[(&[f64], f64)]) -> Vec<f64> {
        let parts: Vec<(MeasuredUnit, f64)> =
            of.iter().map(|(scores, weight)| (measured(scores), *weight)).collect();
        pooled(&parts.iter().map(|(part, weight)| (part, *weight)).collect::<Vec<_>>(), 0.5).scores
    }

    fn measured(scores: &[f64]) -> MeasuredUnit {
        MeasuredUnit { scores: scores.to_vec(), training_seconds: 10.0, ..MeasuredUnit::default() }
    }

    #[test]
    fn trainings_of_one_part_share_its_weight_and_each_is_in_as_many_pools() {
        let runs = |of: &[&[f64]]| Runs {
            fixed: of.iter().map(|scores| measured(scores)).collect(),
            folds: vec![Fold {
                labels: vec![true],
                trainings: of.iter().map(|scores| measured(scores)).collect(),
            }],
        };
        let part = |id: &str, weight: f64, trainings: usize| MixturePart {
            id: id.to_owned(),
            weight,
            trainings,
        };
        let mixture = Mixture {
            id: "m".to_owned(),
            title: "m".to_owned(),
            parts: vec![part("a", 0.5, 1), part("b", 0.5, 2)],
            threshold: 0.5,
        };
        let all = BTreeMap::from([
            ("a".to_owned(), runs(&[&[0.2]])),
            ("b".to_owned(), runs(&[&[0.6], &[0.7], &[0.8]])),
        ]);
        let mixed = mixed(&mixture, &all).unwrap();
        let expected = |pair: [f64; 2]| {
            sigmoid(0.5 * logit(0.2) + 0.25 * logit(pair[0]) + 0.25 * logit(pair[1]))
        };
        let close =
            |run: &MeasuredUnit, pair: [f64; 2]| (run.scores[0] - expected(pair)).abs() < 1e-12;
        assert_eq!(mixed.fixed.len(), 3);
        for (run, pair) in mixed.fixed.iter().zip([[0.6, 0.7], [0.7, 0.8], [0.8, 0.6]]) {
            assert!(close(run, pair), "{run:?}");
            assert_eq!(run.training_seconds, 30.0, "all three are trained");
        }
        assert!(close(&mixed.folds[0].trainings[0], [0.6, 0.7]));
        assert_eq!((mixed.folds.len(), mixed.folds[0].trainings.len()), (1, 1));
    }

    #[test]
    fn the_part_that_is_surer_has_more_say_and_none_has_the_only_one() {
        let agreed = scores(&[(&[0.9, 0.1], 0.2), (&[0.9, 0.1], 0.8)]);
        assert!((agreed[0] - 0.9).abs() < 1e-12 && (agreed[1] - 0.1).abs() < 1e-12, "{agreed:?}");
        let torn = scores(&[(&[0.99, 0.7], 0.5), (&[0.3, 0.01], 0.5)]);
        assert!(torn[0] > 0.5 && torn[1] < 0.5, "{torn:?}");
        let certain = scores(&[(&[1.0, 0.0], 0.5), (&[0.0, 0.5], 0.5)]);
        assert!((certain[0] - 0.5).abs() < 1e-9, "{certain:?}");
        assert!(certain[1] > 0.0 && certain[1] < 0.01, "{certain:?}");
    }

    #[test]
    fn a_score_that_is_no_number_stays_none() {
        assert!(scores(&[(&[f64::NAN], 0.5), (&[0.1], 0.5)])[0].is_nan());
    }
}
