//! Rows parted so that no text is measured by a detector that has seen it.
//!
//! Two texts are the same text when they agree without case and punctuation ([`normal_form`]). The same text
//! is always in the same part and in the same fold.

use std::collections::{BTreeMap, BTreeSet};

use custody_log::Digest;

use super::rows::Labelled;
use crate::random::Generator;

/// What a document may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetPart {
    /// Training: 40 of 100 documents.
    Train,
    /// Choosing thresholds: 30 of 100.
    Calibration,
    /// Measuring: 30 of 100.
    Test,
}

/// The part of a document, from its text alone: whatever order it is read in, and wherever else it stands.
///
/// The first eight bytes of the SHA-256 of its normal form, as a big-endian number modulo 100: below 40
/// train, below 70 calibration, else test.
pub fn part_of(text: &str) -> SetPart {
    match hash(text) % 100 {
        0..40 => SetPart::Train,
        40..70 => SetPart::Calibration,
        _ => SetPart::Test,
    }
}

/// The first eight bytes of the SHA-256 of the normal form, as a big-endian number.
pub fn hash(text: &str) -> u64 {
    let Digest(bytes) = Digest::of(normal_form(text).as_bytes());
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The text without case and punctuation: lower-case letters and digits, one space between words.
pub fn normal_form(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Test rows that also stand in training.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Their places in the test rows, rising.
    pub rows: BTreeSet<usize>,
    /// How many of them stand in training with the other label only.
    pub contradicted: u64,
}

/// Finds the rows of `test` whose normal form is that of a row of `train`.
pub fn leaks(train: &[Labelled], test: &[Labelled]) -> Leaks {
    let mut seen: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for row in train {
        seen.entry(normal_form(&row.text)).or_default().insert(row.label);
    }
    let mut found = Leaks::default();
    for (at, row) in test.iter().enumerate() {
        if let Some(labels) = seen.get(&normal_form(&row.text)) {
            found.rows.insert(at);
            found.contradicted += u64::from(!labels.contains(&row.label));
        }
    }
    found
}

/// The fold (below `folds`) of each row: as even as can be for each label, the same text in one fold.
///
/// Repeated texts with two labels go by the label of the first.
pub fn stratified_folds(rows: &[Labelled], folds: usize, seed: u64) -> Vec<usize> {
    let mut texts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        texts.entry(normal_form(&row.text)).or_default().push(at);
    }
    let mut generator = Generator::new(seed);
    let mut fold_of = vec![0; rows.len()];
    for label in [false, true] {
        let mut groups: Vec<&Vec<usize>> =
            texts.values().filter(|places| rows[places[0]].label == label).collect();
        shuffle(&mut groups, &mut generator);
        let mut filled = vec![0usize; folds.max(1)];
        for places in groups {
            // The emptiest fold, the first of several: repeated texts do not pile up in one.
            let fold = (0..filled.len()).min_by_key(|fold| filled[*fold]).unwrap_or_default();
            filled[fold] += places.len();
            for place in places {
                fold_of[*place] = fold;
            }
        }
    }
    fold_of
}

/// The fold (below `folds`) of each distinct name: dealt in turn after a shuffle of the sorted names.
pub fn named_folds<'a>(
    names: impl IntoIterator<Item = &'a str>,
    folds: usize,
    seed: u64,
) -> BTreeMap<String, usize> {
    let sorted: BTreeSet<&str> = names.into_iter().collect();
    let mut order: Vec<&str> = sorted.into_iter().collect();
    shuffle(&mut order, &mut Generator::new(seed));
    order.into_iter().enumerate().map(|(at, name)| (name.to_owned(), at % folds.max(1))).collect()
}

