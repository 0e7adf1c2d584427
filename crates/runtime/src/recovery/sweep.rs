//! Sweeping: what was destroyed leaves the disk, the write-ahead log and the free pages too.
//!
//! SQLite overwrites what is deleted with zeros (`secure_delete`), but old pages stand in the write-ahead log until it
//! is cut off, and the full-text index keeps what it forgot until it is rewritten.

use rusqlite::{Connection, OpenFlags};

use super::RecoveryError;
use crate::store::{Store, StoreError, connect, index};

impl Store {
    /// Sees to it that what was destroyed is not on the disk any more. May be run again.
    ///
    /// # Errors
    /// [`RecoveryError::StillRead`] while somebody reads a moment before it.
    pub fn sweep(&self) -> Result<(), StoreError> {
        let connection = connect(self.path(), OpenFlags::empty())?;
        cut_off(&connection)?;
        index::compact(&connection)?;
        cut_off(&connection)
    }

    /// Writes the whole database anew, so that no page is left of what it was. Linear in the store.
    ///
    /// # Errors
    /// As [`Store::sweep`].
    pub fn rewrite(&self) -> Result<(), StoreError> {
        let connection = connect(self.path(), OpenFlags::empty())?;
        connection.execute("VACUUM", [])?;
        cut_off(&connection)
    }
}

/// Writes the write-ahead log back and cuts it off.
fn cut_off(connection: &Connection) -> Result<(), StoreError> {
    let busy: i64 =
        connection.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |row| row.get(0))?;
    if busy != 0 {
        return Err(RecoveryError::StillRead.into());
    }
    Ok(())
}
