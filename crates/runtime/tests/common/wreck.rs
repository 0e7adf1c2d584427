//! The files of a store, as a kill would have left them.

use std::fs;
use std::path::Path;

use custody_runtime::clock::Clock;
use custody_runtime::{OpenError, Paths, Store};
use tempfile::TempDir;

use super::{Scratch, wal_of};

/// A folder in which stores are put together as kills left them; in memory where there is such a place.
pub struct Wreck {
    pub folder: TempDir,
    pub paths: Paths,
}

impl Wreck {
    pub fn of(scratch: &Scratch) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap();
        let paths =
            Paths { store: folder.path().join("custody.db"), keys: folder.path().join("keys") };
        copy_folder(&scratch.paths.keys, &paths.keys);
        Self { folder, paths }
    }

    pub fn put(&self, database: &[u8], wal: &[u8], head: &[u8]) {
        let _ = fs::remove_file(self.paths.store.with_extension("db-shm"));
        fs::write(&self.paths.store, database).unwrap();
        fs::write(wal_of(&self.paths.store), wal).unwrap();
        fs::write(self.paths.keys.join("head"), head).unwrap();
    }

    pub fn open(&self) -> Result<Store, OpenError> {
        Store::open(&self.paths, Clock::manual(9_000))
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_folder(&file.path(), &target);
        } else {
            fs::copy(file.path(), target).unwrap();
        }
    }
}
