//! Folders created for a pending operation and removed if it fails.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Newly created folders. Those that are empty are removed on drop, unless [`CreatedFolders::keep`] was called.
#[derive(Debug)]
pub struct CreatedFolders {
    /// Innermost first.
    created: Vec<PathBuf>,
    is_kept: Cell<bool>,
}

impl CreatedFolders {
    /// Creates `folder` and its missing parents.
    ///
    /// # Errors
    /// Those of [`fs::create_dir_all`].
    pub fn create(folder: &Path) -> io::Result<Self> {
        let created = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_path_buf)
            .collect();
        let new = Self { created, is_kept: Cell::new(false) };
        fs::create_dir_all(folder)?;
        Ok(new)
    }

    /// Keeps the folders, because the operation succeeded.
    pub fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            for folder in &self.created {
                // Fails for a folder that is not empty, which is kept.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}
