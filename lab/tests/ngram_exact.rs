//! Detector D2, trained here on the published data and splits, against the published result files.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use custody_lab::detection::detector::{Recipe, Task};
use custody_lab::detection::methods::ngrams::NgramRecipe;
use custody_lab::metrics::{Confusion, Scored};
use custody_lab::recipe::corpus::Held;
use custody_lab::sets::rows::split;

/// Trains on one split and compares with its published counts and area.
fn reproduces(data_set: &str, published: Confusion, area: f64) {
    let Some(data) = common::data() else { return };
    let split = split(&data, data_set).unwrap();
    let task = Task { data_set, train: &split.train, held: &Held::default(), seed: 1 };
    let detector = NgramRecipe.train(task).unwrap();
    let texts: Vec<&str> = split.test.iter().map(|row| row.text.as_str()).collect();
    let labels: Vec<bool> = split.test.iter().map(|row| row.label).collect();
    let scores = detector.scores(&texts).unwrap();
    let found = Scored::new(&scores, &labels, detector.threshold()).unwrap().measures();
    assert_eq!(found.confusion, published);
    let measured = found.auroc.unwrap();
    assert!((measured - area).abs() < 0.001, "area {measured} against the published {area}");
}

const fn counts(tp: u64, tn: u64, fp: u64, fn_: u64) -> Confusion {
    Confusion { true_positives: tp, true_negatives: tn, false_positives: fp, false_negatives: fn_ }
}

#[test]
fn d2_gives_the_published_counts_on_deepset() {
    reproduces("deepset", counts(50, 55, 1, 10), 0.974_405);
}

#[test]
fn d2_gives_the_published_counts_on_jackhhao() {
    reproduces("jackhhao", counts(131, 122, 1, 8), 0.995_145);
}

#[test]
fn d2_gives_the_published_counts_on_the_combined_corpus() {
    reproduces("combined", counts(182, 439, 9, 20), 0.982_585);
}
