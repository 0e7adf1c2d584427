//! `custody eval agent`: what it writes, what it keeps of other runs, and what it refuses.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../crates/cli/tests/common/mod.rs"]
mod common;

use std::path::Path;

use common::{Home, Ran};
use serde_json::{Value, json};

fn measures(home: &Home, arguments: &str) -> Ran {
    let args = ["eval", "agent", "--size", "smoke", "--out", "out"];
    home.alone(&[&args[..], &arguments.split_whitespace().collect::<Vec<_>>()].concat())
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("agent.json")).unwrap()).unwrap()
}

fn ids(report: &Value) -> Vec<&str> {
    let figures = report["figures"].as_array().unwrap();
    figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect()
}

#[test]
fn a_run_adds_to_the_report_that_is_there_and_replaces_its_own_part_alone() {
    let home = Home::new();
    let out = home.path().join("out");
    measures(&home, "--bench scenarios --defence vanilla,read_only").expect(0);
    let first = report(&out);
    let two = ["scenarios.vanilla.attack_success", "scenarios.read_only.attack_success"];
    assert!(two.iter().all(|id| ids(&first).contains(id)), "{first:#}");
    for name in ["agent.md", "agent-scenarios.svg"] {
        assert!(out.join(name).is_file(), "{name}");
    }

    // Figures of another machine, and of a defence that is measured again.
    let mut theirs = first.clone();
    theirs["runs"][0]["machine"]["cpu"] = json!("another processor");
    for figure in theirs["figures"].as_array_mut().unwrap() {
        figure["value"] = json!(0.25);
    }
    std::fs::write(out.join("agent.json"), theirs.to_string()).unwrap();
    measures(&home, "--bench scenarios --defence read_only,custody").expect(0);
    let both = report(&out);
    let value = |id: &str| {
        let figures = both["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["id"] == id).map(|figure| figure["value"].clone())
    };
    assert_eq!(value("scenarios.vanilla.attack_success"), Some(json!(0.25)), "theirs stays");
    assert_eq!(value("scenarios.read_only.attack_success"), Some(json!(0)), "this is ours");
    assert_eq!(value("scenarios.custody.attack_success"), Some(json!(0)));
    let parts = |at: usize| both["runs"][at]["parts"].clone();
    assert_eq!(parts(0), json!(["scenarios.vanilla"]));
    let adaptive =
        ["adaptive.intents", "adaptive.scenarios", "adaptive.strict", "adaptive.balanced"];
    let scenarios = ["scenarios.read_only", "scenarios.custody"];
    assert_eq!(parts(1), json!([scenarios.as_slice(), adaptive.as_slice()].concat()));
    assert_eq!(both["runs"][0]["machine"]["cpu"], "another processor");
    let page = std::fs::read_to_string(out.join("agent.md")).unwrap();
    assert!(page.contains("another processor") && page.contains("60.0 %"), "{page}");
}

#[test]
fn a_report_that_cannot_be_read_stops_the_run_before_it_begins() {
    let home = Home::new();
    let file = home.path().join("out/agent.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let memory = json!({
        "suite": "memory", "seed": 0, "data": [], "figures": [],
        "machine": { "cpu": "c", "cores": 1, "memory_bytes": 1, "os": "o" },
    });
    for (text, why) in [("hello", "not a report"), (&memory.to_string(), "a report of `memory`")] {
        std::fs::write(&file, text).unwrap();
        let ran = measures(&home, "--bench scenarios --defence vanilla");
        ran.refused(why);
        assert!(ran.stderr.contains("could not add to `out/agent.json`; move it away"), "{ran:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    measures(&home, "--bench scenarios --defence vanilla").refused("could not add to");
}

#[test]
fn a_model_plays_the_scenarios_alone_and_one_without_an_answer_stops_the_run() {
    let home = Home::new();
    measures(&home, "--agent model").refused("add `--model smollm2-135m-instruct`");
    measures(&home, "--agent model --bench scenarios,bipia").refused("plays the scenarios alone");
    std::fs::write(home.path().join("silent.jsonl"), "").unwrap();
    let silent = measures(&home, "--agent model --recording silent.jsonl");
    silent.refused("the language model failed on `mail_hidden_comment`");
    assert!(!home.path().join("out/agent.json").exists(), "nothing half-done");
}
