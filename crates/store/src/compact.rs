//! Rewriting the files of a store, so that what was deleted is in none of them.

use rusqlite::{Connection, OpenFlags};

use crate::connection::connect;
use crate::error::StoreError;
use crate::index;
use crate::store::Store;

impl Store {
    /// Rewrites the full-text index and cuts the write-ahead log off. Returns whether that could be done: not while
    /// somebody reads an older moment. Linear in the index.
    pub fn compact(&self) -> Result<bool, StoreError> {
        let connection = connect(self.path(), OpenFlags::empty())?;
        if !truncate_log(&connection)? {
            return Ok(false);
        }
        index::compact(&connection)?;
        truncate_log(&connection)
    }

    /// Writes the whole database anew. Returns whether that could be done, as [`Store::compact`] does. Linear in the
    /// store.
    pub fn rewrite(&self) -> Result<bool, StoreError> {
        let connection = connect(self.path(), OpenFlags::empty())?;
        connection.execute("VACUUM", [])?;
        truncate_log(&connection)
    }
}

/// Writes the write-ahead log back and cuts it off, unless somebody reads pages in it.
fn truncate_log(connection: &Connection) -> Result<bool, StoreError> {
    let busy: i64 =
        connection.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |row| row.get(0))?;
    Ok(busy == 0)
}
