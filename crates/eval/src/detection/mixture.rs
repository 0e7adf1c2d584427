//! Methods pooled to one, as D5 is.

use std::collections::BTreeMap;

use custody_detect::exact_math::{logit, sigmoid};

use super::figures::Runs;
use super::unit::{LengthTime, Measured};

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
    /// Ids of methods whose scores are probabilities, with their weights, which add up to one.
    pub parts: Vec<(String, f64)>,
    /// A text is flagged from this probability on.
    pub threshold: f64,
}

/// The runs of a mixture: as many seeds as the part with the most; a part with one run joins all of them.
pub(super) fn mixed(mixture: &Mixture, runs: &BTreeMap<String, Runs>) -> Option<Runs> {
    let parts: Option<Vec<(&Runs, f64)>> =
        mixture.parts.iter().map(|(id, weight)| Some((runs.get(id)?, *weight))).collect();
    let parts = parts?;
    let seeds = parts.iter().map(|(runs, _)| runs.fixed.len()).max()?;
    let fixed = (0..seeds).map(|seed| {
        let part = |(runs, weight): &(&Runs, f64)| {
            Some((runs.fixed.get(seed).or_else(|| runs.fixed.first())?.clone(), *weight))
        };
        Some(pooled(&parts.iter().map(part).collect::<Option<Vec<_>>>()?, mixture.threshold))
    });
    let folds = parts.iter().map(|(runs, _)| runs.folds.len()).min()?;
    let folds = (0..folds).map(|fold| {
        let part = |(runs, weight): &(&Runs, f64)| Some((runs.folds.get(fold)?.0.clone(), *weight));
        let units = parts.iter().map(part).collect::<Option<Vec<_>>>()?;
        let labels = parts.first()?.0.folds.get(fold)?.1.clone();
        Some((pooled(&units, mixture.threshold), labels))
    });
    Some(Runs { fixed: fixed.collect::<Option<_>>()?, folds: folds.collect::<Option<_>>()? })
}

/// The pooled scores, and the sum of times: one part is asked after the other.
fn pooled(parts: &[(Measured, f64)], threshold: f64) -> Measured {
    let mut pool = Measured { threshold, ..Measured::default() };
    for (at, (part, weight)) in parts.iter().enumerate() {
        if at == 0 {
            pool.scores = vec![0.0; part.scores.len()];
            pool.latencies_us = vec![0.0; part.latencies_us.len()];
            let none = |time: &LengthTime| LengthTime { median_us: 0.0, p95_us: 0.0, ..*time };
            pool.by_length = part.by_length.iter().map(none).collect();
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
        let part = |(scores, weight): &(&[f64], f64)| {
            (Measured { scores: scores.to_vec(), ..Measured::default() }, *weight)
        };
        pooled(&of.iter().map(part).collect::<Vec<_>>(), 0.5).scores
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
