//! Watched files: items whose value also stands in a file that agents read, `SOUL.md` and the like.
//!
//! The record is what counts. A file that differs from it was edited behind our back: that is reported,
//! and an owner can put the file back, or unlock the item and adopt the file as it is.

use std::path::Path;

use custody_kernel::advice::Advice;
use custody_kernel::key::Key;
use custody_kernel::memory::item::{ContentRef, Mode};
use custody_kernel::namespace::Namespace;
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Value};
use custody_kernel::state::Watched;

use crate::content::Content;
use crate::disk::{read_file, write_file};
use crate::error::{StoreError, WatchError};
use crate::store::Store;
use crate::transaction::{Receipt, Transaction};

/// How a watched file stands to its item.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Byte for byte the same.
    Matches,
    /// Edited behind our back.
    Edited,
    /// Gone.
    Missing,
    /// It cannot be read, and so is not known to match.
    Unreadable(String),
}

/// One watched file and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// Which item, and where its file is.
    pub watched: Watched,
    /// Its mode.
    pub mode: Mode,
    /// How the file stands to it.
    pub state: FileState,
    /// What the file holds, when it could be read.
    pub on_disk: Option<Vec<u8>>,
    /// What the record says it holds.
    pub recorded: Option<Vec<u8>>,
}

impl Store {
    /// Compares every watched file with its item.
    ///
    /// # Errors
    /// [`StoreError::Tampered`](crate::StoreError::Tampered) when the record itself was altered.
    pub fn check_files(&self) -> Result<Vec<FileReport>, WatchError> {
        let watched: Vec<Watched> = self.state(|state| state.watched().cloned().collect())?;
        watched.into_iter().map(|watched| self.check_file(watched)).collect()
    }

    /// Compares the file of one item with it.
    ///
    /// # Errors
    /// [`WatchError::NotWatched`] when the item has no file.
    pub fn check_file_of(
        &self,
        namespace: &Namespace,
        key: &Key,
    ) -> Result<FileReport, WatchError> {
        let watched = self.state(|state| state.watched_item(namespace, key).cloned())?;
        let watched = watched.ok_or_else(|| WatchError::NotWatched {
            namespace: namespace.clone(),
            key: key.to_string(),
        })?;
        self.check_file(watched)
    }

    fn check_file(&self, watched: Watched) -> Result<FileReport, WatchError> {
        let item = self.state(|state| state.item(&watched.namespace, &watched.key).cloned())?;
        let item = item.unwrap_or_default();
        let recorded = item.current.map(|version| self.content(version.content)).transpose()?;
        let read = read_file(Path::new(&watched.path));
        let state = match (&read, &recorded) {
            (Ok(bytes), Some(recorded)) if bytes == recorded => FileState::Matches,
            (Ok(_), _) => FileState::Edited,
            (Err(error), None) if error.kind() == std::io::ErrorKind::NotFound => {
                FileState::Matches
            }
            (Err(error), Some(_)) if error.kind() == std::io::ErrorKind::NotFound => {
                FileState::Missing
            }
            (Err(error), _) => FileState::Unreadable(error.to_string()),
        };
        Ok(FileReport { watched, mode: item.mode, state, on_disk: read.ok(), recorded })
    }

    /// Puts the file of an item back to what the record says. The record does not change, so whoever
    /// may write the file may do this.
    ///
    /// # Errors
    /// [`WatchError::NotWatched`], or [`WatchError::File`] when it cannot be written.
    pub fn restore_file(&self, namespace: &Namespace, key: &Key) -> Result<FileReport, WatchError> {
        let report = self.check_file_of(namespace, key)?;
        write_file(Path::new(&report.watched.path), report.recorded.as_deref())?;
        self.check_file_of(namespace, key)
    }

    /// Takes a file as it is on disk for the value of a shared item, and watches it from now on. Owner only; a
    /// new item starts immutable, and one that is immutable has to be unlocked before another value is adopted.
    /// What `advise` says of its text is stored beside the decision.
    ///
    /// # Errors
    /// [`WatchError::File`] when the file cannot be read.
    pub fn adopt_file(
        &self,
        owner: &Authority,
        key: Key,
        path: &Path,
        advise: impl FnOnce(&str) -> Vec<Advice>,
    ) -> Result<Receipt, WatchError> {
        let found = path.canonicalize().and_then(|path| Ok((read_file(&path)?, path)));
        let (bytes, path) =
            found.map_err(|cause| WatchError::File { doing: "read", path: path.into(), cause })?;
        let Some(name) = path.to_str().map(str::to_owned) else {
            let cause = std::io::Error::other("its name is not UTF-8");
            return Err(WatchError::File { doing: "watch", path, cause });
        };
        let advice = advise(&String::from_utf8_lossy(&bytes));
        let owner = owner.clone();
        let adopting = self.run(move |step| {
            let tenant = owner.who().tenant.clone();
            let recorded = recorded(step, &Namespace::shared(tenant.clone()), &key, &bytes)?;
            let (value, content) = match recorded {
                Some(recorded) => (Value::Of(recorded), None),
                None => {
                    let content = Content::new(bytes)?;
                    (Value::New(content.commitment()), Some(content))
                }
            };
            let request = AdminRequest::AdoptFile { tenant, key, path: name, value };
            step.administer(owner, request, content.as_ref(), advice)
        });
        Ok(adopting.wait()?)
    }
}

/// The content of an item, if it holds just these bytes.
fn recorded(
    step: &Transaction<'_>,
    namespace: &Namespace,
    key: &Key,
    bytes: &[u8],
) -> Result<Option<ContentRef>, StoreError> {
    let item = step.state().item(namespace, key);
    let Some(version) = item.and_then(|item| item.current) else { return Ok(None) };
    Ok((step.content(version.content)? == bytes).then_some(version.content))
}
