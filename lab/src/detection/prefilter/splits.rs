//! Which rows of the prefilter's corpus are held back: one in five, and all of some sources.

use std::collections::BTreeSet;
use std::path::Path;

use super::shown::Name;
use crate::data::Row;
use crate::error::EvalError;
use crate::recipe::sources::corpus_sources;
use crate::report::DataFile;
use crate::sets::Labelled;
use crate::sets::parts::{hash, normal_form};
use crate::sets::rows::read;
use crate::size::Size;

/// What the figures of the rows held back are called.
pub(super) const BY_ROW: &str = "prefilter";

const CORPUS: &str = "prefilter_corpus.jsonl.gz";

/// Sources that are held back together. Each group holds injections and ordinary texts, else there is no
/// area to measure; sources that one project made stand in one group.
pub(super) const SOURCE_GROUPS: [(&str, &[&str]); 3] = [
    ("safe_guard", &["safe-guard-train", "safe-guard-test"]),
    ("neuralchemy", &["neuralchemy"]),
    (
        "in_the_wild",
        &["in-the-wild-jailbreak", "gpteacher-roleplay", "wildguard-benign", "self-instruct-seed"],
    ),
];

/// Training rows, test rows, and the name of the figures.
pub(super) struct Held {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) train: Vec<Labelled>,
    pub(super) test: Vec<Labelled>,
}

impl Held {
    pub(super) fn name(&self) -> Name<'_> {
        [&self.id, &self.title]
    }
}

/// The corpus with the source of each row.
pub(super) fn corpus(
    data: &Path,
    size: Size,
) -> Result<(Vec<(String, Labelled)>, DataFile), EvalError> {
    let (rows, used) = read(data, CORPUS)?;
    Ok((
        rows.into_iter()
            .filter(|row| match size {
                // By the text and not by the place, so that a row stays when others come.
                Size::Smoke => (hash(&row.text) >> 32).is_multiple_of(16),
                Size::Full => true,
            })
            .filter_map(|row: Row| {
                let source = row.field("source").unwrap_or_default().to_owned();
                Some((source, Labelled::of(row)?))
            })
            .collect(),
        used,
    ))
}

/// One text in five is held back, by its hash: the same text is never on both sides.
pub(super) fn by_row(rows: &[(String, Labelled)]) -> Held {
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (_, row) in rows {
        let side = if hash(&row.text).is_multiple_of(5) { &mut test } else { &mut train };
        side.push(row.clone());
    }
    let title = "rows held back".to_owned();
    Held { id: BY_ROW.to_owned(), title, train, test }
}

/// A group of sources is held back; texts of it that stand elsewhere too are not trained on either.
pub(super) fn by_source(rows: &[(String, Labelled)], (name, sources): &(&str, &[&str])) -> Held {
    let mut held: BTreeSet<String> = BTreeSet::new();
    for (_, row) in rows.iter().filter(|(source, _)| sources.contains(&source.as_str())) {
        held.insert(normal_form(&row.text));
    }
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (source, row) in rows {
        if sources.contains(&source.as_str()) {
            test.push(row.clone());
        } else if !held.contains(&normal_form(&row.text)) {
            train.push(row.clone());
        }
    }
    let title = format!("sources held back: {}", sources.join(", "));
    Held { id: format!("prefilter.by_source.{name}"), title, train, test }
}

/// Rows of sources that the shipped recipe takes nothing from; a row's id begins with its source.
pub(super) fn unseen_by_shipped(rows: &[Labelled]) -> Vec<Labelled> {
    let unseen =
        rows.iter().filter(|row| !corpus_sources().any(|source| row.id.starts_with(source)));
    unseen.cloned().collect()
}
