//! The index of fingerprints: where texts that were recorded can be recognised again.
//!
//! Whoever labels what enters says what a fingerprint is and of which texts they are kept; the store keeps and finds
//! them. Few are kept at once in one turn of the writer. Those of a long text wait in slices, which later turns
//! insert, and until then they are found where they wait. What a row names is read and compared before anybody
//! believes it.

use std::ops::Range;

use custody_log::Seq;
use rusqlite::{Connection, Row};

use crate::error::{StoreError, Tampering};
use crate::schema::sql;
use crate::transaction::Transaction;
use crate::view::View;

/// How many fingerprints are inserted in one turn of the writer for one text, at most.
pub const FINGERPRINTS_PER_TURN: usize = 1024;

/// The bytes of a fingerprint that waits.
const WAITING_BYTES: usize = 24;

/// A place in a text by which it is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Whose text holds what, hashed with the key of the store.
    pub print: u64,
    /// What stands around it, hashed with the same key.
    pub around: u64,
    /// Which reading of the text.
    pub form: u32,
    /// Where in that reading.
    pub at: u32,
}

/// A fingerprint of a text that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// The entry with which the text arrived.
    pub arrival: Seq,
    /// The place in it.
    pub fingerprint: Fingerprint,
}

/// Fingerprints that are not in the index yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitingFingerprints {
    /// Of a text that nobody has fingerprinted: it was recorded by a version with another index.
    Text(Seq),
    /// Of a long text, a part of them.
    Slice(Vec<Occurrence>),
}

