//! The benchmark data that suites are measured on.

use std::collections::BTreeMap;
use std::path::Path;

use custody_kernel::digest::Digest;
use serde::Deserialize;

use crate::error::EvalError;
use crate::report::DataFile;

/// One row of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The text.
    pub text: String,
    /// 1 for an injection, 0 for ordinary text, none when the notion does not apply.
    pub label: Option<u8>,
}

#[derive(Deserialize)]
struct Split {
    files: Vec<String>,
    test: Vec<String>,
}

/// The test rows of the split `name`, in its order, and the files they come from.
///
/// # Errors
/// [`EvalError::File`] when a file is not there, [`EvalError::Data`] when it is not as documented.
pub fn test_rows(folder: &Path, name: &str) -> Result<(Vec<Row>, Vec<DataFile>), EvalError> {
    let split_name = format!("splits/{name}.json");
    let bytes = read(folder, &split_name)?;
    let split: Split = serde_json::from_slice(&bytes).map_err(|cause| EvalError::Data {
        path: folder.join(&split_name),
        why: cause.to_string(),
    })?;
    let mut used = vec![described(&split_name, &bytes, split.test.len())];
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for file in &split.files {
        let bytes = read(folder, file)?;
        let before = rows.len();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let row: Row = serde_json::from_slice(line).map_err(|cause| EvalError::Data {
                path: folder.join(file),
                why: cause.to_string(),
            })?;
            rows.insert(row.id.clone(), row);
        }
        used.push(described(file, &bytes, rows.len() - before));
    }
    let mut test = Vec::with_capacity(split.test.len());
    for id in split.test {
        let missing = || EvalError::Data {
            path: folder.join(&split_name),
            why: format!("no file holds the row `{id}`"),
        };
        test.push(rows.remove(&id).ok_or_else(missing)?);
    }
    Ok((test, used))
}

fn read(folder: &Path, file: &str) -> Result<Vec<u8>, EvalError> {
    let path = folder.join(file);
    std::fs::read(&path).map_err(EvalError::file(path))
}

fn described(file: &str, bytes: &[u8], rows: usize) -> DataFile {
    DataFile { file: file.to_owned(), sha256: Digest::of(bytes).to_string(), rows: rows as u64 }
}
