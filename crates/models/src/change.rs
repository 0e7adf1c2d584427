//! One change of the models folder at a time, and nothing half-done under a final name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::folders::NewFolders;
use crate::incoming::PARTIAL;
use crate::install::{InstallError, at};

/// The right to change the models folder, held until dropped. A folder made for a change that brought
/// nothing goes again.
pub(crate) struct Change {
    folder: PathBuf,
    _lock: File,
    folders: NewFolders,
}

impl Change {
    /// Waits for nobody: who comes second is told so.
    pub(crate) fn begin(folder: &Path) -> Result<Self, InstallError> {
        let folders = NewFolders::make(folder).map_err(at(folder))?;
        let lock = lock_file(folder).map_err(at(folder))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(InstallError::Busy { folder: folder.into() });
            }
            Err(fs::TryLockError::Error(cause)) => return Err(at(folder)(cause)),
        }
        let change = Self { folder: folder.into(), _lock: lock, folders };
        change.sweep().map_err(at(folder))?;
        Ok(change)
    }

    /// Something was brought.
    pub(crate) fn keep(&self) {
        self.folders.keep();
    }

    /// Deletes what a change that was killed left: nobody else is changing anything now.
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

/// What is locked: the folder itself, so that no lock file is left behind, or a file where folders cannot
/// be opened.
fn lock_file(folder: &Path) -> io::Result<File> {
    if cfg!(unix) {
        File::open(folder)
    } else {
        File::create(folder.join(format!("{PARTIAL}lock")))
    }
}

/// A folder being filled, deleted unless it takes its place.
pub(crate) struct Staged(PathBuf);

impl Staged {
    /// An empty one beside the final place.
    pub(crate) fn new(folder: &Path, name: &str) -> Result<Self, InstallError> {
        let path = folder.join(format!("{PARTIAL}{name}"));
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(Self(path))
    }

    /// Where the file `name` goes.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Renames it to `dir`, in place of what is there.
    pub(crate) fn take_the_place_of(self, dir: &Path) -> Result<(), InstallError> {
        let mut old = self.0.clone().into_os_string();
        old.push("-old");
        let old = PathBuf::from(old);
        if dir.exists() {
            fs::rename(dir, &old).map_err(at(dir))?;
        }
        if let Err(cause) = fs::rename(&self.0, dir) {
            // Back as it was, as far as that can be.
            let _ = fs::rename(&old, dir);
            return Err(at(dir)(cause));
        }
        // What is left of the old one is swept away by the next change.
        let _ = fs::remove_dir_all(&old);
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Renamed, it is not there any more.
        let _ = fs::remove_dir_all(&self.0);
    }
}
