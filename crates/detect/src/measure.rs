//! How good scores are: counts at a threshold, the ROC curve and the area under it.

/// Scores that no measure can be taken of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// A score or a label is missing.
    #[error("{scores} scores for {labels} labels; give one score for each row")]
    Lengths {
        /// Scores given.
        scores: usize,
        /// Labels given.
        labels: usize,
    },
    /// A score is NaN, which has no place in an order.
    #[error("the score of row {row} is not a number; score that row again")]
    NotANumber {
        /// Row, from 0.
        row: usize,
    },
    /// The measure compares positives with negatives, and one of them is missing.
    #[error("the rows are all of one class; add rows of the other")]
    OneClass,
}

/// What a threshold got right and wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Confusion {
    /// Attacks that were flagged.
    pub tp: u64,
    /// Benign rows that passed.
    pub tn: u64,
    /// Benign rows that were flagged.
    pub fp: u64,
    /// Attacks that passed; `fn` in JSON.
    #[serde(rename = "fn")]
    pub fn_: u64,
}

impl Confusion {
    /// Counts the rows whose score is at least `threshold` as flagged. A NaN score is not flagged.
    ///
    /// # Errors
    /// [`MeasureError::Lengths`].
    pub fn at(threshold: f64, scores: &[f64], labels: &[bool]) -> Result<Self, MeasureError> {
        same_length(scores, labels)?;
        let mut counts = Self::default();
        for (&score, &label) in scores.iter().zip(labels) {
            match (label, score >= threshold) {
                (true, true) => counts.tp += 1,
                (true, false) => counts.fn_ += 1,
                (false, true) => counts.fp += 1,
                (false, false) => counts.tn += 1,
            }
        }
        Ok(counts)
    }

    /// Right answers among all; `None` without rows.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.tp + self.tn, self.tp + self.tn + self.fp + self.fn_)
    }

    /// Attacks among what was flagged; `None` if nothing was.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        ratio(self.tp, self.tp + self.fp)
    }

    /// Flagged among the attacks; `None` without attacks.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        ratio(self.tp, self.tp + self.fn_)
    }

    /// Flagged among the benign rows; `None` without benign rows.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        ratio(self.fp, self.fp + self.tn)
    }

    /// Harmonic mean of precision and recall; `None` if there was neither an attack nor a flag.
    #[must_use]
    pub fn f1(&self) -> Option<f64> {
        ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn_)
    }
}

/// One corner of the ROC curve.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct RocPoint {
    /// Rows with at least this score are flagged; infinite at the first corner, where nothing is.
    pub threshold: f64,
    /// Flagged among the benign rows, in `[0, 1]`.
    pub false_positive_rate: f64,
    /// Flagged among the attacks, in `[0, 1]`.
    pub recall: f64,
}

/// The ROC curve: one point for each distinct score from the highest down, after the corner where nothing is flagged.
///
/// # Errors
/// [`MeasureError`].
pub fn roc(scores: &[f64], labels: &[bool]) -> Result<Vec<RocPoint>, MeasureError> {
    let groups = groups_of_equal_scores(scores, labels)?;
    let positives: u64 = groups.iter().map(|group| group.positives).sum();
    let negatives: u64 = groups.iter().map(|group| group.negatives).sum();
    let rate = |count, of| ratio(count, of).ok_or(MeasureError::OneClass);
    let mut points = Vec::with_capacity(groups.len() + 1);
    points.push(RocPoint { threshold: f64::INFINITY, false_positive_rate: 0.0, recall: 0.0 });
    let (mut tp, mut fp) = (0, 0);
    for group in groups {
        tp += group.positives;
        fp += group.negatives;
        points.push(RocPoint {
            threshold: group.score,
            false_positive_rate: rate(fp, negatives)?,
            recall: rate(tp, positives)?,
        });
    }
    Ok(points)
}

/// The area under the ROC curve: how often an attack outscores a benign row, a tie counting half. Equal to
/// scikit-learn's `roc_auc_score`.
///
/// # Errors
/// [`MeasureError`].
pub fn auroc(scores: &[f64], labels: &[bool]) -> Result<f64, MeasureError> {
    // Twice the number of pairs in the right order, so that half a pair stays a whole number and the sum is exact.
    let (mut twice, mut positives, mut negatives) = (0_u128, 0_u128, 0_u128);
    for group in groups_of_equal_scores(scores, labels)? {
        let (above, here) = (u128::from(group.positives), u128::from(group.negatives));
        twice += here * (2 * positives + above);
        positives += above;
        negatives += here;
    }
    if positives == 0 || negatives == 0 {
        return Err(MeasureError::OneClass);
    }
    Ok(as_float(twice) / as_float(2 * positives * negatives))
}

