//! The signed head: the store's size and root, kept in another folder than the store.
//!
//! One file with two slots that are written in turn, so that a torn write leaves the one before it.
//! The file has its full length from the start: writing a head changes data and no metadata, and one
//! data sync makes it durable.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use custody_log::Checkpoint;

use crate::disk::sync_folder;
use crate::error::StoreError;
use crate::ledger::{Ledger, claimed_size};

const SLOT: usize = 1024;

/// The head file of one store. Opened by its name each time, so that a file that was deleted or
/// replaced is not written to in its absence.
#[derive(Debug)]
pub(crate) struct Head {
    path: PathBuf,
    /// Notes of this store that verified, with the sizes they speak of; no need to verify them again.
    verified: Vec<(String, u64)>,
}

impl Head {
    /// Creates the file, empty.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path);
        file.and_then(|mut file| {
            file.write_all(&[b'\n'; 2 * SLOT])?;
            file.sync_all()
        })
        .map_err(|cause| StoreError::File {
            doing: "create",
            path: path.into(),
            cause,
        })?;
        sync_folder(path)?;
        Ok(Self::at(path))
    }

    /// The file, if there is one.
    pub(crate) fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        match File::open(path) {
            Ok(_) => Ok(Some(Self::at(path))),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(StoreError::File { doing: "open", path: path.into(), cause }),
        }
    }

    /// The file at `path`, which need not be there.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.into(), verified: Vec::new() }
    }

    /// What stands in the file now, to be verified once the log is read.
    pub(crate) fn slots(&self) -> Result<Slots, StoreError> {
        let mut file = self.open(OpenOptions::new().read(true))?;
        self.slots_of(&mut file)
    }

    /// Puts `note` in place of the older head and syncs it, unless a head at least as large is there
    /// already: another process may have gone ahead.
    pub(crate) fn advance(&mut self, note: &str, ledger: &Ledger) -> Result<(), StoreError> {
        let mut file = self.open(OpenOptions::new().read(true).write(true))?;
        file.lock().map_err(|cause| self.failed("lock", cause))?;
        // Dropping the file unlocks it.
        self.advance_locked(&mut file, note, ledger)
    }

    fn advance_locked(
        &mut self,
        file: &mut File,
        note: &str,
        ledger: &Ledger,
    ) -> Result<(), StoreError> {
        let Slots(notes) = self.slots_of(file)?;
        // Only a signature makes a head. What a torn write left may claim any size, and must be
        // replaced before the head that still stands.
        let [first, second] = notes.map(|note| self.size_of(&note, ledger));
        if first.max(second) >= Some(ledger.len()) {
            return file.sync_data().map_err(|cause| self.failed("sync", cause));
        }
        self.write_slot(file, u64::from(first > second), note)?;
        self.remember(note.to_owned(), ledger.len());
        Ok(())
    }

    /// Writes `note` whatever stands there now: for an adoption, which an owner authorised.
    pub(crate) fn replace(&mut self, note: &str) -> Result<(), StoreError> {
        let mut file = self.open(OpenOptions::new().read(true).write(true))?;
        file.lock().map_err(|cause| self.failed("lock", cause))?;
        self.write_slot(&mut file, 0, note)?;
        self.write_slot(&mut file, 1, "")
    }

    fn size_of(&mut self, note: &str, ledger: &Ledger) -> Option<u64> {
        if let Some((_, size)) = self.verified.iter().find(|(known, _)| known == note) {
            return Some(*size);
        }
        let size = ledger.verify(note).ok()?.size;
        self.remember(note.to_owned(), size);
        Some(size)
    }

    fn remember(&mut self, note: String, size: u64) {
        self.verified.insert(0, (note, size));
        self.verified.truncate(2);
    }

    fn open(&self, options: &OpenOptions) -> Result<File, StoreError> {
        options.open(&self.path).map_err(|cause| {
            if cause.kind() == ErrorKind::NotFound {
                StoreError::NoHead(self.path.parent().unwrap_or(&self.path).into())
            } else {
                self.failed("open", cause)
            }
        })
    }

    fn slots_of(&self, file: &mut File) -> Result<Slots, StoreError> {
        let mut bytes = Vec::with_capacity(2 * SLOT);
        file.take(2 * SLOT as u64)
            .read_to_end(&mut bytes)
            .map_err(|cause| self.failed("read", cause))?;
        bytes.resize(2 * SLOT, b'\n');
        let (first, second) = bytes.split_at(SLOT);
        Ok(Slots([text_of(first), text_of(second)]))
    }

    fn write_slot(&self, file: &mut File, slot: u64, note: &str) -> Result<(), StoreError> {
        let mut bytes = note.as_bytes().to_vec();
        bytes.resize(SLOT, b'\n');
        file.seek(SeekFrom::Start(slot * SLOT as u64))
            .and_then(|_| file.write_all(&bytes))
            .and_then(|()| file.sync_data())
            .map_err(|cause| self.failed("write", cause))
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
    /// [`Tampering::Head`](crate::Tampering::Head) when something is written and none of it verifies.
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
    // Every read of the store comes by here, and most of a slot is padding.
    let end = slot.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let note = String::from_utf8_lossy(slot.get(..end).unwrap_or_default());
    if note.is_empty() { String::new() } else { format!("{note}\n") }
}
