//! The connections that the store is read with.
//!
//! Whoever takes one holds the lock of the ledger already, shared or alone, and asks for no other lock until it gives
//! the connection back: so nobody waits for a reader that waits for the writer.

use std::path::PathBuf;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

use crate::connection::{Place, connect};
use crate::error::StoreError;
use crate::head::Head;

/// The most connections. Each keeps up to 16 MB of pages; more readers than processors do not read faster.
const MAX_READERS: usize = 4;

/// A connection, and the head that is compared with what it reads.
pub(crate) type Reader = (Connection, Head);

/// Connections to read with. One is open from the start, and the others are opened when that many read at once.
pub(crate) struct Readers {
    first: Mutex<Reader>,
    others: Vec<Mutex<Option<Reader>>>,
    /// The database and its head, if more connections may be opened.
    at: Option<(Place, PathBuf)>,
}

impl Readers {
    /// One connection, and others when they are needed, to the database at `place` with its head at `head`.
    pub(crate) fn new(first: Reader, place: Place, head: PathBuf) -> Self {
        let others = (1..MAX_READERS).map(|_| Mutex::new(None)).collect();
        Self { first: Mutex::new(first), others, at: Some((place, head)) }
    }

    /// One connection for all.
    pub(crate) fn one(first: Reader) -> Self {
        Self { first: Mutex::new(first), others: Vec::new(), at: None }
    }

    /// Reads with whichever connection is free.
    pub(crate) fn with<R>(
        &self,
        read: impl FnOnce(&Connection, &Head) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        if let Some(first) = self.first.try_lock() {
            return read_with(&first, read);
        }
        if let Some((place, head)) = &self.at
            && let Some(mut other) = self.others.iter().find_map(Mutex::try_lock)
        {
            if other.is_none() {
                let connection = connect(&place.path, OpenFlags::empty())?;
                // Not kept if it is to another file that was put there.
                place.check()?;
                *other = Some((connection, Head::at(head)));
            }
            if let Some(reader) = &*other {
                return read_with(reader, read);
            }
        }
        read_with(&self.first.lock(), read)
    }
}

fn read_with<R>(
    reader: &Reader,
    read: impl FnOnce(&Connection, &Head) -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    let (connection, head) = reader;
    read(connection, head)
}
