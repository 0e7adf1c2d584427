//! Detector D2 against scikit-learn on texts of our own: which n-grams, which weights, which probabilities.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use custody_detect::logistic::{FitOptions, Rows, fit};
use custody_detect::ngram::{NgramLengths, NgramOptions, train};

/// `tests/golden/ngram.json`, written with scikit-learn. Where it leaves ties at the limit to chance, the n-grams
/// were chosen in ascending order.
#[derive(serde::Deserialize)]
struct Golden {
    texts: Vec<String>,
    labels: Vec<u8>,
    weights: Vec<f64>,
    probes: Vec<String>,
    cases: Vec<Case>,
    dense: Dense,
}

#[derive(serde::Deserialize)]
struct Case {
    min: usize,
    max: usize,
    max_features: usize,
    min_texts: usize,
    weights: Option<Vec<f64>>,
    ngrams: Vec<String>,
    idf: Vec<f64>,
    coefficients: Vec<f64>,
    intercept: f64,
    probabilities: Vec<f64>,
    first_row: Vec<(String, f64)>,
}

#[derive(serde::Deserialize)]
struct Dense {
    c: f64,
    columns: usize,
    values: Vec<f32>,
    coefficients: Vec<f64>,
    intercept: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/ngram.json")).unwrap()
}

fn labels(golden: &Golden) -> Vec<bool> {
    golden.labels.iter().map(|label| *label == 1).collect()
}

fn close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() < 1e-6, "{what}: {ours} against {theirs}");
}

#[test]
fn n_grams_weights_and_probabilities_are_those_of_scikit_learn() {
    let golden = golden();
    let texts: Vec<&str> = golden.texts.iter().map(String::as_str).collect();
    for case in &golden.cases {
        let options = NgramOptions {
            lengths: NgramLengths { min: case.min, max: case.max },
            max_features: case.max_features,
            min_texts: case.min_texts,
            ..NgramOptions::default()
        };
        let model = train(&texts, &labels(&golden), case.weights.as_deref(), &options).unwrap();
        assert!(
            model.features().map(|(ngram, ..)| ngram).eq(case.ngrams.iter().cloned()),
            "{options:?}"
        );
        for ((ngram, idf, coefficient), (their_idf, their_coefficient)) in
            model.features().zip(case.idf.iter().zip(&case.coefficients))
        {
            close(f64::from(idf), *their_idf, &ngram);
            close(f64::from(coefficient), *their_coefficient, &ngram);
        }
        close(model.intercept(), case.intercept, "intercept");
        for (probe, probability) in golden.probes.iter().zip(&case.probabilities) {
            close(model.probability(probe), *probability, probe);
        }
        let row = model.row(&golden.probes[0]);
        assert_eq!(row.len(), case.first_row.len());
        for ((ngram, value), (their_ngram, their_value)) in row.iter().zip(&case.first_row) {
            assert_eq!(ngram, their_ngram);
            close(*value, *their_value, ngram);
        }
    }
}

#[test]
fn a_regression_on_dense_rows_is_that_of_scikit_learn() {
    let golden = golden();
    let rows = Rows::Dense { values: &golden.dense.values, columns: golden.dense.columns };
    let options = FitOptions { c: golden.dense.c, ..FitOptions::default() };
    let fitted = fit(rows, &labels(&golden), Some(&golden.weights), &options).unwrap();
    for (ours, theirs) in fitted.weights.iter().zip(&golden.dense.coefficients) {
        close(*ours, *theirs, "a coefficient");
    }
    close(fitted.intercept, golden.dense.intercept, "intercept");
}
