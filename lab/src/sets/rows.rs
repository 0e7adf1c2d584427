//! Rows of the benchmark data, as the detection suites need them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::data::{DataFolder, Row};
use crate::error::EvalError;
use crate::report::DataFile;

/// A text with its label: what a detector is trained and measured on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    /// The row's id in its data set.
    pub id: String,
    /// The text.
    pub text: String,
    /// Whether it is an injection.
    pub label: bool,
}

impl Labelled {
    /// The row with its label, when it has one.
    pub(crate) fn of(row: Row) -> Option<Self> {
        let label = row.label? == 1;
        Some(Self { id: row.id, text: row.text, label })
    }
}

/// All rows of one file of the data folder, in order.
///
/// # Errors
/// [`EvalError::Data`] when it is not there or not as documented.
pub(crate) fn read(folder: &Path, file: &str) -> Result<(Vec<Row>, DataFile), EvalError> {
    let set = DataFolder::open(folder).rows(file)?;
    Ok((set.rows, set.file))
}

/// A data set with the split that the papers use.
#[derive(Debug, Clone)]
pub struct Split {
    /// `deepset`, `jackhhao` or `combined`.
    pub name: String,
    /// What to train on, in order.
    pub train: Vec<Labelled>,
    /// What to measure on, in order.
    pub test: Vec<Labelled>,
    /// The files it was read from, the split first.
    pub files: Vec<DataFile>,
    /// The language of a row by its id, where the data says it.
    pub languages: BTreeMap<String, String>,
}

/// Reads the split `name`.
///
/// # Errors
/// [`EvalError::Data`] when a file is not there or not as documented.
pub fn split(folder: &Path, name: &str) -> Result<Split, EvalError> {
    let split = DataFolder::open(folder).split(name)?;
    let all = split.train.iter().chain(&split.test);
    let languages =
        all.filter_map(|row| Some((row.id.clone(), row.field("lang")?.to_owned()))).collect();
    Ok(Split {
        name: name.to_owned(),
        train: split.train.into_iter().filter_map(Labelled::of).collect(),
        test: split.test.into_iter().filter_map(Labelled::of).collect(),
        files: split.files,
        languages,
    })
}
