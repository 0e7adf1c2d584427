//! Watched files: items whose value also stands in a file that agents read, `SOUL.md` and the like.
//!
//! The record is what counts. A file that differs from it was edited behind our back: that is reported,
//! and an owner can put the file back or adopt it as it is.

use std::io::{Read, Write};
use std::path::Path;

use custody_kernel::key::Key;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::Namespace;
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Value};
use custody_kernel::state::Watched;

use crate::anomaly::anomalies;
use crate::store::{Content, MAX_CONTENT_BYTES, Receipt, Store, StoreError, View, sync_folder};

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
    /// [`StoreError::Tampered`] when the record itself was altered.
    pub fn check_files(&self) -> Result<Vec<FileReport>, StoreError> {
        let watched: Vec<Watched> = self.state(|state| state.watched().cloned().collect())?;
        watched.into_iter().map(|watched| self.check_file(watched)).collect()
    }

    /// Compares the file of one item with it.
    ///
    /// # Errors
    /// [`StoreError::NotWatched`] when the item has no file.
    pub fn check_file_of(
        &self,
        namespace: &Namespace,
        key: &Key,
    ) -> Result<FileReport, StoreError> {
        let watched = self.state(|state| state.watched_item(namespace, key).cloned())?;
        let not_watched =
            || StoreError::NotWatched { namespace: namespace.clone(), key: key.to_string() };
        self.check_file(watched.ok_or_else(not_watched)?)
    }

    fn check_file(&self, watched: Watched) -> Result<FileReport, StoreError> {
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
    /// [`StoreError::NotWatched`], or [`StoreError::File`] when it cannot be written.
    pub fn restore_file(&self, namespace: &Namespace, key: &Key) -> Result<FileReport, StoreError> {
        let report = self.check_file_of(namespace, key)?;
        write_file(Path::new(&report.watched.path), report.recorded.as_deref())?;
        self.check_file_of(namespace, key)
    }

    /// Takes a file as it is on disk for the value of a shared item, and watches it from now on. Owner
    /// only; a new item starts immutable.
    ///
    /// # Errors
    /// [`StoreError::File`] when the file cannot be read.
    pub fn adopt_file(
        &self,
        owner: &Authority,
        key: Key,
        path: &Path,
    ) -> Result<Receipt, StoreError> {
        let failed = |cause| StoreError::File { doing: "read", path: path.into(), cause };
        let path = path.canonicalize().map_err(failed)?;
        let bytes = read_file(&path).map_err(failed)?;
        let Some(name) = path.to_str().map(str::to_owned) else {
            let cause = std::io::Error::other("its name is not UTF-8");
            return Err(StoreError::File { doing: "watch", path, cause });
        };
        let advice = anomalies(&String::from_utf8_lossy(&bytes));
        let content = Content::new(bytes)?;
        let request = AdminRequest::AdoptFile {
            tenant: owner.who().tenant.clone(),
            key,
            path: name,
            value: Value::New(content.commitment()),
        };
        let authority = owner.clone();
        self.run(move |step| step.administer(authority, request, Some(&content), advice)).wait()
    }
}

/// Brings the file of an item up to its present value, after a change was committed.
pub(crate) fn follow(view: View<'_>, namespace: &Namespace, key: &Key) -> Result<(), StoreError> {
    let Some(watched) = view.state().watched_item(namespace, key) else { return Ok(()) };
    let version = view.state().item(namespace, key).and_then(|item| item.current);
    let value = version.map(|version| view.content(version.content)).transpose()?;
    write_file(Path::new(&watched.path), value.as_deref())
}

/// Reads a regular file, and nothing else: what stands behind a link can be exchanged unseen, a pipe
/// would never end. Reads just over the longest value, which is enough to differ from every item.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let not_a_file = || std::io::Error::other("it is not a regular file");
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(not_a_file());
    }
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(not_a_file());
    }
    let mut bytes = Vec::new();
    file.take(MAX_CONTENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file whole or not at all, keeping its permissions; `None` removes it.
fn write_file(path: &Path, value: Option<&[u8]>) -> Result<(), StoreError> {
    let failed = |cause| StoreError::File { doing: "write", path: path.into(), cause };
    let Some(value) = value else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
            _ => sync_folder(path),
        };
    };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(value).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    if let Some(metadata) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)
    {
        file.as_file().set_permissions(metadata.permissions()).map_err(failed)?;
    }
    file.persist(path).map_err(|error| failed(error.error))?;
    sync_folder(path)
}