impl View<'_> {
    /// The key that fingerprints of this store are made with. It keeps others from choosing texts that collide, and
    /// never leaves the store.
    pub fn fingerprint_key(self) -> Result<[u8; 16], StoreError> {
        let mut select = self.connection().prepare_cached("SELECT key FROM fingerprint_key")?;
        Ok(select.query_row([], |row| row.get(0))?)
    }

    /// The first record whose fingerprints were made by this version of the index.
    pub fn fingerprinted_since(self) -> Result<Seq, StoreError> {
        let mut select = self.connection().prepare_cached("SELECT since FROM fingerprint_key")?;
        let since: i64 = select.query_row([], |row| row.get(0))?;
        Ok(Seq(since.unsigned_abs()))
    }

    /// The first `most` occurrences of `print` in texts that arrived within `arrivals`, the oldest first, as far as
    /// the index has them.
    pub fn occurrences(
        self,
        print: u64,
        arrivals: &Range<Seq>,
        most: usize,
    ) -> Result<Vec<Occurrence>, StoreError> {
        let mut select = self.connection().prepare_cached(
            "SELECT print, arrival, around, form, at FROM fingerprints
             WHERE print = ?1 AND arrival >= ?2 AND arrival < ?3 ORDER BY arrival, around LIMIT ?4",
        )?;
        // Positions below zero were put there, and are not passed over.
        let from = if arrivals.start == Seq(0) { i64::MIN } else { sql(arrivals.start) };
        let to = sql(arrivals.end);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = select.query((print.cast_signed(), from, to, most))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(occurrence(row, self.len())?);
        }
        Ok(found)
    }

    /// Every occurrence that arrived at or after `from`, `most` at most.
    pub fn occurrences_since(self, from: Seq, most: usize) -> Result<Vec<Occurrence>, StoreError> {
        let mut select = self.connection().prepare_cached(
            "SELECT print, arrival, around, form, at FROM fingerprints
             WHERE arrival >= ?1 ORDER BY arrival LIMIT ?2",
        )?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rows = select.query((sql(from), most))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(occurrence(row, self.len())?);
        }
        Ok(found)
    }

    /// Whether fingerprints wait to be inserted.
    pub fn has_waiting_fingerprints(self) -> Result<bool, StoreError> {
        let mut select =
            self.connection().prepare_cached("SELECT 1 FROM fingerprints_waiting LIMIT 1")?;
        Ok(select.exists([])?)
    }

    /// The first `most` texts and slices of texts whose fingerprints wait, the oldest first.
    pub fn waiting_fingerprints(self, most: usize) -> Result<Vec<WaitingFingerprints>, StoreError> {
        let mut select = self.connection().prepare_cached(
            "SELECT arrival, prints FROM fingerprints_waiting ORDER BY arrival, slice LIMIT ?1",
        )?;
        let mut rows = select.query([i64::try_from(most).unwrap_or(i64::MAX)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let arrival = row.get::<_, i64>(0)?;
            let prints: Option<Vec<u8>> = row.get(1)?;
            let arrival = u64::try_from(arrival).map_err(|_| bad_row(self.len()))?;
            found.push(match prints {
                None => WaitingFingerprints::Text(Seq(arrival)),
                Some(prints) => WaitingFingerprints::Slice(unpack(Seq(arrival), &prints)?),
            });
        }
        Ok(found)
    }

    /// The fingerprints that the index has of one text, in the order of their bytes.
    pub fn fingerprints_of(self, arrival: Seq) -> Result<Vec<Fingerprint>, StoreError> {
        let mut select = self.connection().prepare_cached(
            "SELECT print, arrival, around, form, at FROM fingerprints WHERE arrival = ?1",
        )?;
        let mut rows = select.query([sql(arrival)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(occurrence(row, self.len())?.fingerprint);
        }
        Ok(found)
    }
}

impl Transaction<'_> {
    /// Keeps the fingerprints of the text that arrived with `arrival`: at once if there are few, else in slices that
    /// [`Transaction::insert_waiting_fingerprints`] inserts later.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn keep_fingerprints(
        &mut self,
        arrival: Seq,
        fingerprints: &[Fingerprint],
    ) -> Result<(), StoreError> {
        if fingerprints.len() <= FINGERPRINTS_PER_TURN {
            return insert(self.connection, arrival, fingerprints);
        }
        let mut keep = self.connection.prepare_cached(
            "INSERT OR REPLACE INTO fingerprints_waiting (arrival, slice, prints) VALUES (?1, ?2, ?3)",
        )?;
        for (slice, part) in (0_i64..).zip(fingerprints.chunks(FINGERPRINTS_PER_TURN)) {
            keep.execute((sql(arrival), slice, pack(part)))?;
        }
        Ok(())
    }

    /// Puts fingerprints in the place of those that the index has of the text that arrived with `arrival`.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn replace_fingerprints(
        &mut self,
        arrival: Seq,
        fingerprints: &[Fingerprint],
    ) -> Result<(), StoreError> {
        *self.indexed = true;
        for statement in [
            "DELETE FROM fingerprints WHERE arrival = ?1",
            "DELETE FROM fingerprints_waiting WHERE arrival = ?1",
        ] {
            self.connection.prepare_cached(statement)?.execute([sql(arrival)])?;
        }
        if self.state().is_purged(arrival) {
            return Ok(());
        }
        self.keep_fingerprints(arrival, fingerprints)
    }

    /// Keeps the fingerprints of a text that waited to be fingerprinted.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn keep_waiting_text(
        &mut self,
        arrival: Seq,
        fingerprints: &[Fingerprint],
    ) -> Result<(), StoreError> {
        *self.indexed = true;
        let mut delete = self.connection.prepare_cached(
            "DELETE FROM fingerprints_waiting WHERE arrival = ?1 AND prints IS NULL",
        )?;
        if delete.execute([sql(arrival)])? == 0 || self.state().is_purged(arrival) {
            return Ok(());
        }
        self.keep_fingerprints(arrival, fingerprints)
    }

    /// Inserts the oldest slice that waits. Returns whether there was one.
    ///
    /// # Errors
    /// When the index cannot be written, or what waits is none of ours.
    pub fn insert_waiting_fingerprints(&mut self) -> Result<bool, StoreError> {
        use rusqlite::OptionalExtension as _;
        let mut select = self.connection.prepare_cached(
            "SELECT arrival, slice, prints FROM fingerprints_waiting
             WHERE prints IS NOT NULL ORDER BY arrival, slice LIMIT 1",
        )?;
        let found = select.query_row([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        let Some((arrival, slice, prints)) = found.optional()? else { return Ok(false) };
        *self.indexed = true;
        let seq = Seq(u64::try_from(arrival).map_err(|_| bad_row(self.ledger.len()))?);
        let prints: Vec<Fingerprint> =
            unpack(seq, &prints)?.into_iter().map(|found| found.fingerprint).collect();
        insert(self.connection, seq, &prints)?;
        self.connection
            .prepare_cached("DELETE FROM fingerprints_waiting WHERE arrival = ?1 AND slice = ?2")?
            .execute((arrival, slice))?;
        Ok(true)
    }
}

fn insert(
    connection: &Connection,
    arrival: Seq,
    fingerprints: &[Fingerprint],
) -> Result<(), StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO fingerprints (print, arrival, around, form, at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for Fingerprint { print, around, form, at } in fingerprints {
        insert.execute((print.cast_signed(), sql(arrival), around.cast_signed(), form, at))?;
    }
    Ok(())
}

fn occurrence(row: &Row<'_>, length: u64) -> Result<Occurrence, StoreError> {
    let arrival = u64::try_from(row.get::<_, i64>(1)?).map_err(|_| bad_row(length))?;
    let fingerprint = Fingerprint {
        print: row.get::<_, i64>(0)?.cast_unsigned(),
        around: row.get::<_, i64>(2)?.cast_unsigned(),
        form: place(row, 3, arrival)?,
        at: place(row, 4, arrival)?,
    };
    Ok(Occurrence { arrival: Seq(arrival), fingerprint })
}

fn place(row: &Row<'_>, column: usize, arrival: u64) -> Result<u32, StoreError> {
    u32::try_from(row.get::<_, i64>(column)?).map_err(|_| bad_row(arrival))
}

fn bad_row(seq: u64) -> StoreError {
    Tampering::Index { index: "fingerprint", seq }.into()
}

fn pack(fingerprints: &[Fingerprint]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(fingerprints.len() * WAITING_BYTES);
    for Fingerprint { print, around, form, at } in fingerprints {
        bytes.extend_from_slice(&print.to_le_bytes());
        bytes.extend_from_slice(&around.to_le_bytes());
        bytes.extend_from_slice(&form.to_le_bytes());
        bytes.extend_from_slice(&at.to_le_bytes());
    }
    bytes
}

fn unpack(arrival: Seq, bytes: &[u8]) -> Result<Vec<Occurrence>, StoreError> {
    let rows = bytes.chunks(WAITING_BYTES).map(|row| {
        let (print, row) = row.split_first_chunk::<8>()?;
        let (around, row) = row.split_first_chunk::<8>()?;
        let (form, row) = row.split_first_chunk::<4>()?;
        let fingerprint = Fingerprint {
            print: u64::from_le_bytes(*print),
            around: u64::from_le_bytes(*around),
            form: u32::from_le_bytes(*form),
            at: u32::from_le_bytes(row.try_into().ok()?),
        };
        Some(Occurrence { arrival, fingerprint })
    });
    rows.collect::<Option<_>>().ok_or_else(|| bad_row(arrival.0))
}
