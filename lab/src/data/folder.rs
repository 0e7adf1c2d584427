//! The data folder: its files, whether they are right, the papers' splits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use custody_models::sha256::Sha256;
use serde::Deserialize;

use super::error::DataError;
use super::pins::{DataPin, known};
use super::row::{DataSet, Row, read_file, read_rows};
use crate::report::DataFile;

/// The folder of the benchmark data.
#[derive(Debug, Clone)]
pub struct DataFolder {
    path: PathBuf,
}

/// How a pinned file is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataFileState {
    /// Not here.
    Absent,
    /// Here, and every byte is as it should be.
    Verified,
    /// Here, and not what it should be: why.
    Differs(String),
}

/// A split: rows to train on and rows to test on, each in the order to use them.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSplit {
    /// To train on.
    pub train: Vec<Row>,
    /// To test on.
    pub test: Vec<Row>,
    /// The files of both. Of the split's own file, the rows are the test rows.
    pub files: Vec<DataFile>,
}

/// The file of a split.
#[derive(Deserialize)]
struct SplitFile {
    files: Vec<String>,
    train: Vec<String>,
    test: Vec<String>,
}

impl DataFolder {
    /// The data in `path`. Whether it is there shows when it is used.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How each pinned file is. Reads every byte.
    pub fn verify(&self) -> Vec<(&'static DataPin, DataFileState)> {
        known().iter().map(|pin| (pin, self.state(pin))).collect()
    }

    /// How one pinned file is. Reads every byte.
    pub fn state(&self, pin: &DataPin) -> DataFileState {
        let bytes = match read_file(&self.path.join(&pin.name)) {
            Ok(bytes) => bytes,
            Err(DataError::Absent { .. }) => return DataFileState::Absent,
            Err(error) => return DataFileState::Differs(error.to_string()),
        };
        let (length, found) = (bytes.len() as u64, Sha256::of(&bytes));
        if length != pin.bytes {
            DataFileState::Differs(format!("has {length} bytes, not {}", pin.bytes))
        } else if found != pin.sha256 {
            DataFileState::Differs(format!("has the SHA-256 `{found}`, not `{}`", pin.sha256))
        } else {
            DataFileState::Verified
        }
    }

    /// The rows of the file `name`, a path in this folder.
    ///
    /// # Errors
    /// [`DataError`], with file and line.
    pub fn rows(&self, name: &str) -> Result<DataSet, DataError> {
        let mut set = read_rows(&self.path.join(name))?;
        name.clone_into(&mut set.file.file);
        Ok(set)
    }

    /// The split `name`: `deepset`, `jackhhao` or `combined`.
    ///
    /// # Errors
    /// [`DataError`]: a file is not here or not as documented, an id is in none or two places, or a row
    /// has no label.
    pub fn split(&self, name: &str) -> Result<DataSplit, DataError> {
        let own = format!("splits/{name}.json");
        let path = self.path.join(&own);
        let bytes = read_file(&path)?;
        let split: SplitFile = serde_json::from_slice(&bytes)
            .map_err(|cause| DataError::file(&path, format!("is no split ({cause})")))?;
        let sha256 = Sha256::of(&bytes).to_string();
        let mut files = vec![DataFile { file: own, sha256, rows: split.test.len() as u64 }];
        let mut rows = BTreeMap::new();
        for name in &split.files {
            let set = self.rows(name)?;
            for row in set.rows {
                if let Some(twice) = rows.insert(row.id.clone(), row) {
                    let why = format!("holds the id `{}` a second time", twice.id);
                    return Err(DataError::file(&self.path.join(name), why));
                }
            }
            files.push(set.file);
        }
        let train = split.train.iter().map(|id| taken(&mut rows, &path, id));
        let train = train.collect::<Result<_, _>>()?;
        let test = split.test.iter().map(|id| taken(&mut rows, &path, id));
        Ok(DataSplit { train, test: test.collect::<Result<_, _>>()?, files })
    }
}

/// The row `id`, once, with a label.
fn taken(rows: &mut BTreeMap<String, Row>, path: &Path, id: &str) -> Result<Row, DataError> {
    let why = match rows.remove(id) {
        Some(row) if row.label.is_some() => return Ok(row),
        Some(_) => "which has no label",
        None => "which no file holds, or which it named before",
    };
    Err(DataError::file(path, format!("names the row `{id}`, {why}")))
}
