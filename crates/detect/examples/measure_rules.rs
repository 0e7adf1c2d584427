//! Precision, recall and F1 of the built-in rules on the labelled data sets.
//!
//! `measure_rules DATA [train|test] [errors]`: `DATA` holds the `*.jsonl` files and `splits/`, or is
//! one file of labelled rows. With `errors`, prints what was flagged wrongly or missed, and what each rule found.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the terminal that may stop at the first problem"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use custody_detect::RuleSet;
use serde_json::Value;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().unwrap();
    let part = arguments.next().unwrap_or_else(|| "train".to_owned());
    let errors = arguments.next().is_some();
    println!("{:?}", RuleSet::built_in().count());
    let data = Path::new(&data);
    if data.is_file() {
        let rows = read_rows(data);
        return measure(&data.display().to_string(), rows.iter(), errors);
    }
    for name in ["deepset", "jackhhao", "combined"] {
        let split = fs::read_to_string(data.join("splits").join(format!("{name}.json"))).unwrap();
        let split: Value = serde_json::from_str(&split).unwrap();
        let rows: BTreeMap<String, Value> = split["files"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|file| read_rows(&data.join(file.as_str().unwrap())))
            .map(|row| (row["id"].as_str().unwrap().to_owned(), row))
            .collect();
        let ids = split[part.as_str()].as_array().unwrap();
        measure(
            &format!("{name} {part}"),
            ids.iter().map(|id| &rows[id.as_str().unwrap()]),
            errors,
        );
    }
}

fn read_rows(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn measure<'r>(name: &str, rows: impl Iterator<Item = &'r Value>, errors: bool) {
    let mut counts = [[0_u32; 2]; 2];
    let mut by_rule: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    for row in rows {
        let attack = row["label"] == 1;
        let text = row["text"].as_str().unwrap();
        let scan = RuleSet::built_in().scan(text).unwrap();
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
        "{name}: tp {tp} fp {fp} fn {fn_} tn {tn} precision {precision:.4} recall {recall:.4} f1 {f1:.4}"
    );
}
