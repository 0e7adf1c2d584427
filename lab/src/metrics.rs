//! Figures over scores and labels, as scikit-learn computes them.
//!
//! A row is flagged from the threshold on (`score >= threshold`). Where a quotient has no denominator
//! it is 0, which is scikit-learn's `zero_division=0`; what needs both classes is `None` without them.

use serde::{Deserialize, Serialize};

/// How the flagged rows fall on the labels. Counts of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// Injections that were flagged.
    pub true_positives: u64,
    /// Ordinary rows that were not.
    pub true_negatives: u64,
    /// Ordinary rows that were flagged.
    pub false_positives: u64,
    /// Injections that were not.
    pub false_negatives: u64,
}

impl Confusion {
    /// Counts `labels` against `scores` at `threshold`; the shorter of the two ends it.
    pub fn at(threshold: f64, scores: &[f64], labels: &[bool]) -> Self {
        let mut found = Self::default();
        for (score, label) in scores.iter().zip(labels) {
            found.add(*score >= threshold, *label, 1);
        }
        found
    }

    const fn add(&mut self, flagged: bool, label: bool, rows: u64) {
        match (flagged, label) {
            (true, true) => self.true_positives += rows,
            (true, false) => self.false_positives += rows,
            (false, true) => self.false_negatives += rows,
            (false, false) => self.true_negatives += rows,
        }
    }

    /// Rows with label 1.
    pub const fn positives(&self) -> u64 {
        self.true_positives + self.false_negatives
    }

    /// Rows with label 0.
    pub const fn negatives(&self) -> u64 {
        self.true_negatives + self.false_positives
    }

    /// Rows judged rightly, of all.
    pub fn accuracy(&self) -> f64 {
        let right = self.true_positives + self.true_negatives;
        quotient(right, self.positives() + self.negatives())
    }

    /// Injections among the flagged.
    pub fn precision(&self) -> f64 {
        quotient(self.true_positives, self.true_positives + self.false_positives)
    }

    /// Flagged among the injections.
    pub fn recall(&self) -> f64 {
        quotient(self.true_positives, self.positives())
    }

    /// Flagged among the ordinary rows.
    pub fn false_positive_rate(&self) -> f64 {
        quotient(self.false_positives, self.negatives())
    }

    /// The harmonic mean of precision and recall, as `2·TP / (2·TP + FP + FN)`.
    pub fn f1(&self) -> f64 {
        let twice = 2 * self.true_positives;
        quotient(twice, twice + self.false_positives + self.false_negatives)
    }
}

fn quotient(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Why scores cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// One score a row.
    #[error("{scores} scores for {labels} rows; a detector gives one score a row")]
    Lengths {
        /// Scores given.
        scores: usize,
        /// Labels given.
        labels: usize,
    },
    /// A score has no place in an order.
    #[error("the score of row {row} is not a number")]
    NotANumber {
        /// The row, from 0.
        row: usize,
    },
    /// Nothing to measure.
    #[error("there are no rows to measure")]
    Empty,
}

/// Scores beside their labels, in the order of the scores: what is measured, and measured again on resamples.
#[derive(Debug, Clone)]
pub struct Scored<'a> {
    labels: &'a [bool],
    /// Rows that share a score, from the highest score down.
    ties: Vec<Tie>,
}

#[derive(Debug, Clone)]
struct Tie {
    score: f64,
    flagged: bool,
    rows: Vec<usize>,
}

/// What [`Scored`] says about its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures {
    /// At the threshold.
    pub confusion: Confusion,
    /// Area under the ROC curve, ties counted half. `None` with one class only.
    pub auroc: Option<f64>,
    /// Mean precision over the steps of recall, without interpolation. `None` without a positive row.
    pub average_precision: Option<f64>,
}

/// One point of a ROC curve: both rates when everything from `threshold` on is flagged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RocPoint {
    /// The score; infinite at the start, where nothing is flagged.
    pub threshold: f64,
    /// Flagged among the ordinary rows.
    pub false_positive_rate: f64,
    /// Flagged among the injections.
    pub recall: f64,
}

