//! A store on a medium that cannot or must not be written: opened so that nothing is made beside it (G5).
//!
//! Without a write-ahead log, SQLite opens the database as immutable. With one, it needs what the log holds,
//! and a file of shared memory beside the log to read it: both are copied to a temporary folder of this user's
//! and opened there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::error::StoreError;
use crate::schema;

/// A database that is only read, and what has to stay while it is.
pub(crate) struct Frozen {
    store: PathBuf,
    /// The copy, if there is a write-ahead log.
    copy: Option<TempDir>,
}

impl Frozen {
    /// Finds out how the database can be read, and copies it if it must be.
    pub(crate) fn of(store: &Path) -> Result<Self, StoreError> {
        let log = beside(store, "-wal");
        let is_logged = match fs::metadata(&log) {
            Ok(metadata) => metadata.len() > 0,
            Err(cause) if cause.kind() == ErrorKind::NotFound => false,
            Err(cause) => return Err(StoreError::File { doing: "read", path: log, cause }),
        };
        let copy = if is_logged { Some(copy(store, &log)?) } else { None };
        Ok(Self { store: store.into(), copy })
    }

    /// Opens it, with its tables as they must be.
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        let connection = match &self.copy {
            Some(folder) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(folder.path().join(COPY), flags)?
            }
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                    | OpenFlags::SQLITE_OPEN_URI
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(immutable(&self.store)?, flags)?
            }
        };
        schema::prepare_to_read(&connection)?;
        Ok(connection)
    }
}

/// The name of a copied database.
const COPY: &str = "copy.db";

fn copy(store: &Path, log: &Path) -> Result<TempDir, StoreError> {
    // Made with mode 0700, and deleted when it is dropped.
    let folder = tempfile::tempdir().map_err(|cause| StoreError::File {
        doing: "make a temporary folder to read",
        path: store.into(),
        cause,
    })?;
    let to = folder.path().join(COPY);
    for (from, to) in [(store, to.clone()), (log, beside(&to, "-wal"))] {
        let copied = fs::read(from).and_then(|bytes| fs::write(&to, bytes));
        copied.map_err(|cause| StoreError::File { doing: "copy", path: from.into(), cause })?;
    }
    Ok(folder)
}

/// The file that SQLite keeps beside a database.
fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The name under which SQLite takes a file as one that nobody changes: it makes no lock and no file beside it.
fn immutable(store: &Path) -> Result<String, StoreError> {
    let path = std::path::absolute(store);
    let path =
        path.map_err(|cause| StoreError::File { doing: "find", path: store.into(), cause })?;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    Ok(uri)
}
