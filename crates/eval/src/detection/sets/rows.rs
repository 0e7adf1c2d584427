//! Rows of the benchmark data, as the detection suites need them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use custody_kernel::digest::Digest;
use serde::Deserialize;
use serde_json::Value;

use crate::error::EvalError;
use crate::report::DataFile;

/// No data set is larger than this when unpacked, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

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

/// One row with the fields that only some files have.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::detection) struct Row {
    pub(in crate::detection) id: String,
    pub(in crate::detection) text: String,
    pub(in crate::detection) label: Option<u8>,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

impl Row {
    /// A field that holds text; empty when the row has none of that name.
    pub(in crate::detection) fn field(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The row with its label, when it has one.
    pub(in crate::detection) fn labelled(self) -> Option<Labelled> {
        let label = self.label? == 1;
        Some(Labelled { id: self.id, text: self.text, label })
    }
}

/// All rows of one file of the data folder, in order. A name in `.gz` is unpacked.
///
/// # Errors
/// [`EvalError::File`] when it is not there, [`EvalError::Data`] when it is not as documented.
pub(in crate::detection) fn read(
    folder: &Path,
    file: &str,
) -> Result<(Vec<Row>, DataFile), EvalError> {
    let path = folder.join(file);
    let bytes = std::fs::read(&path).map_err(EvalError::file(&path))?;
    let sha256 = Digest::of(&bytes).to_string();
    let bytes = if file.ends_with(".gz") {
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(bytes.as_slice()).take(MAX_FILE_BYTES);
        reader.read_to_end(&mut unpacked).map_err(EvalError::file(&path))?;
        unpacked
    } else {
        bytes
    };
    let mut rows = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let wrong = |cause: serde_json::Error| EvalError::Data {
            path: path.clone(),
            why: format!("line {}: {cause}", at + 1),
        };
        rows.push(serde_json::from_slice(line).map_err(wrong)?);
    }
    let used = DataFile { file: file.to_owned(), sha256, rows: rows.len() as u64 };
    Ok((rows, used))
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

#[derive(Deserialize)]
struct SplitFile {
    files: Vec<String>,
    train: Vec<String>,
    test: Vec<String>,
}

/// Reads the split `name`.
///
/// # Errors
/// [`EvalError::File`] when a file is not there, [`EvalError::Data`] when it is not as documented.
pub fn split(folder: &Path, name: &str) -> Result<Split, EvalError> {
    let file = format!("splits/{name}.json");
    let path = folder.join(&file);
    let bytes = std::fs::read(&path).map_err(EvalError::file(&path))?;
    let wrong = |why: String| EvalError::Data { path: path.clone(), why };
    let ids: SplitFile =
        serde_json::from_slice(&bytes).map_err(|cause| wrong(cause.to_string()))?;
    let rows = (ids.train.len() + ids.test.len()) as u64;
    let mut files = vec![DataFile { file, sha256: Digest::of(&bytes).to_string(), rows }];
    let (mut by_id, mut languages) = (BTreeMap::new(), BTreeMap::new());
    for file in &ids.files {
        let (rows, used) = read(folder, file)?;
        files.push(used);
        for row in rows {
            if !row.field("lang").is_empty() {
                languages.insert(row.id.clone(), row.field("lang").to_owned());
            }
            if let Some(row) = row.labelled() {
                by_id.insert(row.id.clone(), row);
            }
        }
    }
    let mut take = |ids: Vec<String>| -> Result<Vec<Labelled>, EvalError> {
        let row = |id: String| {
            by_id.remove(&id).ok_or_else(|| wrong(format!("no labelled row `{id}`, or twice")))
        };
        ids.into_iter().map(row).collect()
    };
    let (train, test) = (take(ids.train)?, take(ids.test)?);
    Ok(Split { name: name.to_owned(), train, test, files, languages })
}