impl<'a> Scored<'a> {
    /// Orders `scores` (any real number, higher is more suspicious) beside `labels`.
    ///
    /// # Errors
    /// [`MetricError`] when there is not one number a row, or no row.
    pub fn new(scores: &[f64], labels: &'a [bool], threshold: f64) -> Result<Self, MetricError> {
        if scores.len() != labels.len() {
            return Err(MetricError::Lengths { scores: scores.len(), labels: labels.len() });
        }
        if scores.is_empty() {
            return Err(MetricError::Empty);
        }
        if let Some(row) = scores.iter().position(|score| score.is_nan()) {
            return Err(MetricError::NotANumber { row });
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut ties: Vec<Tie> = Vec::new();
        for row in order {
            let score = scores[row];
            match ties.last_mut() {
                // `==` and not the total order: -0 and 0 are one score.
                Some(tie) if tie.score == score => tie.rows.push(row),
                _ => ties.push(Tie { score, flagged: score >= threshold, rows: vec![row] }),
            }
        }
        Ok(Self { labels, ties })
    }

    /// How many rows.
    pub const fn rows(&self) -> usize {
        self.labels.len()
    }

    /// The labels, in row order.
    pub const fn labels(&self) -> &'a [bool] {
        self.labels
    }

    /// Measures every row once.
    pub fn measures(&self) -> Measures {
        self.weighted(&vec![1; self.labels.len()])
    }

    /// Measures row `i` as if it stood there `times[i]` times. `times` has one entry a row.
    pub fn weighted(&self, times: &[u32]) -> Measures {
        let mut confusion = Confusion::default();
        // Twice the area in units of one pair, so that a tie's half stays a whole number.
        let (mut area, mut precision_steps) = (0u64, 0.0);
        let (mut positives, mut negatives) = (0u64, 0u64);
        for tie in &self.ties {
            let (mut hits, mut misses) = (0u64, 0u64);
            for row in &tie.rows {
                let rows = u64::from(times[*row]);
                if self.labels[*row] { hits += rows } else { misses += rows }
            }
            area += misses * (2 * positives + hits);
            positives += hits;
            negatives += misses;
            precision_steps += hits as f64 * quotient(positives, positives + negatives);
            confusion.add(tie.flagged, true, hits);
            confusion.add(tie.flagged, false, misses);
        }
        let pairs = positives * negatives;
        Measures {
            confusion,
            auroc: (pairs > 0).then(|| quotient(area, 2 * pairs)),
            average_precision: (positives > 0).then(|| precision_steps / positives as f64),
        }
    }

    /// The ROC curve from (0, 0) to (1, 1), one point a distinct score. `None` with one class only.
    pub fn roc(&self) -> Option<Vec<RocPoint>> {
        let all = self.measures().confusion;
        if all.positives() == 0 || all.negatives() == 0 {
            return None;
        }
        let start = RocPoint { threshold: f64::INFINITY, false_positive_rate: 0.0, recall: 0.0 };
        let (mut points, mut hits, mut misses) = (vec![start], 0, 0);
        for tie in &self.ties {
            let found = tie.rows.iter().filter(|row| self.labels[**row]).count() as u64;
            hits += found;
            misses += tie.rows.len() as u64 - found;
            points.push(RocPoint {
                threshold: tie.score,
                false_positive_rate: quotient(misses, all.negatives()),
                recall: quotient(hits, all.positives()),
            });
        }
        Some(points)
    }

    /// The highest recall of any threshold that flags at most `rate` of these same ordinary rows.
    ///
    /// It looks at the labels to choose, so it describes a curve and is no operating point; one comes
    /// from other rows by [`threshold_at_false_positive_rate`].
    pub fn recall_at_false_positive_rate(&self, rate: f64) -> Option<f64> {
        self.roc()?
            .iter()
            .filter(|point: &&RocPoint| point.false_positive_rate <= rate)
            .map(|point| point.recall)
            .reduce(f64::max)
    }
}

