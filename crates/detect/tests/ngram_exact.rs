//! Detector D2, trained here on the published data and splits, against the published result files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use custody_detect::measure::{Confusion, auroc};
use custody_detect::ngram::{Options, train};
use serde_json::Value;

/// The shared data; without it the test counts as skipped.
fn shared_data(test: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("CUSTODY_DATA").map_or_else(beside, PathBuf::from);
    if data.join("splits").is_dir() {
        return Some(data);
    }
    if let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS") {
        let mut list = fs::File::options().create(true).append(true).open(list).unwrap();
        writeln!(list, "SKIPPED: {test}: no shared data; set CUSTODY_DATA to its folder").unwrap();
    }
    None
}

/// Text and label of every row, by id.
type Corpus = BTreeMap<String, (String, bool)>;

fn corpus(data: &std::path::Path, files: &[&str]) -> Corpus {
    let mut rows = BTreeMap::new();
    for file in files {
        for line in fs::read_to_string(data.join(file)).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let (id, text) = (row["id"].as_str().unwrap(), row["text"].as_str().unwrap());
            rows.insert(id.to_owned(), (text.to_owned(), row["label"].as_i64() == Some(1)));
        }
    }
    rows
}

fn part<'a>(corpus: &'a Corpus, split: &Value, part: &str) -> (Vec<&'a str>, Vec<bool>) {
    let ids = split[part].as_array().unwrap().iter();
    ids.map(|id| &corpus[id.as_str().unwrap()]).map(|(text, label)| (text.as_str(), *label)).unzip()
}

/// Trains on one split and compares with its published counts and area.
fn reproduces(
    test: &str,
    name: &str,
    files: &[&str],
    max_features: usize,
    published: Confusion,
    area: f64,
) {
    let Some(data) = shared_data(test) else { return };
    let split: Value = serde_json::from_str(
        &fs::read_to_string(data.join(format!("splits/{name}.json"))).unwrap(),
    )
    .unwrap();
    let corpus = corpus(&data, files);
    let (texts, labels) = part(&corpus, &split, "train");
    let model =
        train(&texts, &labels, None, &Options { max_features, ..Options::default() }).unwrap();
    let (texts, labels) = part(&corpus, &split, "test");
    let scores: Vec<f64> = texts.iter().map(|text| model.probability(text)).collect();
    assert_eq!(Confusion::at(0.5, &scores, &labels).unwrap(), published);
    let measured = auroc(&scores, &labels).unwrap();
    assert!((measured - area).abs() < 0.001, "area {measured} against the published {area}");
}

const DEEPSET: &str = "deepset_prompt_injections.jsonl";
const JACKHHAO: &str = "jackhhao_jailbreak_classification.jsonl";

#[test]
fn d2_gives_the_published_counts_on_deepset() {
    let published = Confusion { tp: 50, tn: 55, fp: 1, fn_: 10 };
    reproduces(
        "d2_gives_the_published_counts_on_deepset",
        "deepset",
        &[DEEPSET],
        15_000,
        published,
        0.974_405,
    );
}

#[test]
fn d2_gives_the_published_counts_on_jackhhao() {
    let published = Confusion { tp: 131, tn: 122, fp: 1, fn_: 8 };
    reproduces(
        "d2_gives_the_published_counts_on_jackhhao",
        "jackhhao",
        &[JACKHHAO],
        15_000,
        published,
        0.995_145,
    );
}

#[test]
fn d2_gives_the_published_counts_on_the_combined_corpus() {
    let files = [
        DEEPSET,
        JACKHHAO,
        "rubend18_chatgpt_jailbreak_prompts.jsonl",
        "fka_awesome_chatgpt_prompts.jsonl",
    ];
    let published = Confusion { tp: 182, tn: 439, fp: 9, fn_: 20 };
    let test = "d2_gives_the_published_counts_on_the_combined_corpus";
    reproduces(test, "combined", &files, 20_000, published, 0.982_585);
}
