//! Every policy that ships is read, is valid, and does what its cases say.

use std::collections::BTreeSet;

use custody_policy::{Manifests, Policy, examples, run_cases};

#[test]
fn every_example_passes_its_own_cases_and_no_statement_goes_untested() {
    for example in examples() {
        let policy =
            Policy::parse(example.text).unwrap_or_else(|error| panic!("{}: {error}", example.name));
        assert_eq!(policy.warnings(), [], "{}", example.name);
        let outcomes = run_cases(&policy, &Manifests::default(), example.cases)
            .unwrap_or_else(|error| panic!("{}: {error}", example.name));
        let failed: Vec<String> =
            outcomes.iter().filter(|outcome| !outcome.passed).map(ToString::to_string).collect();
        assert!(failed.is_empty(), "{}:\n{}", example.name, failed.join("\n"));
        let decided: BTreeSet<&String> = outcomes.iter().flat_map(|outcome| &outcome.by).collect();
        for statement in policy.statements() {
            assert!(
                decided.contains(&statement.id),
                "{}: no case rests on `{}`",
                example.name,
                statement.id
            );
        }
    }
}

#[test]
fn rvgs_flat_allowlist_is_five_lines() {
    let allowlist = examples().iter().find(|example| example.name == "allowlist").unwrap();
    let lines = allowlist.text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(lines.count() <= 5);
}

#[test]
fn the_first_example_is_the_one_custody_starts_with() {
    assert_eq!(Policy::parse(examples()[0].text).unwrap().version(), Policy::standard().version());
}
