//! Vectors of texts, one for each model and arrival. They only say where to look.
//!
//! A row does not say whose its text is: the record does. Whoever searches names the arrivals that they may see.

use custody_log::{Digest, Seq};
use rusqlite::{Connection, OptionalExtension};

use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::schema::sql;

/// The arrivals of texts that have no vector of this model, ascending.
pub(crate) fn missing(
    connection: &Connection,
    ledger: &Ledger,
    model: Digest,
) -> Result<Vec<Seq>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT arrival FROM contents WHERE arrival NOT IN \
         (SELECT arrival FROM vectors WHERE model = ?1) ORDER BY arrival",
    )?;
    let rows = select.query_map([model.0], |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let seq = Seq(u64::try_from(row?).unwrap_or(u64::MAX));
        if seq.0 < ledger.len() && !ledger.state().is_of_recovery(seq) {
            found.push(seq);
        }
    }
    Ok(found)
}

/// The vector of the text that arrived with `arrival`, if this model made one.
pub(crate) fn of(
    connection: &Connection,
    model: Digest,
    arrival: Seq,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT vector FROM vectors WHERE model = ?1 AND arrival = ?2")?;
    Ok(select.query_row((model.0, sql(arrival)), |row| row.get(0)).optional()?)
}

/// The cosine of two vectors of length 1, the second as it is stored; −1 if their dimensions differ.
pub fn cosine(sought: &[f32], stored: &[u8]) -> f64 {
    if stored.len() != sought.len() * 4 {
        return -1.0;
    }
    let numbers =
        stored.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap_or_default()));
    numbers.zip(sought).map(|(one, other)| f64::from(one) * f64::from(*other)).sum()
}

/// A vector as it is stored.
pub fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Shows every vector of a model to `look`, with its arrival.
pub(crate) fn each(
    connection: &Connection,
    ledger: &Ledger,
    model: Digest,
    mut look: impl FnMut(Seq, &[u8]),
) -> Result<(), StoreError> {
    let mut select =
        connection.prepare_cached("SELECT arrival, vector FROM vectors WHERE model = ?1")?;
    let mut rows = select.query([model.0])?;
    while let Some(row) = rows.next()? {
        let entry = Seq(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX));
        if entry.0 < ledger.len() {
            look(entry, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
        }
    }
    Ok(())
}
