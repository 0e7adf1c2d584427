//! The rule files keep what they promise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use custody_detect::RuleSet;

#[test]
fn every_rule_finds_its_examples_and_every_pattern_fires() {
    let files = [
        include_str!("../rules/rules.toml"),
        include_str!("../rules/answers.toml"),
        include_str!("../rules/refusals.toml"),
        include_str!("../rules/intents.toml"),
    ];
    for file in files {
        let failing = RuleSet::failing_examples(file).unwrap();
        assert!(failing.is_empty(), "{} fail:\n{}", failing.len(), failing.join("\n"));
    }
}
