//! The database file: opened, created for nobody else to read, and known again.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::{StoreError, Tampering};
use crate::schema;

/// Opens the database, with its tables as they must be.
pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    if flags.contains(OpenFlags::SQLITE_OPEN_CREATE) {
        create_private(path).map_err(|cause| StoreError::File {
            doing: "create",
            path: path.into(),
            cause,
        })?;
    }
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    schema::prepare(&connection)?;
    Ok(connection)
}

/// Makes the file and its folder, if they are not there, for nobody else to read. SQLite gives the
/// files it makes beside the database the same permissions.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut folders = std::fs::DirBuilder::new();
    let mut file = std::fs::OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folders.mode(0o700);
        file.mode(0o600);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        folders.recursive(true).create(folder)?;
    }
    file.append(true).create(true).open(path)?;
    Ok(())
}

/// Which file stands at a path, so that another one put there while the store is open is noticed:
/// SQLite goes on with the file that it opened, and what it writes there nobody would find again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    #[cfg(unix)]
    file: Option<(u64, u64)>,
}

impl Place {
    pub(crate) fn of(path: &Path) -> Self {
        Self {
            path: path.into(),
            #[cfg(unix)]
            file: std::fs::metadata(path).ok().map(|file| {
                use std::os::unix::fs::MetadataExt;
                (file.dev(), file.ino())
            }),
        }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if Self::of(&self.path) == *self { Ok(()) } else { Err(Tampering::Replaced.into()) }
    }
}
