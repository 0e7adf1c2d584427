//! The built-in rules keep what they promise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use custody_detect::Rules;

#[test]
fn every_rule_finds_its_examples_and_every_pattern_fires() {
    let failing = Rules::failing_examples(include_str!("../rules/rules.toml")).unwrap();
    assert!(failing.is_empty(), "{} fail:\n{}", failing.len(), failing.join("\n"));
}
