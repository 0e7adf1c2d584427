//! Trains an n-gram model on one JSON Lines file and measures it on another: `{"text": …, "label": 0 or 1}` a line.
//!
//! `cargo run --release -p custody-detect --example train_ngram -- TRAIN DEV [MAX_FEATURES] [MIN] [MAX] [OUT]`

use std::error::Error;
use std::fs;

use custody_detect::labels::read_labels;
use custody_detect::measure::{Confusion, auroc, recall_at_fpr};
use custody_detect::ngram::{Lengths, Options, train};

#[derive(serde::Deserialize)]
struct Row {
    text: String,
    label: Option<f64>,
}

struct Rows {
    texts: Vec<String>,
    labels: Vec<bool>,
}

impl Rows {
    fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let rows = fs::read_to_string(path)?;
        let rows: Vec<Row> = rows.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let labels = read_labels(&rows.iter().map(|row| row.label).collect::<Vec<_>>())?;
        Ok(Self { texts: rows.into_iter().map(|row| row.text).collect(), labels })
    }

    fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [train_file, dev_file, rest @ ..] = arguments.as_slice() else {
        return Err("usage: train_ngram TRAIN DEV [MAX_FEATURES] [MIN] [MAX] [OUT]".into());
    };
    let number = |at: usize, default: usize| rest.get(at).map_or(Ok(default), |text| text.parse());
    let options = Options {
        max_features: number(0, 15_000)?,
        lengths: Lengths { min: number(1, 1)?, max: number(2, 4)? },
        ..Options::default()
    };
    let (rows, dev) = (Rows::read(train_file)?, Rows::read(dev_file)?);
    let model = train(&rows.texts(), &rows.labels, None, &options)?;
    let scores: Vec<f64> = dev.texts.iter().map(|text| model.probability(text)).collect();
    println!("n-grams {}, intercept {:.6}", model.feature_count(), model.intercept());
    println!("at 0.5: {:?}", Confusion::at(0.5, &scores, &dev.labels)?);
    println!("auroc {:.6}", auroc(&scores, &dev.labels)?);
    for rate in [0.01, 0.05] {
        let point = recall_at_fpr(rate, &scores, &dev.labels)?;
        println!(
            "recall {:.4} at {rate} false positives, threshold {:.6}",
            point.recall, point.threshold
        );
    }
    if let Some(out) = rest.get(3) {
        fs::write(out, model.to_bytes())?;
    }
    Ok(())
}
