//! The texts that detectors are measured on are those that the data's documentation counts.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use custody_lab::sets::buried::{BuriedPosition, bipia, injecagent};
use custody_lab::sets::ordinary::{Set, documents};
use custody_lab::sets::parts::{leaks, named_folds, normal_form};
use custody_lab::sets::{SetPart, rows};

#[test]
fn the_leaks_are_those_that_the_data_admits() {
    let Some(data) = common::data() else { return };
    let cases = [("deepset", 116, 0, 0), ("jackhhao", 262, 13, 0), ("combined", 650, 48, 1)];
    for (name, rows, leaked, contradicted) in cases {
        let split = rows::split(&data, name).unwrap();
        assert_eq!(split.test.len(), rows, "{name}");
        let found = leaks(&split.train, &split.test);
        assert_eq!((found.rows.len(), found.contradicted), (leaked, contradicted), "{name}");
    }
}

#[test]
fn repeated_documents_are_counted_once_and_parted_together() {
    let Some(data) = common::data() else { return };
    let cases = [
        (Set::NotInject, 227, 227),
        (Set::MitreFrr, 750, 750),
        (Set::LlMail, 281, 237),
        (Set::BipiaContexts, 828, 608),
    ];
    for (set, rows, most) in cases {
        let (found, used) = documents(&data, set).unwrap();
        assert_eq!(used.rows, rows, "{}", set.id());
        // Texts that differ in case or punctuation only are one document as well.
        assert!(
            found.len() <= most && found.len() * 10 > most * 8,
            "{}: {}",
            set.id(),
            found.len()
        );
        let mut parts: BTreeMap<String, BTreeSet<SetPart>> = BTreeMap::new();
        for document in &found {
            parts.entry(normal_form(&document.text)).or_default().insert(document.part);
        }
        assert!(parts.values().all(|parts| parts.len() == 1));
    }
}

#[test]
fn a_clean_twin_differs_from_its_case_by_the_text_in_the_field() {
    let Some(data) = common::data() else { return };
    let (cases, _) = injecagent(&data).unwrap();
    let attacks: Vec<_> = cases.iter().filter(|case| case.label).collect();
    let clean: Vec<_> = cases.iter().filter(|case| !case.label).collect();
    assert_eq!((attacks.len(), clean.len()), (697, 17 * 24));
    for twin in clean {
        let around = |text: &str, inner: &str| -> (String, String) {
            let (before, after) = text.split_once(inner).unwrap();
            (before.to_owned(), after.to_owned())
        };
        let answer = around(&twin.text, &twin.document);
        let same = attacks.iter().filter(|case| around(&case.text, &case.group) == answer);
        assert_eq!(same.count(), 41, "{}", twin.id);
    }
}

#[test]
fn no_context_is_trained_on_and_measured_and_no_attack_is_in_two_folds() {
    let Some(data) = common::data() else { return };
    let (cases, files) = bipia(&data, 2).unwrap();
    assert_eq!(files.len(), 2);
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len(), "every id stands once");
    let attacked = |part| {
        let of_part = cases.iter().filter(move |case| case.label && case.part == Some(part));
        of_part.map(|case| case.document.as_str()).collect::<BTreeSet<_>>()
    };
    assert!(attacked(SetPart::Train).is_disjoint(&attacked(SetPart::Test)));
    assert!(attacked(SetPart::Calibration).is_empty(), "thresholds see no attack");
    let count = |position| {
        let at = cases
            .iter()
            .filter(|case| case.position == position && case.part == Some(SetPart::Test));
        at.count()
    };
    // 100 attacks in two e-mails and two tables, 65 in two code answers.
    for position in [BuriedPosition::Start, BuriedPosition::Middle, BuriedPosition::End] {
        assert_eq!(count(position), 100 * 4 + 65 * 2);
    }
    let groups = cases.iter().filter(|case| case.label).map(|case| case.group.as_str());
    let folds = named_folds(groups, 5, 1);
    assert_eq!(folds.len(), 32);
    let sizes: Vec<usize> =
        (0..5).map(|fold| folds.values().filter(|found| **found == fold).count()).collect();
    assert_eq!(sizes, [7, 7, 6, 6, 6]);
    assert_eq!(bipia(&data, 2).unwrap().0, cases, "the same cases every time");
}
