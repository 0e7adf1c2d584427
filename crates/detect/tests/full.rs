//! The full detector's scores are the same on every machine, to a thousandth.
//!
//! `golden/full.jsonl` holds texts and what `custody screen --json --detector full` said of them.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use custody_detect::TransformerFiles;
use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use custody_models::{Encoder, Tokenizer};

const TOLERANCE: f64 = 1e-3;

#[derive(serde::Deserialize)]
struct Golden {
    text: String,
    channel: String,
    stage: String,
    score: f64,
}

#[test]
fn scores_are_those_of_the_machine_that_made_the_weights() {
    let Some(folder) = base_model() else { return };
    let encoder = Encoder::open(&folder).unwrap();
    let tokenizer = Arc::new(Tokenizer::open(&folder.join("tokenizer.json")).unwrap());
    let full = Screener::full(TransformerFiles::built_in().open(&encoder, tokenizer).unwrap());
    let mut by_transformer = 0;
    for line in include_str!("golden/full.jsonl").lines() {
        let golden: Golden = serde_json::from_str(line).unwrap();
        let kind = if golden.channel == "user" { TextKind::Prompt } else { TextKind::Content };
        let verdict = full.screen(&golden.text, kind).unwrap();
        assert!((verdict.score - golden.score).abs() < TOLERANCE, "{} {line}", verdict.score);
        assert_eq!(verdict.stage.name(), golden.stage, "{line}");
        by_transformer += usize::from(golden.stage == "transformer");
    }
    assert!(by_transformer >= 10, "{by_transformer} texts reached the transformer");
}

/// The folder of all-MiniLM-L6-v2 under `CUSTODY_MODELS`; without it, the calling test is recorded as skipped.
fn base_model() -> Option<PathBuf> {
    let models = std::env::var_os("CUSTODY_MODELS").map(PathBuf::from);
    let folder = models.map(|models| models.join("all-minilm-l6-v2")).filter(|it| it.is_dir());
    if folder.is_none()
        && let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS")
    {
        let mut list = std::fs::File::options().append(true).open(list).unwrap();
        let name = "scores_are_those_of_the_machine_that_made_the_weights";
        writeln!(list, "SKIPPED: {name}: the weights of all-minilm-l6-v2 are not here").unwrap();
    }
    folder
}
