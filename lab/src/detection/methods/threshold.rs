//! Where a detector flags, chosen on rows of the training part.

use crate::metrics::Scored;
use crate::sets::Labelled;

/// The threshold with the highest F1 on `rows`, of several the one nearest to one half.
///
/// Candidates are one half and the midpoints between neighbouring scores.
pub(super) fn with_best_f1(scores: &[f64], rows: &[Labelled]) -> f64 {
    let labels: Vec<bool> = rows.iter().map(|row| row.label).collect();
    let mut rising = scores.to_vec();
    rising.sort_by(f64::total_cmp);
    rising.dedup();
    let between = rising.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
    let mut best = (f64::NEG_INFINITY, 0.5);
    for threshold in std::iter::once(0.5).chain(between) {
        let Ok(scored) = Scored::new(scores, &labels, threshold) else { continue };
        let f1 = scored.measures().confusion.f1();
        let nearer = (threshold - 0.5_f64).abs() < (best.1 - 0.5_f64).abs();
        if f1 > best.0 || (f1 >= best.0 && nearer) {
            best = (f1, threshold);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(labels: &[bool]) -> Vec<Labelled> {
        labels
            .iter()
            .map(|label: &bool| Labelled { id: String::new(), text: String::new(), label: *label })
            .collect()
    }

    #[test]
    fn the_threshold_has_the_best_f1_and_lies_nearest_to_one_half() {
        let rows = rows(&[false, false, true, true]);
        let cases = [
            ([0.1, 0.2, 0.8, 0.9], 0.5),
            ([0.1, 0.2, 0.3, 0.9], 0.25),
            ([0.6, 0.7, 0.8, 0.9], 0.75),
            ([0.5, 0.5, 0.5, 0.5], 0.5),
        ];
        for (scores, expected) in cases {
            let found = with_best_f1(&scores, &rows);
            assert!((found - expected).abs() < 1e-9, "{scores:?} gave {found}");
        }
    }
}