/// The area under the ROC curve: the share of (injection, ordinary) pairs in the right order, ties half.
///
/// `None` with one class only, with a score that is no number, or when the lengths differ.
pub fn auroc(scores: &[f64], labels: &[bool]) -> Option<f64> {
    Scored::new(scores, labels, f64::INFINITY).ok()?.measures().auroc
}

/// The lowest threshold that flags at most `rate` (in [0, 1]) of `ordinary` scores.
///
/// `None` without scores, or with one that is no number. With fewer than `1 / rate` scores it lies
/// just above the highest: nothing smaller can be told from them.
pub fn threshold_at_false_positive_rate(ordinary: &[f64], rate: f64) -> Option<f64> {
    if ordinary.is_empty() || ordinary.iter().any(|score| score.is_nan()) {
        return None;
    }
    let mut falling = ordinary.to_vec();
    falling.sort_by(|a, b| b.total_cmp(a));
    let total = falling.len() as f64;
    let allowed = (1..=falling.len()).take_while(|count| *count as f64 / total <= rate).count();
    // The first score that must stay unflagged; when all may be flagged, the lowest is the threshold.
    match falling.get(allowed) {
        Some(kept) => Some(kept.next_up()),
        None => falling.last().copied(),
    }
}

/// Rows whose scores fall into one part of [0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Where it begins.
    pub low: f64,
    /// Where it ends; the last one includes its end.
    pub high: f64,
    /// Rows in it.
    pub rows: u64,
    /// Their mean score; 0 without rows.
    pub mean_score: f64,
    /// Injections among them; 0 without rows.
    pub positive_rate: f64,
}

/// How far scores are probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct Reliability {
    /// Equal parts of [0, 1], in order.
    pub bins: Vec<Bin>,
    /// The mean distance of score and rate over the bins, weighted by rows.
    pub expected_calibration_error: f64,
}

/// Compares scores in [0, 1] with how often they were right, in `bins` equal parts.
///
/// `None` when a score lies outside [0, 1], the lengths differ, or there is no row or no bin.
///
/// Source: Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", 2017, eq. 3.
pub fn reliability(scores: &[f64], labels: &[bool], bins: usize) -> Option<Reliability> {
    let outside = scores.iter().any(|score| !(0.0..=1.0).contains(score));
    if outside || scores.len() != labels.len() || scores.is_empty() || bins == 0 {
        return None;
    }
    let edges: Vec<f64> = (0..=bins).map(|at| at as f64 / bins as f64).collect();
    let mut sums = vec![(0u64, 0.0, 0u64); bins];
    for (score, label) in scores.iter().zip(labels) {
        let at = (1..bins).take_while(|next| *score >= edges[*next]).count();
        let (rows, sum, positives) = &mut sums[at];
        *rows += 1;
        *sum += score;
        *positives += u64::from(*label);
    }
    let bins: Vec<Bin> = sums
        .into_iter()
        .zip(edges.windows(2))
        .map(|((rows, sum, positives), edges)| Bin {
            low: edges[0],
            high: edges[1],
            rows,
            mean_score: if rows == 0 { 0.0 } else { sum / rows as f64 },
            positive_rate: quotient(positives, rows),
        })
        .collect();
    let expected_calibration_error = bins
        .iter()
        .map(|bin: &Bin| bin.rows as f64 * (bin.mean_score - bin.positive_rate).abs())
        .sum::<f64>()
        / scores.len() as f64;
    Some(Reliability { bins, expected_calibration_error })
}

/// The value below which `percent` (0–100) of `values` lie, interpolated between neighbours.
///
/// `None` without values or with one that is no number. numpy's default method, `linear`.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut rising = values.to_vec();
    rising.sort_by(f64::total_cmp);
    let place = (percent / 100.0).clamp(0.0, 1.0) * (rising.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in 0..len")]
    let below = place.floor() as usize;
    let low = rising[below];
    let high = rising.get(below + 1).copied().unwrap_or(low);
    Some(low + (high - low) * place.fract())
}