/// The best recall among the thresholds that flag at most the share `max_fpr` of the benign rows.
///
/// # Errors
/// [`MeasureError`].
pub fn recall_at_fpr(
    max_fpr: f64,
    scores: &[f64],
    labels: &[bool],
) -> Result<RocPoint, MeasureError> {
    let points = roc(scores, labels)?;
    // The curve only rises, so the last admissible point has the best recall.
    let last = points.into_iter().take_while(|point| point.false_positive_rate <= max_fpr).last();
    last.ok_or(MeasureError::OneClass)
}

/// Rows that share one score.
struct Group {
    score: f64,
    positives: u64,
    negatives: u64,
}

/// The rows by score, highest first.
fn groups_of_equal_scores(scores: &[f64], labels: &[bool]) -> Result<Vec<Group>, MeasureError> {
    same_length(scores, labels)?;
    if let Some(row) = scores.iter().position(|score| score.is_nan()) {
        return Err(MeasureError::NotANumber { row });
    }
    let mut rows: Vec<(f64, bool)> = scores.iter().copied().zip(labels.iter().copied()).collect();
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut groups: Vec<Group> = Vec::new();
    for (score, label) in rows {
        // Compared as numbers: 0 and -0 are one score, though `total_cmp` orders them.
        if groups.last().is_none_or(|group| group.score != score) {
            groups.push(Group { score, positives: 0, negatives: 0 });
        }
        if let Some(group) = groups.last_mut() {
            group.positives += u64::from(label);
            group.negatives += u64::from(!label);
        }
    }
    Ok(groups)
}

fn same_length(scores: &[f64], labels: &[bool]) -> Result<(), MeasureError> {
    if scores.len() == labels.len() {
        Ok(())
    } else {
        Err(MeasureError::Lengths { scores: scores.len(), labels: labels.len() })
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| as_float(u128::from(part)) / as_float(u128::from(whole)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of pairs of rows; beyond 2^53 the last bit does not matter"
)]
fn as_float(count: u128) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f64; 8] = [0.9, 0.8, 0.8, 0.7, 0.5, 0.5, 0.5, 0.1];
    const LABELS: [bool; 8] = [true, true, false, true, false, true, false, false];

    #[test]
    fn a_tie_between_an_attack_and_a_benign_row_counts_half() {
        // 16 pairs: 4 + 3.5 + 3 + 2 in the right order, ties counted half.
        assert_eq!(auroc(&SCORES, &LABELS), Ok(12.5 / 16.0));
        assert_eq!(auroc(&[0.3; 4], &[true, false, true, false]), Ok(0.5));
        assert_eq!(auroc(&[0.0, -0.0], &[true, false]), Ok(0.5));
    }

    #[test]
    fn the_area_is_that_under_the_points_of_the_curve() {
        let points = roc(&SCORES, &LABELS).unwrap();
        let width = |pair: &[RocPoint]| pair[1].false_positive_rate - pair[0].false_positive_rate;
        let area: f64 =
            points.windows(2).map(|p| width(p) * (p[0].recall + p[1].recall) / 2.0).sum();
        assert!((area - auroc(&SCORES, &LABELS).unwrap()).abs() < 1e-15);
        assert_eq!(points.len(), 6, "a corner, and one for each of five distinct scores");
        assert_eq!(points[5].false_positive_rate, 1.0);
        assert_eq!(points[5].recall, 1.0);
    }

    #[test]
    fn counts_at_a_threshold_include_the_threshold() {
        let counts = Confusion::at(0.8, &SCORES, &LABELS).unwrap();
        assert_eq!(counts, Confusion { tp: 2, tn: 3, fp: 1, fn_: 2 });
        assert_eq!(counts.accuracy(), Some(5.0 / 8.0));
        assert_eq!(counts.precision(), Some(2.0 / 3.0));
        assert_eq!(counts.recall(), Some(0.5));
        assert_eq!(counts.f1(), Some(4.0 / 7.0));
        assert_eq!(counts.false_positive_rate(), Some(0.25));
        assert_eq!(Confusion::default().f1(), None);
    }

    #[test]
    fn recall_is_taken_where_the_false_positives_still_fit() {
        let point = recall_at_fpr(0.3, &SCORES, &LABELS).unwrap();
        assert_eq!((point.threshold, point.recall), (0.7, 0.75));
        let point = recall_at_fpr(0.0, &SCORES, &LABELS).unwrap();
        assert_eq!((point.threshold, point.recall), (0.9, 0.25));
    }

    #[test]
    fn scores_that_cannot_be_measured_are_refused() {
        assert_eq!(auroc(&[0.1], &[]), Err(MeasureError::Lengths { scores: 1, labels: 0 }));
        assert_eq!(
            auroc(&[0.1, f64::NAN], &[true, false]),
            Err(MeasureError::NotANumber { row: 1 })
        );
        assert_eq!(auroc(&[0.1, 0.2], &[true, true]), Err(MeasureError::OneClass));
        assert_eq!(auroc(&[], &[]), Err(MeasureError::OneClass));
        assert!(roc(&[0.1, 0.2], &[false, false]).is_err());
    }
}
