//! Precision, recall and F1 of the built-in rules on the labelled data sets.
//!
//! `measure_rules DATA [train|test] [errors]`: `DATA` holds the `*.jsonl` files and `splits/`.
//! With `errors`, prints what was flagged wrongly or missed, and what each rule found.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the terminal that may stop at the first problem"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use custody_detect::Rules;
use serde_json::Value;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().unwrap();
    let part = arguments.next().unwrap_or_else(|| "train".to_owned());
    let errors = arguments.next().is_some();
    println!("{:?}", Rules::builtin().count());
    for name in ["deepset", "jackhhao", "combined"] {
        measure(Path::new(&data), name, &part, errors);
    }
}

fn measure(data: &Path, name: &str, part: &str, errors: bool) {
    let split = fs::read_to_string(data.join("splits").join(format!("{name}.json"))).unwrap();
    let split: Value = serde_json::from_str(&split).unwrap();
    let mut rows = BTreeMap::new();
    for file in split["files"].as_array().unwrap() {
        let file = fs::read_to_string(data.join(file.as_str().unwrap())).unwrap();
        for line in file.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            rows.insert(row["id"].as_str().unwrap().to_owned(), row);
        }
    }
    let mut counts = [[0_u32; 2]; 2];
    let mut by_rule: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    for id in split[part].as_array().unwrap() {
        let row = &rows[id.as_str().unwrap()];
        let attack = row["label"] == 1;
        let text = row["text"].as_str().unwrap();
        let scan = Rules::builtin().scan(text).unwrap();
        counts[usize::from(attack)][usize::from(scan.is_flagged())] += 1;
        let mut rules: Vec<&str> = scan.findings.iter().map(|found| found.rule.as_str()).collect();
        rules.sort_unstable();
        rules.dedup();
        for rule in &rules {
            by_rule.entry((*rule).to_owned()).or_default()[usize::from(attack)] += 1;
        }
        if errors && attack != scan.is_flagged() {
            let start: String =
                text.chars().take(250).map(|c| if c == '\n' { ' ' } else { c }).collect();
            println!(
                "{} {:.2} {rules:?} {start}",
                if attack { "MISSED" } else { "WRONG" },
                scan.score
            );
        }
    }
    if errors {
        for (rule, [benign, attack]) in &by_rule {
            println!("  {rule}: {attack} attacks, {benign} benign");
        }
    }
    let [[tn, fp], [fn_, tp]] = counts.map(|row| row.map(f64::from));
    let (precision, recall) = (tp / (tp + fp), tp / (tp + fn_));
    let f1 = 2.0 * tp / (2.0 * tp + fp + fn_);
    println!(
        "{name} {part}: tp {tp} fp {fp} fn {fn_} tn {tn} precision {precision:.4} recall {recall:.4} f1 {f1:.4}"
    );
}
