//! Fine-tunes a classifier on JSON Lines and saves it as an overlay.
//!
//! ```text
//! cargo run --release -p custody-models --features train --example fine_tune -- \
//!     --base FOLDER --train FILE [--dev FILE] [--out FILE] [--option NAME=VALUE]…
//! ```
//!
//! A line is `{"text": "…", "targets": [1, null, 0], "weight": 1}`; `weight` may be absent, `targets` may be
//! one number. The folder holds `config.json`, `model.safetensors` and `tokenizer.json`. Options are the fields
//! of `Options` (`epochs`, `batch`, `learning_rate`, `max_tokens`, `frozen_layers`, …). After every epoch the
//! loss and the area under the ROC curve on the dev file are printed per head; the epoch with the largest
//! mean area is saved.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a developer's tool: it stops with the reason"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use custody_models::train::{TrainOptions, TrainProgress, TrainingSample, fine_tune};
use custody_models::{Classifier, Encoder, EncoderClassifier, OverlayPrecision, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    text: String,
    targets: Targets,
    #[serde(default = "one")]
    weight: f32,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Targets {
    One(f32),
    Many(Vec<Option<f32>>),
}

fn one() -> f32 {
    1.0
}

impl Row {
    fn targets(&self) -> Vec<Option<f32>> {
        match &self.targets {
            Targets::One(target) => vec![Some(*target)],
            Targets::Many(targets) => targets.clone(),
        }
    }
}

struct Arguments {
    paths: BTreeMap<String, PathBuf>,
    options: TrainOptions,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { paths, mut options } = arguments()?;
    let folder = paths.get("base").ok_or("give --base FOLDER")?;
    let train = read(paths.get("train").ok_or("give --train FILE")?)?;
    let dev = paths.get("dev").map(read).transpose()?.unwrap_or_default();
    let base = Encoder::open(folder)?;
    let tokenizer = Arc::new(Tokenizer::open(&folder.join("tokenizer.json"))?);
    options.heads = train.first().map_or(1, |row| row.targets().len());
    let samples: Vec<TrainingSample<'_>> = train
        .iter()
        .map(|row| TrainingSample { text: &row.text, targets: row.targets(), weight: row.weight })
        .collect();
    println!("{} train, {} dev, {options:?}", train.len(), dev.len());

    let mut best: Option<(f64, EncoderClassifier)> = None;
    let last = fine_tune(&base, &tokenizer, &samples, &options, &mut |progress| {
        match progress {
            TrainProgress::Batch { done, total, loss, gradient_norm } => {
                if done % 20 == 0 || done == total {
                    print!("\r{done}/{total} loss {loss:.4} gradient {gradient_norm:.3}   ");
                    std::io::stdout().flush().unwrap();
                }
            }
            TrainProgress::Epoch { done, total, loss, classifier } => {
                println!("\nepoch {done}/{total}: train loss {loss:.4}");
                if !dev.is_empty() {
                    let area = evaluate(classifier, &dev);
                    if best.as_ref().is_none_or(|(most, _)| area > *most) {
                        best = Some((area, classifier.clone()));
                    }
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(out) = paths.get("out") {
        let best = best.map_or(last, |(_, classifier)| classifier);
        let overlay = best.overlay(&base, OverlayPrecision::Half)?;
        std::fs::write(out, &overlay)?;
        println!("saved {} bytes", overlay.len());
    }
    Ok(())
}

fn arguments() -> Result<Arguments, Box<dyn std::error::Error>> {
    let mut paths = BTreeMap::new();
    let mut options = serde_json::to_value(TrainOptions::default())?;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--base" | "--train" | "--dev" | "--out" => {
                paths.insert(word.trim_start_matches('-').to_owned(), PathBuf::from(value));
            }
            "--option" => {
                let (name, number) = value.split_once('=').ok_or("an option is NAME=VALUE")?;
                options[name] = serde_json::from_str(number)?;
            }
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(Arguments { paths, options: serde_json::from_value(options)? })
}

fn read(path: &PathBuf) -> Result<Vec<Row>, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}

/// Prints loss, area and accuracy per head; returns the mean area.
fn evaluate(classifier: &EncoderClassifier, rows: &[Row]) -> f64 {
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let logits = classifier.logits(&texts).unwrap();
    let mut sum = 0.0;
    for head in 0..classifier.heads() {
        let mut scored: Vec<(f32, f32)> = rows
            .iter()
            .zip(&logits)
            .filter_map(|(row, logits)| Some((logits[head], row.targets()[head]?)))
            .collect();
        let right =
            scored.iter().filter(|(logit, target)| (*logit > 0.0) == (*target >= 0.5)).count();
        let count = scored.len();
        let losses = scored.iter().map(|(logit, target)| {
            f64::from(logit.max(0.0) - logit * target + (-logit.abs()).exp().ln_1p())
        });
        let loss = losses.sum::<f64>() / count as f64;
        let area = area_under_curve(&mut scored);
        println!(
            "  head {head}: dev loss {loss:.4}, AUROC {area:.4}, accuracy {:.4}",
            right as f64 / count as f64
        );
        sum += area;
    }
    sum / classifier.heads() as f64
}

/// The share of (yes, no) pairs that the logits put in the right order; ties count half.
fn area_under_curve(scored: &mut [(f32, f32)]) -> f64 {
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut pairs) = (0.0, 0.0);
    for tied in scored.chunk_by(|a, b| a.0 == b.0) {
        let yes = tied.iter().filter(|(_, target)| *target >= 0.5).count() as f64;
        let no = tied.len() as f64 - yes;
        pairs += yes * (below + no / 2.0);
        below += no;
    }
    pairs / (below * (scored.len() as f64 - below))
}
