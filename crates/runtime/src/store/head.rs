//! The signed head: the store's size and root, kept in another folder than the store.
//!
//! One file with two slots that are written in turn, so that a torn write leaves the one before it.
//! The file has its full length from the start: writing a head changes data and no metadata, and one
//! data sync makes it durable.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use custody_kernel::audit::Checkpoint;

use super::StoreError;
use super::ledger::{Ledger, claimed_size};

const SLOT: usize = 1024;

/// The head file of one store.
#[derive(Debug)]
pub(crate) struct Head {
    path: PathBuf,
    file: File,
}

impl Head {
    /// Creates the file, empty.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let failed = |cause| StoreError::File { doing: "create", path: path.into(), cause };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(failed)?;
        file.write_all(&[b'\n'; 2 * SLOT]).and_then(|()| file.sync_all()).map_err(failed)?;
        sync_folder(path)?;
        Ok(Self { path: path.into(), file })
    }

    /// Opens the file, if there is one.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(Self { path: path.into(), file })),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(StoreError::File { doing: "open", path: path.into(), cause }),
        }
    }

    /// What stands in the file now, to be verified once the log is read.
    pub(crate) fn slots(&mut self) -> Result<Slots, StoreError> {
        let mut bytes = Vec::with_capacity(2 * SLOT);
        let mut read = |file: &mut File| {
            file.seek(SeekFrom::Start(0))?;
            file.take(2 * SLOT as u64).read_to_end(&mut bytes)
        };
        read(&mut self.file).map_err(|cause| self.failed("read", cause))?;
        bytes.resize(2 * SLOT, b'\n');
        let (first, second) = bytes.split_at(SLOT);
        Ok(Slots([text_of(first), text_of(second)]))
    }

    /// Puts `note` in place of the older slot and syncs it, unless a head at least as large is there
    /// already: another process may have gone ahead.
    pub(crate) fn advance(&mut self, note: &str, ledger: &Ledger) -> Result<(), StoreError> {
        self.file.lock().map_err(|cause| self.failed("lock", cause))?;
        let written = self.advance_locked(note, ledger);
        let unlocked = self.file.unlock().map_err(|cause| self.failed("unlock", cause));
        written.and(unlocked)
    }

    fn advance_locked(&mut self, note: &str, ledger: &Ledger) -> Result<(), StoreError> {
        let slots = self.slots()?;
        let [first, second] = slots.0.each_ref().map(|slot| claimed_size(slot));
        let ahead = first.max(second) >= Some(ledger.len());
        // Only a signature may say that a larger head is there, and so spare us the write.
        if ahead && slots.newest(ledger)?.is_some_and(|head| head.size >= ledger.len()) {
            return Ok(());
        }
        self.write_slot(u64::from(first > second), note)
    }

    /// Writes `note` whatever stands there now: for an adoption, which an owner authorised.
    pub(crate) fn replace(&mut self, note: &str) -> Result<(), StoreError> {
        self.write_slot(0, note)?;
        self.write_slot(1, "")
    }

    fn write_slot(&mut self, slot: u64, note: &str) -> Result<(), StoreError> {
        let mut bytes = note.as_bytes().to_vec();
        bytes.resize(SLOT, b'\n');
        let write = |file: &mut File| {
            file.seek(SeekFrom::Start(slot * SLOT as u64))?;
            file.write_all(&bytes)?;
            file.sync_data()
        };
        write(&mut self.file).map_err(|cause| self.failed("write", cause))
    }

    fn failed(&self, doing: &'static str, cause: std::io::Error) -> StoreError {
        StoreError::File { doing, path: self.path.clone(), cause }
    }
}

/// The two notes of a head file, as found.
#[derive(Debug)]
pub(crate) struct Slots([String; 2]);

impl Slots {
    /// Whether no head was ever written.
    pub(crate) fn is_blank(&self) -> bool {
        self.0.iter().all(String::is_empty)
    }

    /// The largest size that a note claims.
    pub(crate) fn claimed_size(&self) -> Option<u64> {
        self.0.iter().filter_map(|note| claimed_size(note)).max()
    }

    /// The newest head that verifies; `None` when none was written yet.
    ///
    /// # Errors
    /// [`Tampering::Head`](super::Tampering::Head) when something is written and none of it verifies.
    pub(crate) fn newest(&self, ledger: &Ledger) -> Result<Option<Checkpoint>, StoreError> {
        let written = self.0.iter().filter(|note| !note.is_empty());
        let (heads, mut errors): (Vec<_>, Vec<_>) =
            written.map(|note| ledger.verify(note)).partition(Result::is_ok);
        let newest = heads.into_iter().flatten().max_by_key(|head| head.size);
        match (newest, errors.pop()) {
            (None, Some(Err(error))) => Err(error),
            (newest, _) => Ok(newest),
        }
    }
}

/// The note in a slot: its padding removed but for the one line end that belongs to it.
fn text_of(slot: &[u8]) -> String {
    let text = String::from_utf8_lossy(slot);
    let note = text.trim_end_matches('\n');
    if note.is_empty() { String::new() } else { format!("{note}\n") }
}

/// Makes the creation or renaming of `path` durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| StoreError::File { doing: "sync", path: folder.into(), cause })
}