/// The mean, and the standard deviation of a sample (`n - 1`); 0 for one value. `None` without values.
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = if values.len() < 2 { 0.0 } else { (squares / (count - 1.0)).sqrt() };
    Some((mean, deviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_at_the_threshold_is_flagged() {
        let found = Confusion::at(0.5, &[0.5, 0.5, 0.4, 0.4], &[true, false, true, false]);
        let counts = [found.true_positives, found.true_negatives];
        assert_eq!((counts, found.false_positives, found.false_negatives), ([1, 1], 1, 1));
    }

    #[test]
    fn a_quotient_without_a_denominator_is_zero() {
        let nothing_flagged = Confusion::at(1.0, &[0.0, 0.0], &[true, false]);
        assert_eq!((nothing_flagged.precision(), nothing_flagged.f1()), (0.0, 0.0));
        let no_positives = Confusion::at(0.5, &[0.0], &[false]);
        assert_eq!((no_positives.recall(), no_positives.f1()), (0.0, 0.0));
        assert_eq!(Confusion::default().accuracy(), 0.0);
    }

    #[test]
    fn one_class_has_no_area_and_what_is_no_number_has_no_rank() {
        assert_eq!(auroc(&[0.1, 0.2], &[true, true]), None);
        assert_eq!(auroc(&[f64::NAN, 0.2], &[true, false]), None);
        assert_eq!(auroc(&[0.1], &[true, false]), None);
        assert_eq!(auroc(&[0.0, -0.0], &[true, false]), Some(0.5));
        let error = Scored::new(&[0.0, f64::NAN], &[true, false], 0.5).unwrap_err();
        assert_eq!(error, MetricError::NotANumber { row: 1 });
        assert_eq!(Scored::new(&[], &[], 0.5).unwrap_err(), MetricError::Empty);
    }

    #[test]
    fn a_threshold_never_flags_more_than_it_may() {
        let scores: Vec<f64> = (0..200).map(|n| f64::from(n / 2) / 100.0).collect();
        for rate in [0.0, 0.004, 0.005, 0.01, 0.05, 0.5, 0.99, 1.0] {
            let threshold = threshold_at_false_positive_rate(&scores, rate).unwrap();
            let flagged = scores.iter().filter(|score| **score >= threshold).count();
            assert!(flagged as f64 / 200.0 <= rate, "{flagged} at {rate}");
            // One step lower would flag too many: the scores stand in pairs.
            let lower = scores.iter().filter(|score| **score < threshold).copied();
            if let Some(next) = lower.reduce(f64::max) {
                let more = scores.iter().filter(|score| **score >= next).count();
                assert!(more as f64 / 200.0 > rate, "{more} at {rate}");
            }
        }
        assert_eq!(threshold_at_false_positive_rate(&[], 0.1), None);
    }

    #[test]
    fn repeating_rows_is_the_same_as_weighing_them() {
        let (scores, labels) = ([0.9, 0.4, 0.4, 0.1], [true, false, true, false]);
        let once = Scored::new(&scores, &labels, 0.4).unwrap();
        let long = [0.9, 0.9, 0.9, 0.4, 0.4, 0.1];
        let long_labels = [true, true, true, false, true, false];
        let spelt_out = Scored::new(&long, &long_labels, 0.4).unwrap();
        assert_eq!(once.weighted(&[3, 1, 1, 1]), spelt_out.measures());
        assert_ne!(once.measures(), spelt_out.measures());
    }

    #[test]
    fn a_percentile_lies_between_its_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let cases = [(0.0, 1.0), (50.0, 2.5), (75.0, 3.25), (100.0, 4.0), (150.0, 4.0)];
        for (percent, expected) in cases {
            assert_eq!(percentile(&values, percent), Some(expected), "{percent}");
        }
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), Some((2.0, 2f64.sqrt())));
        assert_eq!(mean_and_deviation(&[7.0]), Some((7.0, 0.0)));
    }
}
