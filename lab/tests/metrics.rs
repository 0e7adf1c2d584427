//! Our figures are those of scikit-learn, on scores with ties.
#![allow(clippy::unwrap_used, reason = "tests")]

use custody_lab::metrics::{Confusion, Scored, auroc, percentile, reliability};
use serde::Deserialize;

/// One case of `golden/metrics.py`.
#[derive(Deserialize)]
struct Golden {
    name: String,
    scores: Vec<f64>,
    labels: Vec<bool>,
    threshold: f64,
    confusion: [u64; 4],
    accuracy: f64,
    precision: f64,
    recall: f64,
    f1: f64,
    auroc: Option<f64>,
    average_precision: Option<f64>,
    roc: Option<[Vec<f64>; 2]>,
    recall_at_5pct: Option<f64>,
    calibration_error: f64,
    percentiles: Vec<(f64, f64)>,
}

fn golden() -> Vec<Golden> {
    let cases: Vec<Golden> = serde_json::from_str(include_str!("golden/metrics.json")).unwrap();
    assert_eq!(cases.len(), 5);
    cases
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 1e-12, "{what}: {found}, scikit-learn {expected}");
}

#[test]
fn counts_and_rates_are_those_of_scikit_learn() {
    for case in golden() {
        let found = Confusion::at(case.threshold, &case.scores, &case.labels);
        let [tp, tn, fp, fn_] = case.confusion;
        let expected = Confusion {
            true_positives: tp,
            true_negatives: tn,
            false_positives: fp,
            false_negatives: fn_,
        };
        assert_eq!(found, expected, "{}", case.name);
        near(found.accuracy(), case.accuracy, &case.name);
        near(found.precision(), case.precision, &case.name);
        near(found.recall(), case.recall, &case.name);
        near(found.f1(), case.f1, &case.name);
        let scored = Scored::new(&case.scores, &case.labels, case.threshold).unwrap();
        assert_eq!(scored.measures().confusion, expected, "{}", case.name);
    }
}

#[test]
fn areas_and_curves_are_those_of_scikit_learn() {
    for case in golden() {
        let scored = Scored::new(&case.scores, &case.labels, case.threshold).unwrap();
        let Some([fpr, recall]) = &case.roc else {
            assert_eq!(auroc(&case.scores, &case.labels), None, "{}", case.name);
            assert_eq!(scored.roc(), None, "{}", case.name);
            continue;
        };
        let found = scored.measures();
        near(found.auroc.unwrap(), case.auroc.unwrap(), &case.name);
        near(found.average_precision.unwrap(), case.average_precision.unwrap(), &case.name);
        let at_5pct = scored.recall_at_false_positive_rate(0.05).unwrap();
        near(at_5pct, case.recall_at_5pct.unwrap(), &case.name);
        let curve = scored.roc().unwrap();
        assert_eq!(curve.len(), fpr.len(), "{}", case.name);
        for (at, point) in curve.iter().enumerate() {
            near(point.false_positive_rate, fpr[at], &case.name);
            near(point.recall, recall[at], &case.name);
        }
    }
}

#[test]
fn calibration_and_percentiles_are_those_of_numpy() {
    for case in golden() {
        let found = reliability(&case.scores, &case.labels, 10).unwrap();
        near(found.expected_calibration_error, case.calibration_error, &case.name);
        let rows: u64 = found.bins.iter().map(|bin| bin.rows).sum();
        assert_eq!(rows, case.scores.len() as u64);
        for (percent, expected) in &case.percentiles {
            near(percentile(&case.scores, *percent).unwrap(), *expected, &case.name);
        }
    }
}

#[test]
fn scores_that_are_no_probabilities_have_no_reliability() {
    assert_eq!(reliability(&[1.5], &[true], 10), None);
    assert_eq!(reliability(&[f64::NAN], &[true], 10), None);
    assert_eq!(reliability(&[], &[], 10), None);
}
