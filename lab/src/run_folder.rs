//! The folder where a run keeps what is finished, so that it can be stopped and taken up again.
//!
//! A finished unit is one file, written at once or not at all. Its name holds a digest of all it depends on, so a
//! run that is started again takes up what fits and measures the rest; a file that was cut off or changed does not
//! fit its own digest and is measured again.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use custody_log::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::EvalError;

/// The longest unit that is read, in bytes.
const MAX_UNIT_BYTES: u64 = 64 << 20;

/// What a unit is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitId {
    /// For people, in the name of its file.
    name: String,
    /// A digest of everything that it depends on.
    identity: String,
}

impl UnitId {
    /// The id of the unit called `name`, which depends on all that is in `on` and on nothing else.
    pub fn new(name: String, on: &serde_json::Value) -> Self {
        Self { name, identity: Digest::of(on.to_string().as_bytes()).to_string() }
    }

    fn file_name(&self) -> String {
        let short = self.identity.get(..16).unwrap_or(&self.identity);
        format!("{}-{short}.json", self.name)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<T> {
    identity: String,
    measured: T,
    /// Of the JSON of `measured`.
    sha256: String,
}

/// The folder of finished units. Without one nothing is kept.
#[derive(Debug, Clone, Default)]
pub struct RunFolder(Option<PathBuf>);

impl RunFolder {
    /// Keeps units in `folder`, which is made when it is not there.
    ///
    /// # Errors
    /// [`EvalError::File`] when it cannot be made.
    pub fn open(folder: Option<&Path>) -> Result<Self, EvalError> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(EvalError::file(folder))?;
        }
        Ok(Self(folder.map(Path::to_owned)))
    }

    /// What the unit measured, if it is in the folder and whole.
    pub fn finished<T: Serialize + DeserializeOwned>(&self, unit: &UnitId) -> Option<T> {
        let path = self.0.as_ref()?.join(unit.file_name());
        if std::fs::metadata(&path).ok()?.len() > MAX_UNIT_BYTES {
            return None;
        }
        let stored: Stored<T> = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let whole =
            stored.identity == unit.identity && stored.sha256 == digest_of(&stored.measured);
        whole.then_some(stored.measured)
    }

    /// Writes a finished unit: to another name first, so that a kill leaves the old file or the new one.
    ///
    /// # Errors
    /// [`EvalError::File`] when it cannot be written.
    pub fn keep<T: Serialize>(&self, unit: &UnitId, measured: &T) -> Result<(), EvalError> {
        let Some(folder) = &self.0 else { return Ok(()) };
        let sha256 = digest_of(measured);
        let stored = Stored { identity: unit.identity.clone(), measured, sha256 };
        let json = serde_json::to_vec(&stored).expect("a unit holds text and numbers only");
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(EvalError::file(folder))?;
        let written = file.write_all(&json).and_then(|()| file.as_file().sync_all());
        written.map_err(EvalError::file(folder))?;
        let path = folder.join(unit.file_name());
        file.persist(&path).map_err(|error| EvalError::file(&path)(error.error))?;
        Ok(())
    }
}

fn digest_of<T: Serialize>(measured: &T) -> String {
    let json = serde_json::to_vec(measured).expect("a unit holds text and numbers only");
    Digest::of(&json).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_was_changed_or_depends_on_something_else_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let kept = RunFolder::open(Some(folder.path())).unwrap();
        let unit = |on: &str| UnitId::new("suite.part".into(), &serde_json::json!(on));
        kept.keep(&unit("a"), &vec![1.5]).unwrap();
        assert_eq!(kept.finished(&unit("a")), Some(vec![1.5]));
        assert_eq!(kept.finished::<Vec<f64>>(&unit("b")), None);
        let path = folder.path().join(unit("a").file_name());
        let changed = std::fs::read_to_string(&path).unwrap().replace("1.5", "2.5");
        std::fs::write(&path, changed).unwrap();
        assert_eq!(kept.finished::<Vec<f64>>(&unit("a")), None);
        assert_eq!(RunFolder::default().finished::<Vec<f64>>(&unit("a")), None);
    }
}
