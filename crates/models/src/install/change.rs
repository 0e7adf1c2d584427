//! Atomic changes of the model folder, one at a time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{InstallError, write_error};
use crate::folders::CreatedFolders;
use crate::incoming::PARTIAL;

/// An exclusive lock on the model folder, held until dropped. A folder created for a change that failed is removed.
pub(super) struct Change {
    folder: PathBuf,
    _lock: File,
    folders: CreatedFolders,
}

impl Change {
    /// Takes the lock, or fails at once if another process holds it.
    pub(super) fn begin(folder: &Path) -> Result<Self, InstallError> {
        let folders = CreatedFolders::create(folder).map_err(write_error(folder))?;
        let lock = lock_file(folder).map_err(write_error(folder))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(InstallError::Busy { folder: folder.into() });
            }
            Err(fs::TryLockError::Error(cause)) => return Err(write_error(folder)(cause)),
        }
        let change = Self { folder: folder.into(), _lock: lock, folders };
        change.sweep().map_err(write_error(folder))?;
        Ok(change)
    }

    /// Keeps a newly created folder: the change succeeded.
    pub(super) fn keep(&self) {
        self.folders.keep();
    }

    /// Deletes what an interrupted change left behind. Safe because the lock is held.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// The file to lock: the folder itself, so that no lock file is left behind, or a file where folders cannot be opened.
fn lock_file(folder: &Path) -> io::Result<File> {
    if cfg!(unix) {
        File::open(folder)
    } else {
        File::create(folder.join(format!("{PARTIAL}lock")))
    }
}

/// A folder under construction, deleted unless it replaces the final one.
pub(super) struct Staged(PathBuf);

impl Staged {
    /// An empty folder beside the final one.
    pub(super) fn new(folder: &Path, name: &str) -> Result<Self, InstallError> {
        let path = folder.join(format!("{PARTIAL}{name}"));
        fs::create_dir(&path).map_err(write_error(&path))?;
        Ok(Self(path))
    }

    /// The path of the file `name` in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Renames it to `dir`, replacing what is there.
    pub(super) fn replace(self, dir: &Path) -> Result<(), InstallError> {
        let mut old = self.0.clone().into_os_string();
        old.push("-old");
        let old = PathBuf::from(old);
        if dir.exists() {
            fs::rename(dir, &old).map_err(write_error(dir))?;
        }
        if let Err(cause) = fs::rename(&self.0, dir) {
            // Restores the old folder, as far as possible.
            let _ = fs::rename(&old, dir);
            return Err(write_error(dir)(cause));
        }
        // The next change deletes what is left of the old folder.
        let _ = fs::remove_dir_all(&old);
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Fails after a rename, when it no longer exists.
        let _ = fs::remove_dir_all(&self.0);
    }
}
