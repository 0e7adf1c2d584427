//! Reading, with every row checked before anybody sees it.

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::Record;
use custody_kernel::state::State;
use custody_log::{Digest, EntryId, Hash, Seq, leaf_hash};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::{StoreError, Tampering};
use crate::ledger::Ledger;
use crate::schema::sql;

/// A record, compared with the leaf that was signed.
pub(crate) fn record(
    connection: &Connection,
    ledger: &Ledger,
    seq: Seq,
) -> Result<Record, StoreError> {
    if seq.0 >= ledger.len() {
        return Err(StoreError::UnknownEntry(seq.to_string()));
    }
    let mut select = connection.prepare_cached("SELECT record FROM log WHERE seq = ?1")?;
    let bytes: Option<Vec<u8>> = select.query_row([sql(seq)], |row| row.get(0)).optional()?;
    ledger.check(seq, &bytes.ok_or(Tampering::MissingRecord(seq.0))?)
}

/// The bytes of the first `size` records in order, each compared with the leaf that was signed.
pub(crate) fn scan<E: From<StoreError>>(
    connection: &Connection,
    ledger: &Ledger,
    size: u64,
    mut look: impl FnMut(Seq, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let select = "SELECT seq, record FROM log WHERE seq < ?1 ORDER BY seq";
    let mut select = connection.prepare_cached(select).map_err(StoreError::from)?;
    let mut rows = select.query([sql(Seq(size.min(ledger.len())))]).map_err(StoreError::from)?;
    for (at, leaf) in (0..size).zip(ledger.leaves()) {
        let row = rows.next().map_err(StoreError::from)?;
        look(Seq(at), signed_row(row, at, leaf)?)?;
    }
    Ok(())
}

/// The bytes of a row, which must be record `at` and have its leaf hash.
fn signed_row<'a>(row: Option<&'a Row<'_>>, at: u64, leaf: &Hash) -> Result<&'a [u8], StoreError> {
    let row = row.ok_or(Tampering::MissingRecord(at))?;
    if u64::try_from(row.get::<_, i64>(0)?) != Ok(at) {
        return Err(Tampering::MissingRecord(at).into());
    }
    let bytes = row.get_ref(1)?.as_blob().map_err(|_| Tampering::OtherRecord(at))?;
    if leaf_hash(bytes) != *leaf {
        return Err(Tampering::OtherRecord(at).into());
    }
    Ok(bytes)
}

/// A content that can be retrieved, compared with its commitment.
pub(crate) fn content(
    connection: &Connection,
    state: &State,
    content: ContentRef,
) -> Result<Vec<u8>, StoreError> {
    if state.is_out(content.arrival) && !state.is_purged(content.arrival) {
        return Err(StoreError::Quarantined(content.arrival));
    }
    any_content(connection, state, content)
}

/// The same, whether it is in quarantine or not. For labelling and for recovery itself.
pub(crate) fn any_content(
    connection: &Connection,
    state: &State,
    content: ContentRef,
) -> Result<Vec<u8>, StoreError> {
    if state.is_purged(content.arrival) {
        return Err(StoreError::Purged(content.arrival));
    }
    let seq = content.arrival.0;
    let mut select =
        connection.prepare_cached("SELECT salt, bytes FROM contents WHERE arrival = ?1")?;
    let row = select
        .query_row([sql(content.arrival)], |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get(1)?)))
        .optional()?;
    let (salt, bytes): ([u8; 16], Vec<u8>) = row.ok_or(Tampering::MissingContent(seq))?;
    if Digest::commit(&salt, &bytes) != content.commitment {
        return Err(Tampering::OtherContent(seq).into());
    }
    Ok(bytes)
}

/// The position of an entry. Which ids there are is known from the records, so that a deleted index row
/// shows instead of hiding an entry, and an id that nobody has costs no search.
pub(crate) fn position(
    connection: &Connection,
    ledger: &Ledger,
    id: EntryId,
) -> Result<Seq, StoreError> {
    if !ledger.knows(id) {
        return Err(StoreError::UnknownEntry(id.to_string()));
    }
    let mut select = connection.prepare_cached("SELECT seq FROM log WHERE id = ?1")?;
    let found: Option<i64> = select.query_row([id.as_bytes()], |row| row.get(0)).optional()?;
    match found.map(u64::try_from) {
        Some(Ok(seq)) if seq < ledger.len() && record(connection, ledger, Seq(seq))?.id == id => {
            Ok(Seq(seq))
        }
        _ => Err(Tampering::EntryIndex(id).into()),
    }
}

/// The entries made from `parent`, from the index, each checked in its own record; their number is
/// known from the records, so neither a missing nor an invented row passes.
pub(crate) fn children(
    connection: &Connection,
    ledger: &Ledger,
    parent: Seq,
) -> Result<Vec<Seq>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT child FROM edges WHERE parent = ?1 ORDER BY child")?;
    let rows = select.query_map([sql(parent)], |row| row.get::<_, i64>(0))?;
    let mut children = Vec::new();
    for row in rows {
        let child = Seq(u64::try_from(row?).map_err(|_| wrong_edges(parent))?);
        if child.0 >= ledger.len() || !record(connection, ledger, child)?.parents.contains(&parent)
        {
            return Err(wrong_edges(parent).into());
        }
        children.push(child);
    }
    if children.len() as u64 != u64::from(ledger.children_of(parent)) {
        return Err(wrong_edges(parent).into());
    }
    Ok(children)
}

fn wrong_edges(parent: Seq) -> Tampering {
    Tampering::Index { index: "edge", seq: parent.0 }
}

/// How many rows each table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCounts {
    /// Records.
    pub log: u64,
    /// Contents.
    pub contents: u64,
    /// Edges of the provenance graph.
    pub edges: u64,
    /// Fingerprints of texts.
    pub fingerprints: u64,
}

/// Counts the rows of each table.
pub(crate) fn row_counts(connection: &Connection) -> Result<RowCounts, StoreError> {
    Ok(RowCounts {
        log: count(connection, "SELECT count(*) FROM log")?,
        contents: count(connection, "SELECT count(*) FROM contents")?,
        edges: count(connection, "SELECT count(*) FROM edges")?,
        fingerprints: count(connection, "SELECT count(*) FROM fingerprints")?,
    })
}

fn count(connection: &Connection, query: &str) -> Result<u64, StoreError> {
    let rows: i64 = connection.query_row(query, [], |row| row.get(0))?;
    Ok(rows.unsigned_abs())
}

/// Shows the bytes of every row that is kept to `look`: contents, and records.
pub(crate) fn each_kept(
    connection: &Connection,
    mut look: impl FnMut(&[u8]),
) -> Result<(), StoreError> {
    for query in ["SELECT bytes FROM contents", "SELECT record FROM log"] {
        let mut select = connection.prepare(query)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            if let Ok(bytes) = row.get_ref(0)?.as_blob() {
                look(bytes);
            }
        }
    }
    Ok(())
}
