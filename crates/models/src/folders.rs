//! Folders made for something that is to come, gone again if it does not.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders that had to be made. Dropped without [`NewFolders::keep`], those still empty go again.
#[derive(Debug)]
pub struct NewFolders {
    /// Innermost first.
    made: Vec<PathBuf>,
    keeps: Cell<bool>,
}

impl NewFolders {
    /// Makes `folder`, and those above it that are missing.
    ///
    /// # Errors
    /// As [`fs::create_dir_all`].
    pub fn make(folder: &Path) -> io::Result<Self> {
        let made = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_path_buf)
            .collect();
        let new = Self { made, keeps: Cell::new(false) };
        fs::create_dir_all(folder)?;
        Ok(new)
    }

    /// It came: the folders stay.
    pub fn keep(&self) {
        self.keeps.set(true);
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        if !self.keeps.get() {
            for folder in &self.made {
                // Fails where something stands in it, which is then to be kept.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}
