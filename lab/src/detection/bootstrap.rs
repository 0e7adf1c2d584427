//! 95 % intervals by resampling rows.
//!
//! Every resample draws as many rows of each class as there are, with replacement and within the class:
//! the class counts stay, as they do in a test set of fixed size. The interval runs from the 2.5th to the
//! 97.5th percentile of the resamples. Several runs (seeds) are measured on the same resample and averaged,
//! so the interval is that of the mean which stands beside it.
//!
//! Source: Efron, Tibshirani, "An introduction to the bootstrap", 1993, chapters 8 and 13.

use crate::metrics::{Measures, Scored, percentile};
use crate::random::Generator;

/// How often the suites resample.
pub const RESAMPLES: usize = 2_000;

/// 95 % intervals. `None` where the figure itself is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// Of the accuracy.
    pub accuracy: [f64; 2],
    /// Of the precision.
    pub precision: [f64; 2],
    /// Of the recall.
    pub recall: [f64; 2],
    /// Of F1.
    pub f1: [f64; 2],
    /// Of the area under the ROC curve.
    pub auroc: Option<[f64; 2]>,
    /// Of the average precision.
    pub average_precision: Option<[f64; 2]>,
}

/// The intervals of the mean over `runs`: scores of the same rows, so their labels are those of the first.
///
/// `None` without runs, when their rows differ, or without resamples.
pub fn intervals(runs: &[Scored<'_>], resamples: usize, seed: u64) -> Option<Intervals> {
    let labels = runs.first()?.labels();
    if resamples == 0 || runs.iter().any(|run| run.labels() != labels) {
        return None;
    }
    let classes = [false, true]
        .map(|class| (0..labels.len()).filter(|row| labels[*row] == class).collect::<Vec<usize>>());
    let mut generator = Generator::new(seed);
    let mut drawn: Vec<Vec<Measures>> = Vec::with_capacity(resamples);
    let mut times = vec![0u32; labels.len()];
    for _ in 0..resamples {
        times.fill(0);
        for rows in &classes {
            for _ in 0..rows.len() {
                times[rows[index_below(&mut generator, rows.len())]] += 1;
            }
        }
        drawn.push(runs.iter().map(|run| run.weighted(&times)).collect());
    }
    Some(Intervals {
        accuracy: interval(&drawn, |found| Some(found.confusion.accuracy()))?,
        precision: interval(&drawn, |found| Some(found.confusion.precision()))?,
        recall: interval(&drawn, |found| Some(found.confusion.recall()))?,
        f1: interval(&drawn, |found| Some(found.confusion.f1()))?,
        auroc: interval(&drawn, |found| found.auroc),
        average_precision: interval(&drawn, |found| found.average_precision),
    })
}

/// Between which values the mean of a figure over all runs is, in 95 of 100 draws.
fn interval(drawn: &[Vec<Measures>], figure: fn(&Measures) -> Option<f64>) -> Option<[f64; 2]> {
    let means: Option<Vec<f64>> = drawn
        .iter()
        .map(|runs| {
            let values: Option<Vec<f64>> = runs.iter().map(figure).collect();
            Some(values?.iter().sum::<f64>() / runs.len() as f64)
        })
        .collect();
    let means = means?;
    Some([percentile(&means, 2.5)?, percentile(&means, 97.5)?])
}

fn index_below(generator: &mut Generator, end: usize) -> usize {
    usize::try_from(generator.below(end as u64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 rows of each class whose scores overlap.
    fn overlapping() -> (Vec<f64>, Vec<bool>) {
        let mut generator = Generator::new(3);
        let mut score = |lift: f64| generator.below(1000) as f64 / 1500.0 + lift;
        let scores = (0..80).map(|row| score(if row % 2 == 0 { 0.3 } else { 0.0 })).collect();
        (scores, (0..80).map(|row| row % 2 == 0).collect())
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_it_holds_the_figure() {
        let (scores, labels) = overlapping();
        let run = Scored::new(&scores, &labels, 0.5).unwrap();
        let found = intervals(std::slice::from_ref(&run), 500, 1).unwrap();
        assert_eq!(Some(found), intervals(std::slice::from_ref(&run), 500, 1));
        assert_ne!(Some(found), intervals(std::slice::from_ref(&run), 500, 2));
        let measured = run.measures();
        let pairs = [
            (found.f1, measured.confusion.f1()),
            (found.recall, measured.confusion.recall()),
            (found.accuracy, measured.confusion.accuracy()),
            (found.auroc.unwrap(), measured.auroc.unwrap()),
        ];
        for ([low, high], value) in pairs {
            assert!(low < value && value < high, "{low} {value} {high}");
        }
    }

    #[test]
    fn an_interval_of_recall_agrees_with_the_binomial() {
        // 30 of 50 found: the standard error of the rate is 0.0693, the normal interval ±0.1358.
        let scores: Vec<f64> = (0..100).map(|row| f64::from(u8::from(row < 30))).collect();
        let labels: Vec<bool> = (0..100).map(|row| row < 50).collect();
        let run = Scored::new(&scores, &labels, 0.5).unwrap();
        let [low, high] = intervals(&[run], 4_000, 5).unwrap().recall;
        assert!((low - 0.464).abs() < 0.025 && (high - 0.736).abs() < 0.025, "{low} {high}");
    }

    #[test]
    fn runs_are_averaged_on_the_same_rows() {
        let (scores, labels) = overlapping();
        let run = Scored::new(&scores, &labels, 0.5).unwrap();
        let twice = intervals(&[run.clone(), run.clone()], 300, 1);
        assert_eq!(twice, intervals(&[run], 300, 1));
    }

    #[test]
    fn one_class_or_no_run_has_no_area() {
        let run = Scored::new(&[0.1, 0.9], &[true, true], 0.5).unwrap();
        let found = intervals(&[run], 50, 1).unwrap();
        assert_eq!(found.auroc, None);
        assert_eq!(intervals(&[], 50, 1), None);
    }
}