/// The rows of a training part kept for stopping and thresholds, and the rest to learn from.
///
/// `share` of the rows (at most a half) is kept, stratified as in [`stratified_folds`].
pub fn validation(train: &[Labelled], share: f64, seed: u64) -> (Vec<Labelled>, Vec<Labelled>) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in 2..=100")]
    let folds = (1.0 / share).round().clamp(2.0, 100.0) as usize;
    let fold_of = stratified_folds(train, folds, seed);
    let (kept, rest): (Vec<_>, Vec<_>) =
        train.iter().zip(&fold_of).partition(|(_, fold)| **fold == 0);
    let [rest, kept] =
        [rest, kept].map(|part| part.into_iter().map(|(row, _)| row.clone()).collect());
    (rest, kept)
}

/// Fisher and Yates.
fn shuffle<T>(items: &mut [T], generator: &mut Generator) {
    for at in (1..items.len()).rev() {
        let other = usize::try_from(generator.below(at as u64 + 1)).unwrap_or_default();
        items.swap(at, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(texts: &[(&str, bool)]) -> Vec<Labelled> {
        texts
            .iter()
            .map(|(text, label): &(&str, bool)| Labelled {
                id: String::new(),
                text: (*text).to_owned(),
                label: *label,
            })
            .collect()
    }

    #[test]
    fn case_and_punctuation_do_not_make_another_text() {
        assert_eq!(normal_form("  Größe: «GROSS»,\tnein! "), "größe gross nein");
        assert_eq!(part_of("Please call me."), part_of("please CALL me"));
    }

    #[test]
    fn the_part_of_a_text_never_changes() {
        // Figures that were measured with one split must not be mixed with those of another.
        let texts = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let parts: String = texts
            .iter()
            .map(|text| match part_of(text) {
                SetPart::Train => 't',
                SetPart::Calibration => 'c',
                SetPart::Test => 'm',
            })
            .collect();
        assert_eq!(parts, "ccttcmcm");
    }

    #[test]
    fn a_leak_is_found_with_its_label() {
        let train = rows(&[("Hello, you", false), ("Do it!", true), ("do it", false), ("x", true)]);
        let test = rows(&[("hello YOU", false), ("do it", true), ("X.", false), ("new", true)]);
        let found = leaks(&train, &test);
        assert_eq!(found, Leaks { rows: BTreeSet::from([0, 1, 2]), contradicted: 1 });
    }

    #[test]
    fn folds_are_even_for_each_label_and_keep_a_text_whole() {
        let texts: Vec<(String, bool)> =
            (0..103).map(|at| (format!("text {}", at % 97), at % 97 < 30)).collect();
        let texts: Vec<(&str, bool)> =
            texts.iter().map(|(text, label)| (text.as_str(), *label)).collect();
        let rows = rows(&texts);
        let folds = stratified_folds(&rows, 5, 1);
        assert_eq!(folds, stratified_folds(&rows, 5, 1));
        assert_ne!(folds, stratified_folds(&rows, 5, 2));
        for at in 97..103 {
            assert_eq!(folds[at], folds[at - 97], "the repeated text {at}");
        }
        for label in [false, true] {
            let counts: Vec<usize> = (0..5)
                .map(|fold| {
                    rows.iter()
                        .zip(&folds)
                        .filter(|(row, found): &(&Labelled, &usize)| {
                            row.label == label && **found == fold
                        })
                        .count()
                })
                .collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 2, "{counts:?}");
        }
    }

    #[test]
    fn a_validation_part_is_taken_out_and_not_copied() {
        let texts: Vec<String> = (0..50).map(|at| format!("text {at}")).collect();
        let texts: Vec<(&str, bool)> =
            texts.iter().enumerate().map(|(at, text)| (text.as_str(), at < 20)).collect();
        let (learn, kept) = validation(&rows(&texts), 0.2, 1);
        assert_eq!((learn.len(), kept.len()), (40, 10));
        assert_eq!(kept.iter().filter(|row| row.label).count(), 4);
        assert_eq!(leaks(&learn, &kept), Leaks::default());
    }
}
